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

/** `raw` is RFC 5322, with lines that end with CRLF. */
export interface Mail {
  readonly messageId: string
  readonly from: string
  readonly recipients: readonly string[]
  readonly raw: Buffer
}

export interface Addressed {
  readonly to: readonly Mailbox[]
  readonly cc: readonly Mailbox[]
  readonly bcc: readonly Mailbox[]
  /** Each address once. */
  readonly recipients: readonly string[]
}

/** Throws `mail_header_invalid`, `mail_address_invalid`, `mail_too_many_recipients`. */
export function addressed(params: ToolParams<'mail_send'>): Addressed {
  refuseHeaderBreaks('subject', params.subject)
  refuseEncodedWords('subject', params.subject)
  const to = parseRecipients('to', params.to)
  const cc = parseRecipients('cc', params.cc)
  const bcc = parseRecipients('bcc', params.bcc)
  return { to, cc, bcc, recipients: envelopeRecipients(to, cc, bcc) }
}

/**
 * The same call always gets the same Message-ID: if a person retries an unknown outcome, a mail program that compares
 * them shows the mail once. Throws the errors of `addressed`, and `mail_not_configured` if MAIL_FROM cannot be read.
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

/** A hash, since the idempotency key contains internal ids. */
export function messageIdOf(idempotencyKey: string): string {
  return `<${createHash('sha256').update(idempotencyKey).digest('hex').slice(0, 40)}@countersign>`
}

/** Throws `mail_not_configured`. */
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
