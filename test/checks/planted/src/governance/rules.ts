export const rules = []
