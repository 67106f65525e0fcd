import type { Budget } from '../budget.ts'

/** Longer texts are not read. */
export const longestText = 4096

/**
 * A reader of texts that spends budget in proportion to its work, so that a plan with thousands of long texts ends
 * early. Make it once for a module, because a budget keeps the results of each reader.
 */
export const priced =
  <T>(read: (text: string) => T) =>
  (text: string, budget: Budget): readonly T[] => {
    budget.spend(Math.min(text.length, longestText) >> 2)
    return [read(text)]
  }
