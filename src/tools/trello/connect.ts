import { z } from 'zod'
import { usualErrors } from '../kit/errors.ts'
import { baseUrl, byStatus, defineIntegration, textIn } from '../kit/integration.ts'

const word = z
  .string()
  .min(1)
  .max(1024)
  .regex(/^[\w.-]+$/, 'has letters, digits, `-`, `_` and `.` only: copy it again')
  .meta({ writeOnly: true })

const credential = z.strictObject({
  key: word.describe('The API key of the app.'),
  token: word.describe('A token of the account for this key.'),
  base_url: baseUrl.optional().describe('Another address of the API; default `https://api.trello.com`.'),
})

const ownAddress = 'https://api.trello.com'

export const trello = defineIntegration<z.output<typeof credential>>({
  name: 'trello',
  title: 'Trello',
  credential,
  addresses: ({ base_url }) => [base_url ?? ownAddress],
  ownAddresses: () => [ownAddress],
  // Proxies write queries to their logs.
  headers: ({ key, token }) => ({
    authorization: `OAuth oauth_consumer_key="${key}", oauth_token="${token}"`,
    accept: 'application/json',
  }),
  async check(_, ask) {
    const answer = await ask({ method: 'GET', path: '/1/members/me' })
    return byStatus(answer, (json) => textIn(json, 'username') ?? textIn(json, 'fullName'))
  },
  errors: {
    ...usualErrors('trello'),
    trello_rate_limited: ['service', 'nothing: the call is made later', 'again'],
    trello_forbidden: [
      'credential',
      'make the account a member of the board; give the token the scope `write`',
    ],
    trello_not_found: ['caller', 'check the board, the card or the name of the list'],
    trello_list_not_found: ['caller', 'check the board, the card or the name of the list'],
    trello_refused: ['caller', 'check the ids; shorten the text or the file'],
    trello_too_large: ['caller', 'check the ids; shorten the text or the file'],
    trello_other_card: ['caller', 'give the id or the link of the card itself'],
  },
})
