import type { Json } from '../../../src/policy/types.ts'
import { emulatorToken, startEmulator } from '../../support/emulators.ts'
import { named } from '../stand-in.ts'
import type { Ask, FaultService } from '../faults/service.ts'

type Made = { number: number; id: number; html_url: string; body: string | null }

/** `https://github.com/owner/name/issues/1` as parameters, which the proxy's host does not change. */
function at(place: string): { repo: string; number: number } {
  const [owner, name, , number] = new URL(place).pathname.split('/').slice(1)
  return { repo: `${owner}/${name}`, number: Number(number) }
}
const pathOf = (place: string): string => `/repos${new URL(place).pathname}`
const withText = async (ask: Ask, path: string, text: string): Promise<Made[]> =>
  ((await ask('GET', path)) as unknown as Made[]).filter(({ body }) => body?.includes(text))

export const github: FaultService = {
  name: 'github',
  async start() {
    const emulator = await startEmulator('github', {
      users: [{ login: 'admin' }],
      repos: [{ owner: 'admin', name: 'app', auto_init: true }],
    })
    await fetch(`${emulator.url}/repos/admin/app/issues`, {
      method: 'POST',
      headers: { authorization: `Bearer ${emulatorToken}`, 'content-type': 'application/json' },
      body: JSON.stringify({ title: 'for comments' }),
    })
    return emulator
  },
  place: 'https://github.com/admin/app/issues/1',
  live: { url: 'https://api.github.com' },
  tools: {
    github_create_issue: {
      params: (text, place) => ({ repo: at(place).repo, title: 'a title', body: text }),
      async made(ask, text, place): Promise<Json[]> {
        const path = `${pathOf(place).replace(/\/issues\/\d+$/, '/issues')}?state=all&per_page=100`
        return (await withText(ask, path, text)).map(({ number, html_url: url }) => ({ number, url }))
      },
    },
    github_comment: {
      params: (text, place) => ({ ...at(place), body: text }),
      async made(ask, text, place): Promise<Json[]> {
        const since = new Date(Date.now() - 3_600_000).toISOString()
        const path = `${pathOf(place)}/comments?per_page=100&since=${since}`
        return (await withText(ask, path, text)).map(({ id, html_url: url }) => ({ id, url }))
      },
    },
  },
  reads: {
    codes: {
      tooLarge: 'response_too_large',
      badAnswer: 'github_bad_answer',
      unavailable: 'github_unavailable',
    },
    tools: {
      github_search_code: (place) => ({ query: 'hello', repo: at(place).repo }),
      github_get_file: (place) => ({ repo: at(place).repo, path: 'README.md' }),
      github_list_issues: (place) => ({ repo: at(place).repo }),
      github_get_issue: at,
      github_list_pull_requests: (place) => ({ repo: at(place).repo }),
    },
  },
  isWrite: (method) => method === 'POST',
  emptyList: { status: 200, body: '[]' },
  cannotLook: { status: 404 },
  refusals: {
    'the token was revoked': [{ status: 401 }, 'connection_expired'],
    '403 comes back': [{ status: 403 }, 'github_forbidden'],
    '422 comes back': [{ status: 422 }, 'github_refused'],
  },
  codes: { rateLimited: 'github_rate_limited', redirected: 'github_redirected' },
  standIns: [
    {
      standIn: named('emulate'),
      checked: `GitHub’s OpenAPI description, as the types of ${named('@octokit/rest')} are generated from it: the compiler checks paths, parameters and fields of each request, and the fields that are read in each answer`,
      not: 'the rest of the stand-in. The statuses of refusals were compared by hand',
    },
  ],
  assumptions: [
    {
      what: 'A person may send 5,000 requests in an hour, and create about 80 things in a minute. More is answered with 403 or 429, often with a pause to wait.',
      page: 'https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api',
    },
    {
      what: 'A repository that was renamed or given away answers with a redirect, and never with the contents of another repository.',
      page: 'https://docs.github.com/en/rest/using-the-rest-api/best-practices-for-using-the-rest-api',
    },
    {
      what: 'Lists of issues and comments show a new one within 60 s of its request. The search may need longer and is not asked.',
      page: null,
      withoutPage: 'GitHub names no delay of its lists.',
    },
    {
      what: 'An issue that was transferred is not listed by its old repository. Its old address answers with a redirect. A look does not follow it.',
      page: 'https://docs.github.com/en/rest/issues/issues#get-an-issue',
    },
  ],
}
