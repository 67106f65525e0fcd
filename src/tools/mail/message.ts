import { createHash } from 'node:crypto'
import MailComposer from 'nodemailer/lib/mail-composer'
import { ToolError, type ToolCall, type ToolParams } from '../kit/executor.ts'
import {
  envelopeRecipients,
  parseMailbox,
  parseRecipients,
  refuseEncodedWords,
  refuseHeaderBreaks,
  type Mailbox,
} from './addresses.ts'

/**
 * A message that is ready to be sent. `raw` has the bytes of the message (RFC 5322). The lines of the message end with
 * CRLF.
 */
export interface Mail {
  readonly messageId: string
  readonly from: string
  readonly recipients: readonly string[]
  readonly raw: Buffer
}

/** The recipients of a mail, read from its parameters. */
export interface Addressed {
  readonly to: readonly Mailbox[]
  readonly cc: readonly Mailbox[]
  readonly bcc: readonly Mailbox[]
  /** All recipients, each address once. */
  readonly recipients: readonly string[]
}

/**
 * Checks a mail's subject, and reads its recipients.
 * @throws ToolError `mail_header_invalid`, `mail_address_invalid`, `mail_too_many_recipients`
 */
export function addressed(params: ToolParams<'mail_send'>): Addressed {
  refuseHeaderBreaks('subject', params.subject)
  refuseEncodedWords('subject', params.subject)
  const to = parseRecipients('to', params.to)
  const cc = parseRecipients('cc', params.cc)
  const bcc = parseRecipients('bcc', params.bcc)
  return { to, cc, bcc, recipients: envelopeRecipients(to, cc, bcc) }
}

/**
 * Builds the message of one call. The same call always gets the same Message-ID. If a person retries an unknown
 * outcome, the mail may arrive twice. A mail program that compares Message-IDs then shows the mail only once.
 * @throws ToolError `mail_header_invalid`, `mail_address_invalid`, `mail_too_many_recipients`, and
 *   `mail_not_configured` if MAIL_FROM cannot be read
 */
export async function composeMail(
  call: Pick<ToolCall<ToolParams<'mail_send'>>, 'params' | 'idempotencyKey'>,
  mailFrom: string,
): Promise<Mail> {
  const { params } = call
  const { to, cc, recipients } = addressed(params)
  const from = parseSender(mailFrom)
  const messageId = messageIdOf(call.idempotencyKey)
  // `bcc` is only in the envelope, never in a header.
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

/** Returns `<…@countersign>` with a hash of the call's idempotency key, since the key contains internal ids. */
export function messageIdOf(idempotencyKey: string): string {
  return `<${createHash('sha256').update(idempotencyKey).digest('hex').slice(0, 40)}@countersign>`
}

/** Reads the sender. Throws ToolError `mail_not_configured` if the sender cannot be read. */
export function parseSender(mailFrom: string): Mailbox {
  try {
    refuseHeaderBreaks('MAIL_FROM', mailFrom)
    return parseMailbox('MAIL_FROM', mailFrom)
  } catch (cause) {
    throw new ToolError(
      'mail_not_configured',
      'MAIL_FROM is not a sender address; set it to `name@domain` or `Name <name@domain>`',
      { cause },
    )
  }
}
