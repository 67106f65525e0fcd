import {
  OutcomeUnknown,
  ToolError,
  type Bodies,
  type FinderOf,
  type ToolBody,
  type ToolCall,
  type ToolContext,
  type ToolParams,
} from '../kit/executor.ts'
import { composeMail } from './message.ts'
import { prepareForResend, type ResendAnswer } from './resend.ts'
import { parseSmtpUrl } from './smtp-url.ts'
import { deliver } from './smtp.ts'
import type { tools } from './tools.ts'

/**
 * Sends one mail and returns `{message_id, accepted}`. `accepted` has every recipient, because a mail goes to all its
 * recipients or to none. The mail goes through the connection of the requester or the organization. Without a
 * connection, the mail goes over SMTP. SMTP has no idempotency key. So over SMTP, the final dot of DATA leaves only
 * after `pointOfNoReturn` has resolved.
 * @throws ToolError `mail_not_configured`, `mail_header_invalid`, `mail_address_invalid`, `mail_too_many_recipients`,
 *   `mail_recipients_refused`, `mail_refused`, `mail_too_large`, `mail_login_failed`, `mail_tls_failed`,
 *   `mail_timeout`, `mail_unreachable`, or an error of resend.ts. After each of these errors, the mail was certainly
 *   not sent.
 * @throws OutcomeUnknown if the mail may have been sent
 */
const sendMail: ToolBody<'mail_send'> = async (call, context) => {
  const connection = await context.tools.connectionIfAny(call, 'mail_send', 'mail')
  if (connection === null) return overSmtp(call, context)
  const mail = prepareForResend(call, connection)
  context.signal.throwIfAborted()
  await context.pointOfNoReturn(true)
  const answer = await mail.send()
  if (answer.kind === 'sent') return { output: answer.output }
  if (answer.kind === 'refused') throw await answer.error()
  throw new OutcomeUnknown('Resend did not say whether it has taken the mail')
}

async function overSmtp(call: ToolCall<ToolParams<'mail_send'>>, context: ToolContext) {
  const server = parseSmtpUrl(context.tools.smtpUrl)
  const mail = await composeMail(call, context.tools.mailFrom)
  const accepted = await deliver(server, mail, context)
  return { output: { message_id: mail.messageId, accepted } }
}

/**
 * Sends a mail again after the answer to the first request was lost. Both requests have the same key, so Resend sends
 * the mail at most once. Both requests also have the same content. So if Resend refuses the content, Resend has refused
 * the first request too. Every other refusal says nothing about the first request.
 */
const sendMailAgain: FinderOf<'mail_send'> = async (call, context) => {
  const connection = await context.tools.connection(call, 'mail_send', 'mail')
  const mail = prepareForResend(call, connection)
  await context.pointOfNoReturn(true)
  return read(await mail.send())
}

async function read(answer: ResendAnswer) {
  if (answer.kind === 'sent') return { kind: 'done', output: answer.output } as const
  if (answer.kind === 'refused' && answer.isOfContent) return { kind: 'absent' } as const
  if (answer.kind === 'refused') throw await answer.error()
  if (answer.kind === 'unclear') return { kind: 'unclear' } as const
  throw new ToolError('mail_key_taken', 'Resend knows the key of this call with another text')
}

export const run = { mail_send: { body: sendMail, find: sendMailAgain } } satisfies Bodies<typeof tools>
