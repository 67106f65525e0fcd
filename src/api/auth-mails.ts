import { confirmPath, invitationPath, resetPath } from '../contract/pages.ts'
import type { ServiceMail } from './service-mail.ts'

type Text = Omit<ServiceMail, 'to'>

/*
 * The mails about accounts and invitations. Links begin with `base`. A token is hexadecimal, base64url or a JWT, so it
 * needs no escaping in a link.
 */

export const verifyMail = (base: string, token: string): Text => ({
  subject: 'Confirm your address',
  text: `Somebody, probably you, signed up to Countersign with this address. Open this link within a day to confirm that it is yours:

${base}${confirmPath}?token=${token}

If it was not you, do nothing.
`,
})

export const signUpAgainMail = (base: string): Text => ({
  subject: 'You already have an account',
  text: `Somebody, probably you, tried to sign up to Countersign with this address, which already has an account. Sign in instead.
If you have forgotten the password, ask for a new one:

${base}${resetPath}

If it was not you, do nothing.
`,
})

export const resetMail = (base: string, token: string): Text => ({
  subject: 'A new password',
  text: `Somebody, probably you, asked for a new password for Countersign. This link sets one. It works once, within an hour, and
ends every session:

${base}${resetPath}?token=${token}

If it was not you, do nothing: the password stays as it is.
`,
})

/** `inviter` is a confirmed address. The name of the organization can be any text that its owner chose. */
export const invitationMail = (
  base: string,
  token: string,
  {
    organization,
    role,
    inviter,
  }: { readonly organization: string; readonly role: string; readonly inviter: string },
): Text => ({
  subject: 'An invitation to Countersign',
  text: `${inviter} invites you to the organization "${organization}" as ${role}.

On this page you sign in or sign up with this address, and accept:

${base}${invitationPath}?token=${token}

If you do not expect this invitation, do nothing.
`,
})
