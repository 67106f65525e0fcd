import type { Config } from '../shared/config.ts'
import { publicBase } from '../shared/config.ts'
import { secondFactorPage } from '../governance/access/second-factor.ts'
import { escape, htmlPage } from './html-page.ts'

/*
 * Pages that mails and error messages link to while there is no console. Each shows the same steps as curl commands.
 */

export const resetPage = '/console/reset-password'
export const invitationPage = '/console/invitation'

const tokenForm = /^[A-Za-z0-9_-]{16,200}$/

/** The page at one of the paths above. `token` comes from the address and is shown only if it has a token's form. */
export function authPage(config: Config, path: string, token: string | null): string {
  const base = publicBase(config)
  const shown = token !== null && tokenForm.test(token) ? token : 'TOKEN'
  const [title, intro, commands] = contents(path, base, shown)
  return htmlPage(
    title,
    `<p>${intro}</p>
<pre>${escape(commands)}</pre>`,
  )
}

const signIn = (base: string): string => `# sign in; cookies.txt then holds the session
curl -sS -c cookies.txt -b cookies.txt '${base}/api/auth/sign-in/email' \\
  -H 'Origin: ${new URL(base).origin}' -H 'Content-Type: application/json' \\
  -d '{"email": "you@example.com", "password": "..."}'
`

const post = (base: string, path: string, body: string): string =>
  `curl -sS -c cookies.txt -b cookies.txt '${base}${path}' \\
  -H 'Origin: ${new URL(base).origin}' -H 'Content-Type: application/json' -d '${body}'`

function contents(
  path: string,
  base: string,
  token: string,
): [title: string, intro: string, commands: string] {
  if (path === secondFactorPage)
    return [
      'A second factor',
      'An organization of yours requires a second factor. Add the key in <code>totpURI</code> to an authenticator app, keep the backup codes, and send the first code: this ends your other sessions. If you have a factor already, the <code>verify-totp</code> command proves it for a session that was opened without it. API keys that were made without a factor are confirmed once each.',
      `${signIn(base)}
# a key for the app, and backup codes
${post(base, '/api/auth/two-factor/enable', '{"password": "..."}')}

# the code that the app shows
${post(base, '/api/auth/two-factor/verify-totp', '{"code": "123456"}')}

# your API keys, and one that is yours
curl -sS -b cookies.txt '${base}/api/v1/api-keys'
${post(base, '/api/v1/api-keys/key_.../confirm', '{}')}`,
    ]
  if (path === resetPage)
    return [
      'A new password',
      'The token is in the mail that the first command sends.',
      `# a mail with a token
${post(base, '/api/auth/request-password-reset', '{"email": "you@example.com"}')}

# the new password; ends every session
${post(base, '/api/auth/reset-password', `{"token": "${token}", "newPassword": "..."}`)}`,
    ]
  return [
    'An invitation',
    'It can be accepted once, by the person whose confirmed address it was sent to. If you have an account, leave out the first two commands.',
    `# no account yet: sign up with the address that was invited
${post(base, '/api/auth/sign-up/email', '{"name": "...", "email": "you@example.com", "password": "..."}')}

# open the link of the mail that comes then, or send the token in it
curl -sS '${base}/api/auth/verify-email?token=...'

${signIn(base)}
# accept
${post(base, '/api/v1/invitations/accept', `{"token": "${token}"}`)}`,
  ]
}
