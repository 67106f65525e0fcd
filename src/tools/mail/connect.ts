import { z } from 'zod'
import { baseUrl, byStatus, defineIntegration, secret, textIn } from '../kit/integration.ts'

const ownAddress = 'https://api.resend.com'

const credential = z.strictObject({
  provider: z.literal('resend', { error: 'must be `resend`' }),
  api_key: secret.describe('An API key. One that may only send is enough.'),
  from: z
    .string()
    .max(320)
    .regex(
      /^(?:[^"<>()[\],;:\\@\p{Cc}]{1,64} <[^\s<>@]{1,64}@[\w.-]{1,255}>|[^\s<>@]{1,64}@[\w.-]{1,255})$/u,
      'must be an address of a domain that the account has verified: `name@domain` or `Name <name@domain>`',
    )
    .describe('The sender of every mail, of a domain that the account has verified.'),
  base_url: baseUrl.optional().describe('Another address of the API; on a host that the operator names.'),
})

export const mail = defineIntegration<z.output<typeof credential>>({
  name: 'mail',
  title: 'Resend',
  credential,
  addresses: ({ base_url }) => [base_url ?? ownAddress],
  ownAddresses: () => [ownAddress],
  headers: ({ api_key }) => ({ authorization: `Bearer ${api_key}`, accept: 'application/json' }),
  async check({ from }, ask) {
    const answer = await ask({ method: 'GET', path: '/domains' })
    const said = textIn(answer.json, 'name')
    // Such a key, which Resend knows, may only send, and not list domains.
    if (answer.status === 401 && said === 'restricted_api_key') return { kind: 'account', account: from }
    if (keyIsWrong(answer.status, answer.json))
      return { kind: 'refused', why: `it answered ${answer.status}: the key is wrong or was deleted` }
    return byStatus(answer, () => from)
  },
  // The other errors of `Failures` are unknown outcomes here, because a mail must not be sent twice.
  errors: {
    mail_rate_limited: ['service', 'nothing: the call waits as long as Resend asks', 'again'],
    mail_unreachable: ['service', 'nothing, or check `base_url`', 'again'],
    mail_forbidden: ['credential', 'verify the domain of `from` at Resend; let the key send from it'],
    mail_refused: ['caller', 'check recipients, subject and text; shorten the mail'],
    mail_too_large: ['caller', 'check recipients, subject and text; shorten the mail'],
    mail_quota_exceeded: ['credential', 'raise the quota at Resend, or wait for the next day or month'],
    mail_redirected: ['credential', 'correct `base_url`'],
    mail_address_invalid: ['caller', 'change the address, the header or the number of recipients'],
    mail_header_invalid: ['caller', 'change the address, the header or the number of recipients'],
    mail_too_many_recipients: ['caller', 'change the address, the header or the number of recipients'],
    mail_key_taken: ['service', 'look at Resend: it knows the key of this call with another mail'],
  },
})

/** Resend refuses the key itself. It documents 401 and 403 for this, but has also answered 400. */
export function keyIsWrong(status: number, json: unknown): boolean {
  const said = textIn(json, 'name')
  if (said === 'invalid_api_key' || said === 'missing_api_key') return true
  return (status === 400 || status === 401) && textIn(json, 'message') === 'API key is invalid'
}
