import { z } from 'zod'
import { usualErrors } from '../kit/errors.ts'
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
  errors: {
    ...usualErrors('slack'),
    slack_missing_scope: ['credential', 'add the scope to the app, install it again, connect the new token'],
    slack_forbidden: ['credential', 'ask an administrator of the workspace for the right'],
    slack_not_in_channel: ['credential', 'invite the app to the channel'],
    slack_account_not_linked: ['credential', 'link the person’s account'],
    slack_not_found: ['caller', 'check the channel'],
    slack_archived: ['caller', 'check the channel'],
    slack_thread_not_found: ['caller', 'give the `ts` of a message in the channel'],
    slack_user_not_found: ['caller', 'name another person, or link the right account'],
    slack_text_refused: ['caller', 'change the text'],
    slack_refused: ['caller', 'change the text'],
    slack_name_taken: ['caller', 'choose another name'],
    slack_name_refused: ['caller', 'choose another name'],
  },
})

const transient: ReadonlySet<string> = new Set(
  'ratelimited internal_error fatal_error service_unavailable'.split(' '),
)

function refusal(error: string | null) {
  if (error === null || transient.has(error)) return { kind: 'unclear', status: 200, isBusy: true } as const
  const shown = /^\w{1,60}$/.test(error) ? `it answered \`${error}\`` : 'it did not accept the token'
  return { kind: 'refused', why: shown } as const
}
