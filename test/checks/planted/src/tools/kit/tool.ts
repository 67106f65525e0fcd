export const tool = 'file_read'
