export const context = true
