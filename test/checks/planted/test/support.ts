export const support = 1
