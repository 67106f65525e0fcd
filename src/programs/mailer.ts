import { randomUUID } from 'node:crypto'
import { composeMail } from '../activities/tools/mail-message.ts'
import { parseSmtpUrl } from '../activities/tools/smtp-url.ts'
import { deliver } from '../activities/tools/smtp.ts'
import type { ServiceMail } from '../api/service-mail.ts'
import type { Config } from '../shared/config.ts'

const patienceMilliseconds = 60_000

/**
 * Returns a function that sends the service's own mails like `mail_send`, from `MAIL_FROM` through `SMTP_URL`. The
 * function resolves only if the mail server has certainly accepted the mail, and else rejects. After a rejection, the
 * person can ask for the mail again; a repeated mail does no harm. A final dot ends the mail, and the mail server may
 * deliver the mail once it has the dot. So the function awaits `beforeDot` before it sends the dot.
 */
export function createMailer({
  tools,
}: Pick<Config, 'tools'>): (mail: ServiceMail, beforeDot?: () => Promise<void>) => Promise<void> {
  return async (mail, beforeDot = async () => {}) => {
    const server = parseSmtpUrl(tools.smtpUrl)
    const message = await composeMail({ params: mail, idempotencyKey: randomUUID() }, tools.mailFrom)
    await deliver(server, message, {
      signal: AbortSignal.timeout(patienceMilliseconds),
      pointOfNoReturn: beforeDot,
    })
  }
}
