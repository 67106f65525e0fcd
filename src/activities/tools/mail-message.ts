import { createHash } from 'node:crypto'
import MailComposer from 'nodemailer/lib/mail-composer'
import { ToolError, type ToolCall } from './executor.ts'
import {
  envelopeRecipients,
  parseMailbox,
  parseRecipients,
  refuseEncodedWords,
  refuseHeaderBreaks,
  type Mailbox,
} from './mail-addresses.ts'
import type { ToolParams } from './params.ts'

/** A message ready to leave: its envelope and its bytes (RFC 5322, lines ended by CRLF). */
export interface Mail {
  readonly messageId: string
  readonly from: string
  readonly recipients: readonly string[]
  readonly raw: Buffer
}

/**
 * Builds the message of one call. The same call always gets the same Message-ID, so that a mailbox that received it
 * twice (a person chose to retry an unknown outcome) shows it once where mail programs compare ids.
 *
 * @throws ToolError `mail_header_invalid`, `mail_address_invalid`, `mail_too_many_recipients`,
 *   `mail_not_configured` (MAIL_FROM)
 */
export async function composeMail(
  call: Pick<ToolCall<ToolParams<'mail_send'>>, 'params' | 'idempotencyKey'>,
  mailFrom: string,
): Promise<Mail> {
  const { params } = call
  refuseHeaderBreaks('subject', params.subject)
  refuseEncodedWords('subject', params.subject)
  const to = parseRecipients('to', params.to)
  const cc = parseRecipients('cc', params.cc)
  const bcc = parseRecipients('bcc', params.bcc)
  const recipients = envelopeRecipients(to, cc, bcc)
  const from = parseSender(mailFrom)
  const messageId = messageIdOf(call.idempotencyKey)
  // `bcc` is in the envelope alone and never in a header
  const composer = new MailComposer({
    from,
    to: [...to],
    cc: [...cc],
    subject: params.subject,
    text: params.text,
    ...(params.html === undefined ? {} : { html: params.html }),
    messageId,
    disableFileAccess: true,
    disableUrlAccess: true,
    newline: 'win',
  })
  return { messageId, from: from.address, recipients, raw: await composer.compile().build() }
}

/** `<…@countersign>` from the call's idempotency key, which may itself say too much to leave the house. */
export function messageIdOf(idempotencyKey: string): string {
  return `<${createHash('sha256').update(idempotencyKey).digest('hex').slice(0, 40)}@countersign>`
}

function parseSender(mailFrom: string): Mailbox {
  try {
    refuseHeaderBreaks('MAIL_FROM', mailFrom)
    return parseMailbox('MAIL_FROM', mailFrom)
  } catch (cause) {
    throw new ToolError(
      'mail_not_configured',
      'MAIL_FROM is no sender address; set it to `name@domain` or `Name <name@domain>`',
      { retryable: false, cause },
    )
  }
}
