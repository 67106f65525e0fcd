import { invitationPage, resetPage } from './auth-pages.ts'
import type { ServiceMail } from './service-mail.ts'

type Text = Omit<ServiceMail, 'to'>

/* The service's own mails. `base` is what links begin with; tokens are hexadecimal, base64url or a JWT. */

export const verifyMail = (base: string, token: string): Text => ({
  subject: 'Confirm your address',
  text: `Somebody, probably you, signed up to Countersign with this address. This confirms that it is yours, within a day:

${base}/api/auth/verify-email?token=${token}&callbackURL=%2Fconsole%2F

If it was not you, do nothing.
`,
})

export const signUpAgainMail = (base: string): Text => ({
  subject: 'You have an account already',
  text: `Somebody, probably you, wanted to sign up to Countersign with this address, which has an account. Sign in instead;
if you have forgotten the password, ask for a new one:

${base}${resetPage}

If it was not you, do nothing.
`,
})

export const resetMail = (base: string, token: string): Text => ({
  subject: 'A new password',
  text: `Somebody, probably you, asked for a new password to Countersign. This link sets one, once and within an hour. It
ends every session:

${base}${resetPage}?token=${token}

If it was not you, do nothing: the password stays as it is.
`,
})

/** `inviter` is a confirmed address: the name of the organization is whatever they have chosen. */
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

This page says how to sign in, or up, with this address, and how to accept:

${base}${invitationPage}?token=${token}

If you know nothing of it, do nothing.
`,
})
