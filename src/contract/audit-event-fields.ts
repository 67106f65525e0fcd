/* Metadata fields that several events of the audit log share. */

export const callFields = [
  'step_id',
  'item_index',
  'attempt',
  'decision_id',
  'params_hash',
  'error_code',
] as const

export const requestFields = [
  'approval_id',
  'step_id',
  'item_index',
  'session_id',
  'rule_name',
  'risk',
  'supersedes_id',
  'because',
] as const

export const voteFields = [
  'approval_id',
  'step_id',
  'item_index',
  'session_id',
  'counting',
  'needed',
  'params_hash',
] as const

export function ruleFields<const Id extends string>(id: Id) {
  return [id, 'name', 'rule_status', 'verdict', 'body_hash'] as const
}

export const policyFields = ['tool_name', 'role', 'allowed', 'restrictions', 'body_hash'] as const

export const overrideFields = ['tool_name', 'role', 'allowed'] as const

export const connectionFields = ['connection_id', 'integration', 'owner_id', 'account'] as const

export const webhookFields = ['webhook_id', 'host'] as const

export const keyFields = ['key_id', 'key_user_id', 'scopes'] as const

export const accountFields = ['happened_at', 'session_id', 'key_id'] as const
