import { z } from 'zod'
import { usualErrors } from '../kit/errors.ts'
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
    // The token of a GitHub App belongs to no user, so GitHub answers 403 although it is valid.
    const isApp =
      answer.status === 403 && textIn(answer.json, 'message') === 'Resource not accessible by integration'
    if (isApp) return { kind: 'account', account: null }
    return byStatus(answer, (json) => textIn(json, 'login'))
  },
  errors: {
    ...usualErrors('github'),
    github_rate_limited: ['service', 'nothing: the call waits as long as GitHub asks, or a minute', 'again'],
    github_forbidden: ['credential', 'give the token the right'],
    github_not_found: ['caller', 'check the repository and the number, and that the account may see them'],
    github_gone: ['caller', 'turn on issues in the repository'],
    github_refused: ['caller', 'check the values, and that the repository has the labels'],
    github_too_large: ['caller', 'shorten the text'],
    github_no_file: ['caller', 'name a text file'],
    github_no_text: ['caller', 'name a text file'],
    github_file_too_large: ['caller', 'name a file of at most 1 MB'],
    github_other_host: ['caller', 'give `owner/name`, or a link of the host of the connection'],
    github_redirected: ['caller', 'use the present name of the repository'],
    github_other_repository: ['caller', 'use the present name of the repository'],
  },
})
