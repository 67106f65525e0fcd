import type { Executor } from './executor.ts'
import { composeMail } from './mail-message.ts'
import type { ToolParams } from './params.ts'
import { parseSmtpUrl } from './smtp-url.ts'
import { deliver } from './smtp.ts'

/**
 * Sends one mail: `{message_id, accepted}`, `accepted` being every address the server took it for (all or none). The
 * final dot of DATA leaves only after `pointOfNoReturn` has resolved (contract section 4: SMTP takes no key).
 *
 * @throws ToolError `mail_not_configured`, `mail_header_invalid`, `mail_address_invalid`, `mail_too_many_recipients`,
 *   `mail_recipients_refused`, `mail_refused`, `mail_too_large`, `mail_login_failed`, `mail_tls_failed`,
 *   `mail_timeout`, `mail_unreachable`: the mail was certainly not sent
 * @throws OutcomeUnknown when it may have been
 */
export const sendMail: Executor<ToolParams<'mail_send'>> = async (call, context) => {
  const server = parseSmtpUrl(context.tools.smtpUrl)
  const mail = await composeMail(call, context.tools.mailFrom)
  const accepted = await deliver(server, mail, context)
  return { output: { message_id: mail.messageId, accepted } }
}
