import { createHash } from 'node:crypto'
import { z } from 'zod'
import { keyIsWrong } from './connect.ts'
import { OutgoingError } from '../../shared/outgoing/outgoing.ts'
import { retryAfterOf } from '../../shared/outgoing/retry-after.ts'
import { boundsOf, Failures, isBroken, jsonOf, type Said } from '../kit/exchange.ts'
import { ToolError, type ServiceConnection, type ToolCall, type ToolParams } from '../kit/executor.ts'
import { parseMailbox, type Mailbox } from './addresses.ts'
import { addressed } from './message.ts'

/* Resend knows an `Idempotency-Key` for 24 hours: a second request is answered, but not sent again. */

type Output = { readonly message_id: string; readonly accepted: string[] }

/**
 * - `refused`: this request sent nothing. With `isOfContent`, an earlier one with the same content was refused too.
 * - `unclear`: no answer says whether the mail was sent, or Resend is still working on a request with this key.
 * - `taken`: Resend has a request with this key and other content.
 */
export type ResendAnswer =
  | { readonly kind: 'sent'; readonly output: Output }
  | { readonly kind: 'refused'; readonly isOfContent: boolean; error(): Promise<ToolError> }
  | { readonly kind: 'unclear' }
  | { readonly kind: 'taken' }

/** Resend's answers have less than 1 KiB. */
const mostBytes = 64 * 1024
const mostRecipients = 50

export interface Prepared {
  /** A cancellation of the run does not stop the request. */
  send(): Promise<ResendAnswer>
}

/** All requests of a call through one connection have the same bytes and key. Throws the errors of `addressed`. */
export function prepareForResend(
  { params, idempotencyKey }: Pick<ToolCall<ToolParams<'mail_send'>>, 'params' | 'idempotencyKey'>,
  connection: ServiceConnection<'mail'>,
): Prepared {
  const { to, cc, bcc, recipients } = addressed(params)
  if (recipients.length > mostRecipients)
    throw new ToolError(
      'mail_too_many_recipients',
      `the mail has ${recipients.length} recipients, and Resend takes ${mostRecipients}: send several mails`,
    )
  const body = JSON.stringify({
    from: written(parseMailbox('from', connection.credential.from)),
    to: to.map(written),
    ...(cc.length === 0 ? {} : { cc: cc.map(written) }),
    ...(bcc.length === 0 ? {} : { bcc: bcc.map(written) }),
    subject: params.subject,
    text: params.text,
    ...(params.html === undefined ? {} : { html: params.html }),
  })
  const key = createHash('sha256').update(idempotencyKey).digest('hex')
  return { send: () => exchange(connection, body, key, recipients) }
}

/** Other display names are not sent: no program can find another address in such a name. */
const plainName = /^[\p{L}\p{N}][\p{L}\p{M}\p{N} '._-]*$/u

const written = ({ name, address }: Mailbox): string =>
  plainName.test(name) ? `${name} <${address}>` : address

const accepted = z.object({ id: z.string().regex(/^[\w-]{1,100}$/) })

async function exchange(
  connection: ServiceConnection<'mail'>,
  body: string,
  key: string,
  recipients: readonly string[],
): Promise<ResendAnswer> {
  const send = connection.fetchWithin({ ...boundsOf('once', connection, null), bytes: mostBytes })
  const headers = {
    'user-agent': 'countersign',
    ...connection.headers,
    'content-type': 'application/json',
    'idempotency-key': key,
  }
  try {
    const answer = await send(`${connection.base}/emails`, { method: 'POST', headers, body })
    const json = jsonOf(await answer.text())
    if (!answer.ok) return refusal(connection, answer, json)
    const read = accepted.safeParse(json)
    if (!read.success) return { kind: 'unclear' }
    return { kind: 'sent', output: { message_id: read.data.id, accepted: [...recipients] } }
  } catch (error) {
    if (error instanceof OutgoingError) return unanswered(error)
    if (error instanceof ToolError) throw error
    return { kind: 'unclear' }
  }
}

const named = z.object({ name: z.string() })
const failures = new Failures({ prefix: 'mail', title: 'Resend' })

/** Does not quote Resend, whose texts repeat addresses. */
function refusal(
  connection: ServiceConnection<'mail'>,
  { status, headers }: Response,
  json: unknown,
): ResendAnswer {
  const name = named.safeParse(json).data?.name
  if (keyIsWrong(status, json) || (status === 401 && name !== 'restricted_api_key'))
    return { kind: 'refused', isOfContent: false, error: () => connection.expired() }
  if (status === 409) return { kind: name === 'invalid_idempotent_request' ? 'taken' : 'unclear' }
  if (isBroken(status)) return { kind: 'unclear' }
  const cause = new Error(`mail: ${status}`)
  if (status === 429 && name !== 'daily_quota_exceeded' && name !== 'monthly_quota_exceeded')
    return refused(failures.limited(cause, retryAfterOf(headers)))
  const said = refusals[status] ?? ['mail_refused', `Resend refused the mail (answer ${status})`]
  return { ...refused(failures.refused(said, cause)), isOfContent: contentStatuses.has(status) }
}

/** The reason is always the request's content. */
const contentStatuses: ReadonlySet<number> = new Set([400, 413, 422])

const refusals: Readonly<Record<number, Said>> = {
  400: ['mail_refused', 'Resend does not take this mail: check its recipients, subject and text'],
  401: ['mail_forbidden', 'the key of the connection may not send: connect one that may'],
  403: [
    'mail_forbidden',
    'Resend does not let this key send from this address: verify the domain of `from` there, and let the key use it',
  ],
  413: ['mail_too_large', 'the mail is larger than Resend takes: shorten it'],
  422: ['mail_refused', 'Resend does not take this mail: check its recipients, subject and text'],
  429: ['mail_quota_exceeded', 'the account at Resend has used up its quota: raise it there'],
}

function unanswered(cause: OutgoingError): ResendAnswer {
  const error = failures.unanswered(cause, 'once')
  return error instanceof ToolError ? refused(error) : { kind: 'unclear' }
}

function refused(why: ToolError) {
  return { kind: 'refused', isOfContent: false, error: () => Promise.resolve(why) } as const
}
