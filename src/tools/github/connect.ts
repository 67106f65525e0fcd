import { z } from 'zod'
import { baseUrl, byStatus, defineIntegration, secret, textIn } from '../kit/integration.ts'

const credential = z.strictObject({
  token: secret.describe('A personal access token, or a token of a GitHub App.'),
  base_url: baseUrl
    .optional()
    .describe('The API of GitHub Enterprise, such as `https://git.acme.com/api/v3`.'),
})

const ownAddress = 'https://api.github.com'

export const github = defineIntegration<z.output<typeof credential>>({
  name: 'github',
  title: 'GitHub',
  credential,
  addresses: ({ base_url }) => [base_url ?? ownAddress],
  ownAddresses: () => [ownAddress],
  headers: ({ token }) => ({
    authorization: `Bearer ${token}`,
    accept: 'application/vnd.github+json',
    'x-github-api-version': '2022-11-28',
  }),
  async check(_, ask) {
    const answer = await ask({ method: 'GET', path: '/user' })
    // The token of a GitHub App belongs to no user. So GitHub answers 403 with the message below, although the token is
    // valid.
    const isApp =
      answer.status === 403 && textIn(answer.json, 'message') === 'Resource not accessible by integration'
    if (isApp) return { kind: 'account', account: null }
    return byStatus(answer, (json) => textIn(json, 'login'))
  },
})
