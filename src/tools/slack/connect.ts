import { z } from 'zod'
import { baseUrl, defineIntegration, secret, textIn } from '../kit/integration.ts'

const credential = z.strictObject({
  token: secret.describe('The token of a bot (`xoxb-…`) or a user (`xoxp-…`).'),
  base_url: baseUrl.optional().describe('Another address of the API; default `https://slack.com/api`.'),
})

const ownAddress = 'https://slack.com/api'

export const slack = defineIntegration<z.output<typeof credential>>({
  name: 'slack',
  title: 'Slack',
  credential,
  addresses: ({ base_url }) => [base_url ?? ownAddress],
  ownAddresses: () => [ownAddress],
  headers: ({ token }) => ({ authorization: `Bearer ${token}` }),
  async check(_, ask) {
    const { status, json } = await ask({ method: 'POST', path: '/auth.test' })
    if (status !== 200 || typeof json !== 'object' || json === null) return { kind: 'unclear', status }
    // Slack answers 200 to a wrong token too.
    if ((json as { ok?: unknown }).ok !== true) return refusal(textIn(json, 'error'))
    const names = [textIn(json, 'user'), textIn(json, 'team')].filter((name) => name !== null)
    return { kind: 'account', account: names.length === 0 ? null : names.join(', ') }
  },
})

const transient: ReadonlySet<string> = new Set([
  'ratelimited',
  'internal_error',
  'fatal_error',
  'service_unavailable',
])

function refusal(error: string | null) {
  if (error === null || transient.has(error)) return { kind: 'unclear', status: 200, isBusy: true } as const
  const shown = /^\w{1,60}$/.test(error) ? `it answered \`${error}\`` : 'it did not accept the token'
  return { kind: 'refused', why: shown } as const
}
