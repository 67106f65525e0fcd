import { invitationPage, resetPage } from './auth-pages.ts'
import type { ServiceMail } from './service-mail.ts'

type Text = Omit<ServiceMail, 'to'>

/* Mails that the service sends itself. Links begin with `base`; tokens are hexadecimal, base64url or a JWT. */

export const verifyMail = (base: string, token: string): Text => ({
  subject: 'Confirm your address',
  text: `Somebody, probably you, signed up to Countersign with this address. Open this link within a day to confirm that it is yours:

${base}/api/auth/verify-email?token=${token}&callbackURL=%2Fconsole%2F

If it was not you, do nothing.
`,
})

export const signUpAgainMail = (base: string): Text => ({
  subject: 'You already have an account',
  text: `Somebody, probably you, tried to sign up to Countersign with this address, which already has an account. Sign in instead.
If you have forgotten the password, ask for a new one:

${base}${resetPage}

If it was not you, do nothing.
`,
})

export const resetMail = (base: string, token: string): Text => ({
  subject: 'A new password',
  text: `Somebody, probably you, asked for a new password for Countersign. This link sets one. It works once, within an hour, and
ends every session:

${base}${resetPage}?token=${token}

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

This page says how to sign in or sign up with this address, and how to accept:

${base}${invitationPage}?token=${token}

If you do not expect this invitation, do nothing.
`,
})
