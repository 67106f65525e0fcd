export const above = true
