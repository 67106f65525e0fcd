/* Metadata fields that several events of the audit log share. */

export function callFields() {
  return ['step_id', 'item_index', 'attempt', 'decision_id', 'params_hash', 'error_code'] as const
}

export function voteFields() {
  return ['approval_id', 'step_id', 'counting', 'needed', 'params_hash'] as const
}

export function ruleFields<const Id extends string>(id: Id) {
  return [id, 'name', 'rule_status', 'verdict', 'body_hash'] as const
}

export function policyFields() {
  return ['tool_name', 'role', 'allowed', 'restrictions', 'body_hash'] as const
}

export function overrideFields() {
  return ['tool_name', 'role', 'allowed'] as const
}

export function connectionFields() {
  return ['connection_id', 'integration', 'owner_id', 'account'] as const
}

export function webhookFields() {
  return ['webhook_id', 'host'] as const
}

export function keyFields() {
  return ['key_id', 'key_user_id', 'scopes'] as const
}

export function accountFields() {
  return ['happened_at', 'session_id', 'key_id'] as const
}
