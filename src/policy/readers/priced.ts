import type { Budget } from '../budget.ts'

/** Maximum number of characters of a text that readers accept. Longer texts are not read. */
export const longestText = 4096

/**
 * Makes a reader of texts that spends budget in proportion to the length of each text. So a plan with thousands of long
 * texts uses up its budget early. Make each reader once per module, because a budget keeps results by reader.
 */
export const priced =
  <T>(read: (text: string) => T) =>
  (text: string, budget: Budget): readonly T[] => {
    budget.spend(Math.min(text.length, longestText) >> 2)
    return [read(text)]
  }
