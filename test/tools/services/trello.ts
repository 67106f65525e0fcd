import type { Json } from '../../../src/policy/types.ts'
import { startTrello, trelloCredential, trelloWith } from '../../support/trello-emulator.ts'
import { describedIn } from '../../support/atlassian/described.ts'
import { idsOf, named } from '../stand-in.ts'
import type { FaultService } from '../faults/service.ts'

const board = 'https://trello.com/b/board001/plans'
const card = 'https://trello.com/c/c0000256/1-for-comments'

const pages = 'https://developer.atlassian.com/cloud/trello/guides/rest-api'

export const trello: FaultService = {
  name: 'trello',
  start: () => startTrello(trelloWith(['To do', 'Done'], ['for comments'])),
  credential: (base_url) => ({ ...trelloCredential, base_url }),
  place: 'To do',
  tools: {
    trello_create_card: {
      readsBefore: 1,
      params: (text, place) => ({ board, list: place, name: 'a card', description: text }),
      async made(ask, text): Promise<Json[]> {
        const cards = (await ask('GET', '/1/boards/board001/cards/all')) as unknown as {
          id: string
          desc: string
          url: string
        }[]
        return cards.filter(({ desc }) => desc.includes(text)).map(({ id, url }) => ({ id, url }))
      },
    },
    trello_comment: {
      readsBefore: 1,
      params: (text) => ({ card, text }),
      async made(ask, text): Promise<Json[]> {
        const { url } = (await ask('GET', '/1/cards/c0000256')) as { url: string }
        const actions = (await ask('GET', '/1/cards/c0000256/actions')) as unknown as {
          id: string
          data: { text: string }
        }[]
        return actions
          .filter(({ data }) => data.text.includes(text))
          .map(({ id }) => ({ id, url: `${url}#comment-${id}` }))
      },
    },
  },
  reads: {
    codes: {
      tooLarge: 'response_too_large',
      badAnswer: 'trello_bad_answer',
      unavailable: 'trello_unavailable',
    },
    tools: {
      trello_list_cards: () => ({ board, list: 'To do' }),
      trello_get_card: () => ({ card }),
    },
  },
  isWrite: (method) => method === 'POST',
  emptyList: { status: 200, body: '[]' },
  cannotLook: { status: 404 },
  refusals: {
    'the token was revoked': [{ status: 401, body: 'invalid token' }, 'connection_expired'],
    'the account may not write': [
      { status: 401, body: 'unauthorized card permission requested' },
      'trello_forbidden',
    ],
    '400 comes back': [{ status: 400 }, 'trello_refused'],
  },
  codes: { rateLimited: 'trello_rate_limited', redirected: 'trello_redirected' },
  standIns: [
    {
      standIn: 'our own',
      checked: `Trello’s OpenAPI description, as ${named('trello.js')} is generated from it: methods, paths and names of values of each request, and the whole answer, of ${idsOf(describedIn('trello'))}`,
      not: 'the forms of values in requests, parameters of the cards of a board, which the description leaves out, and which actions a board keeps',
    },
  ],
  assumptions: [
    {
      what: 'The cards of a board can be listed with `since`, `limit`, `filter` and `fields`. The OpenAPI description leaves these out.',
      page: `${pages}/nested-resources/`,
    },
    {
      what: 'Trello takes key and token in the `Authorization` header, where no proxy logs them.',
      page: `${pages}/authorization/`,
    },
    {
      what: 'Lists of cards and comments show a new one within 60 s of its request.',
      page: null,
      withoutPage: 'Trello names no delay of its lists.',
    },
    {
      what: 'A card that moves to another board keeps its id, and leaves `createCard` or `moveCardFromBoard` on its board at once. A list leaves `moveListFromBoard`.',
      page: null,
      withoutPage:
        'Atlassian names these actions, and says no more. If it does not hold, a moved card can be made twice.',
    },
    {
      what: 'A token may send 100 requests in 10 s and a key 300. More is answered with 429, without a pause to wait.',
      page: `${pages}/rate-limits/`,
    },
  ],
}
