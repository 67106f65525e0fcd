import type { Budget } from '../budget.ts'

/** Maximum number of characters of a text that readers accept. Longer texts are not read. */
export const longestText = 4096

/**
 * Wraps a function that reads a text, so that it spends budget in proportion to the length of the text. So a plan with
 * thousands of long texts uses up its budget early. Wrap each function once per module, because a budget keeps the
 * results of each wrapped function.
 */
export const priced =
  <T>(read: (text: string) => T) =>
  (text: string, budget: Budget): readonly T[] => {
    budget.spend(Math.min(text.length, longestText) >> 2)
    return [read(text)]
  }
