import { heldCall, holdAgents, type Who } from '../../console/support.ts'
import { Browser } from '../browser.ts'
import { addPerson, sessionCookie } from '../fixtures.ts'
import { startTestServer } from '../server.ts'

type Fields = Record<string, string>

/**
 * A server whose agents need an approval before they send, with its pages and forms over HTTP. If no cookie is given,
 * the approver's cookie is sent.
 */
export type PagesHome = Awaited<ReturnType<typeof startPages>>

export async function startPages(env: NodeJS.ProcessEnv = {}) {
  const server = await startTestServer({ env })
  await holdAgents(server)
  const { users, organization_id: organization } = server.identities
  const browsers = new Map<Who, Browser>()
  /** Signs in a person of the organization, and returns the cookie. */
  const cookieOf = async (who: Who) => {
    const browser = browsers.get(who) ?? new Browser(server)
    if (!browsers.has(who)) await browser.signIn(users[who].email, users[who].password)
    browsers.set(who, browser)
    return browser.cookie
  }
  const approver = await cookieOf('approver')
  /** The cookie of a member who has asked for nothing. */
  const bystanderCookie = async () =>
    sessionCookie(server.context, (await addPerson(server.context, organization, 'member')).userId)
  const get = (path: string, cookie = approver) =>
    fetch(`${server.base}${path}`, { headers: { cookie }, redirect: 'manual' })
  /** The HTML of a page, as this person reads it. */
  const html = async (path: string, who: Who = 'approver') => (await get(path, await cookieOf(who))).text()
  /** The token in the forms of a page. */
  const tokenOf = async (path: string, who?: Who) =>
    /name="token" value="([\w-]+)"/.exec(await html(path, who))?.[1] ?? ''
  /** Sends a request with the key of a person. */
  const call = (who: Who, method: string, path: string, body?: unknown) =>
    server.call(users[who].api_key, method, path, body)
  return {
    ...{ server, cookieOf, bystanderCookie, get, html, tokenOf, call },
    /** The main part of a page, without the page's header. */
    main: async (path: string, who?: Who) => (await html(path, who)).split('<main')[1] ?? '',
    /** The text of the page of an approval. */
    pageOf: async (id: string, who?: Who) => plain(await html(`/console/approvals/${id}`, who)),
    /** Sends a form as a browser would, from a page of this service. `headers` can change that. */
    post: (
      path: string,
      fields: Fields | [string, string][],
      headers: Fields = {},
      cookie = approver,
    ): Promise<Response> =>
      fetch(`${server.base}${path}`, {
        method: 'POST',
        body: new URLSearchParams(fields),
        headers: { cookie, origin: server.base, 'sec-fetch-site': 'same-origin', ...headers },
        redirect: 'manual',
      }),
    /** The page of an approval, and the fields of its form. */
    formOf: async (id: string, decision: string, more: Fields = {}): Promise<[string, Fields]> => {
      const path = `/console/approvals/${id}`
      return [path, { token: await tokenOf(path), decision, comment: '', ...more }]
    },
    /** Changes the settings of the organization. */
    settings: (patch: object) => call('owner', 'PATCH', `/organizations/${organization}/governance`, patch),
    /** Saves a rule that holds calls. */
    hold: (rule: object) =>
      call('admin', 'POST', `/organizations/${organization}/rules`, { verdict: 'require_approval', ...rule }),
    /** Makes an agent's call that is held, and returns the approval's id. */
    held: (input?: object, tool?: string) => heldCall(server, input, tool),
    approvalOf: async (id: string) => (await call('admin', 'GET', `/approvals/${id}`)).body,
  }
}

/** The text of a page without its HTML tags. */
export const plain = (html = ''): string => html.replaceAll(/<[^>]*>/g, '')
