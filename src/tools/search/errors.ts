import type { ReadErrors } from '../kit/read-errors.ts'

const noCredit = [
  'search_no_credit',
  'the account has no searches left: raise its plan at the search service, or connect another account',
] as const

/** The error table of `web_search`: SearXNG, Brave and Tavily. */
export const searchErrors: ReadErrors = {
  prefix: 'search',
  title: 'the search service',
  address: '`provider` and `base_url` of the connection',
  refusals: {
    400: ['search_refused', 'the search service does not take this query: shorten or change it'],
    402: noCredit,
    403: [
      'search_forbidden',
      'the search service does not allow this: give the account the right to search; for SearXNG, allow the format `json` in its settings',
    ],
    404: [
      'search_not_found',
      'there is no search service at the address: check `base_url` of the connection',
    ],
    414: ['search_refused', 'the query is too long for the search service: shorten it'],
    422: ['search_refused', 'the search service does not take this query: shorten or change it'],
    432: noCredit,
    433: noCredit,
  },
  byWords: [{ status: 422, words: /SUBSCRIPTION_TOKEN_INVALID/, means: 'expired' }],
}
