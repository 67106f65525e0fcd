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
 * A mail goes to all its recipients or to none. SMTP, without a connection, has no idempotency key: its final dot
 * leaves only after `pointOfNoReturn` has resolved. After a ToolError (`mail_…`, also of smtp.ts and resend.ts) the
 * mail was certainly not sent; after OutcomeUnknown it may have been.
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
 * Both requests have the same key, so the mail is sent at most once, and the same content, so a refusal of the content
 * also refused the first. Any other refusal says nothing about it.
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
