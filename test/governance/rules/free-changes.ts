import * as settings from '../../../src/governance/rules/settings.ts'
import * as rules from '../../../src/governance/rules/rules.ts'
import { isHeld, type HeldChange } from '../../../src/governance/approvals/change.ts'

/* Changes in organizations whose setting `loosening` is `free`: none of them waits. */

const saved =
  <Given extends readonly unknown[], Made>(change: (...given: Given) => Promise<Made>) =>
  async (...given: Given): Promise<Exclude<Made, HeldChange>> => {
    const made = await change(...given)
    if (isHeld(made)) throw new Error('the change waits for a second person')
    return made as Exclude<Made, HeldChange>
  }

export const changeGovernance = saved(settings.changeGovernance)
export const createRule = saved(rules.createRule)
export const replaceRule = saved(rules.replaceRule)
export const patchRule = saved(rules.patchRule)
export const restoreRule = saved(rules.restoreRule)
export const deleteRule = saved(rules.deleteRule)

export { patchedBody, ruleRows, type RuleView } from '../../../src/governance/rules/rules.ts'
