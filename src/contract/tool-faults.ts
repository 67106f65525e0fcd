/*
 * The fault of a step's error says who must act before the call can succeed.
 *
 * - `caller`: the call is wrong. Its parameters must change, or the inputs from which these parameters come.
 * - `credential`: the connection is wrong. Its account, the rights of the account, or its address must change.
 * - `service`: the external service failed, or the network to the service failed. A later attempt can succeed.
 * - `policy`: a rule, a tool policy, a person's decision or a limit of the organization stopped the call.
 * - `installation`: a setting, a server or a program of this installation needs the attention of the operator.
 */

export const faults = ['caller', 'credential', 'service', 'policy', 'installation'] as const
export type Fault = (typeof faults)[number]

/**
 * All error codes that a step can have. Each key is the fault of its codes. A test compares these codes with the error
 * tables of the tools.
 */
const codesOf: Readonly<Record<Fault, readonly string[]>> = {
  caller: [
    ...['invalid_params', 'template_unresolved', 'resource_exhausted', 'output_too_large', 'run_too_large'],
    ...['response_too_large'],
    ...['file_not_found', 'file_not_text', 'file_outside_root', 'file_too_large'],
    ...['github_not_found', 'github_gone', 'github_too_large', 'github_refused', 'github_redirected'],
    ...['github_no_file', 'github_no_text', 'github_file_too_large'],
    ...['github_other_host', 'github_other_repository'],
    ...['google_not_found', 'google_gone', 'google_too_large', 'google_refused', 'google_other_file'],
    ...['jira_not_found', 'jira_refused', 'jira_too_large', 'jira_moved', 'jira_other_site'],
    ...['llm_refused', 'llm_too_long', 'llm_no_text'],
    ...['mail_address_invalid', 'mail_header_invalid', 'mail_too_many_recipients'],
    ...['mail_recipients_refused', 'mail_refused', 'mail_too_large'],
    ...['search_refused'],
    ...['slack_not_found', 'slack_archived', 'slack_thread_not_found', 'slack_text_refused'],
    ...['slack_name_taken', 'slack_name_refused', 'slack_user_not_found', 'slack_refused'],
    ...['trello_not_found', 'trello_list_not_found', 'trello_refused', 'trello_too_large'],
    ...['trello_other_card'],
  ],
  credential: [
    ...['tool_not_available', 'connection_expired', 'connection_lacks_scope', 'connection_replaced'],
    ...['access_token_refused'],
    ...['github_forbidden', 'github_bad_answer'],
    ...['google_forbidden', 'google_missing_scope', 'google_api_disabled', 'google_storage_full'],
    ...['google_readers_hidden', 'google_bad_answer', 'google_redirected'],
    ...['jira_forbidden'],
    ...['llm_forbidden', 'llm_not_found', 'llm_no_credit', 'llm_bad_answer', 'llm_redirected'],
    ...['mail_forbidden', 'mail_quota_exceeded', 'mail_redirected'],
    ...['search_forbidden', 'search_not_found', 'search_no_credit', 'search_bad_answer', 'search_redirected'],
    ...['slack_missing_scope', 'slack_forbidden', 'slack_not_in_channel', 'slack_account_not_linked'],
    ...['slack_bad_answer', 'slack_redirected'],
    ...['trello_forbidden', 'trello_bad_answer', 'trello_redirected'],
  ],
  service: [
    ...['timeout', 'not_made', 'access_token_unavailable'],
    ...['github_rate_limited', 'github_unavailable', 'github_unreachable'],
    ...['google_rate_limited', 'google_unavailable', 'google_unreachable'],
    ...['jira_rate_limited', 'jira_unavailable', 'jira_unreachable'],
    ...['llm_rate_limited', 'llm_unavailable', 'llm_unreachable'],
    ...['mail_rate_limited', 'mail_unreachable', 'mail_timeout', 'mail_key_taken'],
    ...['search_rate_limited', 'search_unavailable', 'search_unreachable'],
    ...['slack_rate_limited', 'slack_unavailable', 'slack_unreachable'],
    ...['trello_rate_limited', 'trello_unavailable', 'trello_unreachable'],
  ],
  policy: [
    ...['denied', 'rejected', 'expired', 'changed_too_often', 'quota_exceeded', 'readers_outside_policy'],
    ...['resolved_as_failed'],
  ],
  installation: [
    ...['tool_crashed', 'not_prepared', 'step_not_finished', 'stalled', 'superseded'],
    ...['secrets_unavailable'],
    ...['file_not_readable', 'llm_no_price'],
    ...['jira_bad_answer', 'jira_redirected'],
    ...['mail_not_configured', 'mail_login_failed', 'mail_tls_failed'],
  ],
}

const faultByCode: ReadonlyMap<string, Fault> = new Map(
  faults.flatMap((fault) => codesOf[fault].map((code) => [code, fault] as const)),
)

/** Returns the fault of an error code. Returns null if the code is unknown. */
export const faultOf = (code: string): Fault | null => faultByCode.get(code) ?? null

/** All known codes. */
export const faultyCodes: readonly string[] = faults.flatMap((fault) => codesOf[fault])

/** The error code of a call to a tool that does not work in the organization. */
export const toolNotAvailable = 'tool_not_available'
/** The error code of a call that fails because its connection was made without a right that the tool needs. */
export const connectionLacksScope = 'connection_lacks_scope'
/** The error code of a call that fails because the service no longer accepts the credential of the connection. */
export const connectionExpired = 'connection_expired'

/** Returns an error as steps store it. `retryable` is true if the same call could succeed later. */
export function stepError(
  { code, message }: { readonly code: string; readonly message: string },
  retryable = false,
): { code: string; message: string; fault?: Fault; retryable: boolean } {
  const fault = faultOf(code)
  return { code, message, ...(fault === null ? {} : { fault }), retryable }
}
