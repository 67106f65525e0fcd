import type { Budget } from '../budget.ts'

export const longestText = 4096

/** Also spends for the length of the text. Wrap once per module: a budget keeps results for each wrapped function. */
export const priced =
  <T>(read: (text: string) => T) =>
  (text: string, budget: Budget): readonly T[] => {
    budget.spend(Math.min(text.length, longestText) >> 2)
    return [read(text)]
  }
