import { confirmPath, invitationPath, resetPath } from '../contract/pages.ts'
import { MailText, mailText, type ServiceMail } from '../governance/service-mail.ts'

type Text = Omit<ServiceMail, 'to'>

/*
 * The mails about accounts and invitations. Links begin with `base`. A token is hexadecimal, base64url or a JWT, so it
 * needs no escaping in a link.
 */

export const verifyMail = (base: string, token: string): Text => ({
  subject: 'Confirm your address',
  text: mailText`Somebody, probably you, signed up to Countersign with this address. Open this link within a day to confirm that it is yours:

${MailText.link(base, `${confirmPath}?token=${token}`)}

If it was not you, do nothing.
`,
})

export const signUpAgainMail = (base: string): Text => ({
  subject: 'You already have an account',
  text: mailText`Somebody, probably you, tried to sign up to Countersign with this address, which already has an account. Sign in instead.
If you have forgotten the password, ask for a new one:

${MailText.link(base, resetPath)}

If it was not you, do nothing.
`,
})

export const resetMail = (base: string, token: string): Text => ({
  subject: 'A new password',
  text: mailText`Somebody, probably you, asked for a new password for Countersign. This link sets one. It works once, within an hour, and
ends every session:

${MailText.link(base, `${resetPath}?token=${token}`)}

If it was not you, do nothing: the password stays as it is.
`,
})

/**
 * `inviter` is a confirmed address. `organization` is the name of the organization; null if the mail must not say it,
 * because its reader does not know the inviter (`INVITATION_NAMES`).
 */
export const invitationMail = (
  base: string,
  token: string,
  {
    organization,
    role,
    inviter,
  }: { readonly organization: string | null; readonly role: string; readonly inviter: string },
): Text => ({
  subject: 'An invitation to Countersign',
  text: mailText`${MailText.address(inviter)} invites you to ${organization === null ? mailText`an organization` : mailText`the organization ${organization}`} as ${MailText.sentence(role)}.

On this page you sign in or sign up with this address, and accept:

${MailText.link(base, `${invitationPath}?token=${token}`)}

If you do not expect this invitation, do nothing.
`,
})
