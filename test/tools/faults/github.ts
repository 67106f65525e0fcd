import type { Json } from '../../../src/policy/types.ts'
import { emulatorToken, startEmulator } from '../../support/emulators.ts'
import type { Ask, FaultService } from './service.ts'

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
}
