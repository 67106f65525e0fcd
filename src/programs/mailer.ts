import { randomUUID } from 'node:crypto'
import { composeMail } from '../tools/mail/message.ts'
import { parseSmtpUrl } from '../tools/mail/smtp-url.ts'
import { deliver } from '../tools/mail/smtp.ts'
import type { ServiceMail } from '../governance/service-mail.ts'
import type { Config } from '../shared/config.ts'

const patienceMilliseconds = 60_000

/**
 * Returns a function that sends a mail of the service itself, with the code of the tool `mail_send`. The mail goes from
 * `MAIL_FROM` through `SMTP_URL`. The function resolves if the mail server has certainly accepted the mail. Otherwise
 * it rejects. The person can then ask for the mail again, and a second copy does no harm. A mail ends with a final dot.
 * After this dot, the mail server may deliver the mail. So the function awaits `beforeDot` before it sends the dot.
 */
export function createMailer({
  tools,
}: Pick<Config, 'tools'>): (mail: ServiceMail, beforeDot?: () => Promise<void>) => Promise<void> {
  return async ({ to, subject, text }, beforeDot = async () => {}) => {
    const server = parseSmtpUrl(tools.smtpUrl)
    const message = await composeMail(
      { params: { to, subject, text: text.plain }, idempotencyKey: randomUUID() },
      tools.mailFrom,
    )
    await deliver(server, message, {
      signal: AbortSignal.timeout(patienceMilliseconds),
      pointOfNoReturn: beforeDot,
    })
  }
}
