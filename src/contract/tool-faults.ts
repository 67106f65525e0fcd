import { integrations } from '../tools/index.ts'
import { faults, type Fault } from '../tools/kit/errors.ts'

export type { Fault }

/** `integrations` declare further codes. A test compares all codes with the source of the tools. */
const codesOf: Readonly<Record<Fault, readonly string[]>> = {
  caller: [
    ...['invalid_params', 'template_unresolved', 'resource_exhausted', 'output_too_large', 'run_too_large'],
    ...['response_too_large'],
    ...['file_not_found', 'file_not_text', 'file_outside_root', 'file_too_large'],
    ...['mail_recipients_refused'],
  ],
  credential: [
    ...['tool_not_available', 'connection_expired', 'connection_lacks_scope', 'connection_replaced'],
    ...['access_token_refused'],
  ],
  service: [...['timeout', 'not_made', 'access_token_unavailable'], ...['mail_timeout']],
  policy: [
    ...['denied', 'rejected', 'expired', 'changed_too_often', 'quota_exceeded', 'readers_outside_policy'],
    ...['resolved_as_failed'],
  ],
  installation: [
    ...['tool_crashed', 'not_prepared', 'step_not_finished', 'stalled', 'superseded'],
    ...['secrets_unavailable'],
    ...['file_not_readable'],
    ...['mail_not_configured', 'mail_login_failed', 'mail_tls_failed'],
  ],
}

const all: readonly (readonly [code: string, fault: Fault])[] = [
  ...faults.flatMap((fault) => codesOf[fault].map((code) => [code, fault] as const)),
  ...Object.values(integrations).flatMap(({ errors }) =>
    Object.entries(errors).map(([code, [fault]]) => [code, fault] as const),
  ),
]
const faultByCode: ReadonlyMap<string, Fault> = new Map(all)

export const faultOf = (code: string): Fault | null => faultByCode.get(code) ?? null

export const faultyCodes: readonly string[] = all.map(([code]) => code)

/** `retryable`: the same call could succeed later. */
export function stepError(
  { code, message }: { readonly code: string; readonly message: string },
  retryable = false,
): { code: string; message: string; fault?: Fault; retryable: boolean } {
  const fault = faultOf(code)
  return { code, message, ...(fault === null ? {} : { fault }), retryable }
}
