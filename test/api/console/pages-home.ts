import { heldCall, holdAgents } from '../../console/support.ts'
import { Browser } from '../browser.ts'
import { startTestServer, type TestServer } from '../server.ts'

type Who = 'owner' | 'admin' | 'approver' | 'member' | 'viewer'
type Headers = Record<string, string>

/**
 * A server whose agents need an approval before they send, with its pages and forms over HTTP. If no cookie is given,
 * the approver's cookie is sent.
 */
export interface PagesHome {
  readonly server: TestServer
  readonly get: (path: string, cookie?: string) => Promise<Response>
  /** Sends a form as a browser would, from a page of this service. `headers` can change that. */
  readonly post: (
    path: string,
    fields: Record<string, string> | [string, string][],
    headers?: Headers,
    cookie?: string,
  ) => Promise<Response>
  /** The token in the forms of a page. */
  readonly tokenOf: (path: string) => Promise<string>
  /** Signs in a person of the organization, and returns the cookie. */
  readonly cookieOf: (who: Who) => Promise<string>
  /** Makes an agent's call that is held, and returns the approval's id. */
  readonly held: (input?: object, tool?: string) => Promise<string>
  // oxlint-disable-next-line typescript/no-explicit-any
  readonly approvalOf: (id: string) => Promise<any>
}

export async function startPages(env: NodeJS.ProcessEnv = {}): Promise<PagesHome> {
  const server = await startTestServer({ env })
  await holdAgents(server)
  const cookieOf: PagesHome['cookieOf'] = async (who) => {
    const { email, password } = server.identities.users[who]
    const browser = new Browser(server)
    await browser.signIn(email, password)
    return browser.cookie
  }
  const approver = await cookieOf('approver')
  const get: PagesHome['get'] = (path, cookie = approver) =>
    fetch(`${server.base}${path}`, { headers: { cookie }, redirect: 'manual' })
  return {
    server,
    get,
    post: (path, fields, headers = {}, cookie = approver) =>
      fetch(`${server.base}${path}`, {
        method: 'POST',
        body: new URLSearchParams(fields),
        headers: { cookie, origin: server.base, 'sec-fetch-site': 'same-origin', ...headers },
        redirect: 'manual',
      }),
    tokenOf: async (path) => /name="token" value="([\w-]+)"/.exec(await (await get(path)).text())?.[1] ?? '',
    cookieOf,
    held: (input, tool) => heldCall(server, input, tool),
    approvalOf: async (id) =>
      (await server.call(server.identities.users.admin.api_key, 'GET', `/approvals/${id}`)).body,
  }
}

/** The text of a page without its HTML tags. */
export const plain = (html = ''): string => html.replaceAll(/<[^>]*>/g, '')
