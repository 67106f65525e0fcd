export const body = 1
