import type { JsonObject } from '../policy/types.ts'

/* The kinds of metadata fields in the audit log, and fields that several events share. */

/** A field that does not apply to an event is absent or null. */
export interface FieldValues {
  readonly text: string | null
  readonly number: number | null
  readonly flag: boolean | null
  readonly list: readonly string[]
  readonly object: JsonObject
}
export type FieldKind = keyof FieldValues

export const text = 'text'
export const number = 'number'
export const flag = 'flag'
export const list = 'list'
export const object = 'object'

export const callFields = {
  step_id: text,
  item_index: number,
  attempt: number,
  decision_id: text,
  params_hash: text,
  error_code: text,
} as const

export const rerunFields = {
  rerun_id: text,
  started: number,
  refused: number,
  not_started: number,
  reason: text,
} as const

/** `items` is only for a whole `for_each` step, and `item_index` and `error_code` only for a step without a tool. */
export const stepFields = {
  step_id: text,
  item_index: number,
  error_code: text,
  items: number,
  too_many_labels: flag,
} as const

const approvalFields = { approval_id: text, step_id: text, item_index: number, session_id: text } as const

export const requestFields = {
  ...approvalFields,
  rule_name: text,
  change: text,
  risk: text,
  supersedes_id: text,
  because: text,
} as const

export const voteFields = {
  ...approvalFields,
  counting: number,
  needed: number,
  params_hash: text,
  /** The absent person by whose right the voter decided. */
  for: text,
} as const

export const answerFields = { ...approvalFields, for: text } as const

/** `params` has names and no values. */
export const reviseFields = {
  ...answerFields,
  params: list,
  former_hash: text,
  params_hash: text,
} as const

/** Added to the entry of a change that a second person approved, and of one that files made (`organization.applied`). */
export const secondFields = {
  requested_by: text,
  approved_by: text,
  approval_id: text,
  apply_id: text,
} as const

/** `before` and `after` are left out if they are too long together; the version has them. */
const changeFields = {
  version: number,
  restored_from: number,
  before_hash: text,
  before: object,
  after_hash: text,
  after: object,
  ...secondFields,
} as const

const ruleFields = { name: text, rule_status: text, verdict: text, ...changeFields } as const
export const decidingRuleFields = { rule_id: text, ...ruleFields } as const
export const labelRuleFields = { label_rule_id: text, ...ruleFields } as const

export const policyFields = {
  tool_name: text,
  role: text,
  allowed: flag,
  ...changeFields,
} as const

export const overrideFields = { tool_name: text, role: text, allowed: flag, ...secondFields } as const

export const connectionFields = {
  connection_id: text,
  integration: text,
  owner_id: text,
  account: text,
  destination: text,
  own_host: flag,
} as const

export const slackFields = { member_id: text, service: text, external_id: text } as const

export const webhookFields = { webhook_id: text, host: text } as const

export const triggerFields = {
  trigger_id: text,
  name: text,
  kind: text,
  account_id: text,
  workflow_version: number,
  untrusted: flag,
  paused: flag,
} as const

/** `until` and `count` are for due times in a row. */
export const firingFields = {
  trigger_id: text,
  name: text,
  reason: text,
  due_at: text,
  until: text,
  count: number,
} as const

export const serviceAccountFields = { account_id: text, name: text, role: text } as const

export const keyFields = { key_id: text, key_user_id: text, scopes: list } as const

export const accountFields = { happened_at: text, session_id: text, key_id: text } as const
