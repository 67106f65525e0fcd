import { randomUUID } from 'node:crypto'
import { composeMail } from './activities/tools/mail-message.ts'
import { parseSmtpUrl } from './activities/tools/smtp-url.ts'
import { deliver } from './activities/tools/smtp.ts'
import type { ServiceMail } from './api/service-mail.ts'
import type { Config } from './config.ts'

const patienceMilliseconds = 60_000

/**
 * Sends the service's own mails the way `mail_send` does, from `MAIL_FROM` through `SMTP_URL`. Rejects when the mail was
 * not, or not certainly, taken: whoever asked for it asks again, which no mail of ours is harmed by.
 */
export function createMailer({ tools }: Pick<Config, 'tools'>): (mail: ServiceMail) => Promise<void> {
  return async (mail) => {
    const server = parseSmtpUrl(tools.smtpUrl)
    const message = await composeMail({ params: mail, idempotencyKey: randomUUID() }, tools.mailFrom)
    await deliver(server, message, {
      signal: AbortSignal.timeout(patienceMilliseconds),
      pointOfNoReturn: async () => {},
    })
  }
}
