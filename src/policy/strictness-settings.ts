import { quote } from './text.ts'
import type { GovernanceSettings } from './settings.ts'

/* Which direction of each setting is the strict one. */

interface Facts {
  /** Whether an active rule holds calls. */
  readonly hasHolds: boolean
}

type AsStrict<Value> = (after: Value, before: Value, facts: Facts) => boolean

const on: AsStrict<boolean> = (after, before) => after || !before
const off: AsStrict<boolean> = (after, before) => !after || before
/** It decides no call, and shows no value. */
const never: AsStrict<unknown> = () => true
const same: AsStrict<unknown> = (after, before) => JSON.stringify(after) === JSON.stringify(before)
const order =
  <Value>(...fromStrict: readonly Value[]): AsStrict<Value> =>
  (after, before) =>
    fromStrict.indexOf(after) <= fromStrict.indexOf(before)

const asStrict: { readonly [Name in keyof GovernanceSettings]: AsStrict<GovernanceSettings[Name]> } = {
  require_approval_for_external_comm: on,
  require_approval_for_public_writes: on,
  require_approval_for_permission_changes: on,
  allow_self_approval: off,
  approval_threshold: (after, before) => after >= before,
  category_flags: (after, before) =>
    Object.entries(before).every(
      ([name, flag]) => !flag || (Object.hasOwn(after, name) && after[name] === true),
    ),
  // While approvals are off, what a rule holds is denied, and no setting holds a run.
  approvals_enabled: (after, before, { hasHolds }) => after === before || (after && !hasHolds),
  approval_required_from: order<GovernanceSettings['approval_required_from']>(
    'low',
    'medium',
    'high',
    'critical',
    null,
  ),
  slack_approval_notifications: never,
  mail_approval_notifications: never,
  // Rules about side effects, labels and unclassed tools can begin and stop to match.
  external_tools: same,
  default_tool_access: order('deny', 'allow'),
  default_agent_access: order('deny', 'allow'),
  require_mfa: on,
  require_sso: on,
  keep_decision_params: never,
  run_values: order('participants', 'members', 'everyone'),
  restricted_labels: (after, before) => before.every((label) => after.includes(label)),
  trust_answers: off,
  loosening: order('second_person', 'free'),
}

/** Empty: every setting is proven to be as strict. */
export function whyLooserSettings(
  before: GovernanceSettings,
  after: GovernanceSettings,
  facts: Facts,
): string[] {
  const names = Object.keys({ ...before, ...after }) as (keyof GovernanceSettings)[]
  return names
    .filter((name) => {
      const check = asStrict[name] as AsStrict<unknown> | undefined
      return check === undefined
        ? !same(after[name], before[name], facts)
        : !check(after[name], before[name], facts)
    })
    .map((name) => `${quote(name)} may be less strict than now`)
}
