import type { Budget } from '../budget.ts'

/** Texts with more characters than this are not read. */
export const longestText = 4096

/**
 * Wraps a function that reads a text. The wrapped function also spends budget in proportion to the length of the text.
 * So a plan with thousands of long texts uses up its budget early. Wrap each function once per module, because a budget
 * keeps separate results for each wrapped function.
 */
export const priced =
  <T>(read: (text: string) => T) =>
  (text: string, budget: Budget): readonly T[] => {
    budget.spend(Math.min(text.length, longestText) >> 2)
    return [read(text)]
  }
