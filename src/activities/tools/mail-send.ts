import { composeMail } from './mail-message.ts'
import type { ToolBody } from './params.ts'
import { parseSmtpUrl } from './smtp-url.ts'
import { deliver } from './smtp.ts'

/**
 * Sends one mail and returns `{message_id, accepted}`. `accepted` has every recipient: the server takes the mail for
 * all or for none. The final dot of DATA leaves only after `pointOfNoReturn` has resolved, because SMTP has no
 * idempotency key.
 * @throws ToolError `mail_not_configured`, `mail_header_invalid`, `mail_address_invalid`, `mail_too_many_recipients`,
 * `mail_recipients_refused`, `mail_refused`, `mail_too_large`, `mail_login_failed`, `mail_tls_failed`,
 * `mail_timeout`, `mail_unreachable`: the mail was certainly not sent
 * @throws OutcomeUnknown if it may have been sent
 */
export const sendMail: ToolBody<'mail_send'> = async (call, context) => {
  const server = parseSmtpUrl(context.tools.smtpUrl)
  const mail = await composeMail(call, context.tools.mailFrom)
  const accepted = await deliver(server, mail, context)
  return { output: { message_id: mail.messageId, accepted } }
}
