export const child = 1
