import { afterAll, beforeAll, beforeEach } from '@jest/globals'
import { newId } from '../../../src/contract/ids.ts'
import { addOrganization, addPerson } from '../fixtures.ts'
import { startTestServer, type Answer, type TestServer } from '../server.ts'

/** An agent with its own session. It asks before each call. */
export class Agent {
  readonly server: TestServer
  readonly key: string
  readonly session: string
  #calls = 0

  constructor(server: TestServer, key: string, session = newId('session')) {
    this.server = server
    this.key = key
    this.session = session
  }

  question(tool: string, input: object = {}, more: object = {}) {
    this.#calls += 1
    return {
      agent: { name: 'tester', kind: 'hook' },
      session_id: this.session,
      tool_name: tool,
      tool_input: input,
      tool_use_id: `${this.session}-${this.#calls}`,
      ...more,
    }
  }

  /** Asks about a new call, and returns the decision. */
  async ask(tool: string, input: object = {}, more: object = {}) {
    return (await this.send(this.question(tool, input, more))).body
  }

  send(question: unknown): Promise<Answer> {
    return this.server.call(this.key, 'POST', '/authorize', question)
  }

  /** Reports a finished call. */
  async finish(question: { tool_name: string; tool_input: object; tool_use_id?: string }) {
    const { tool_name, tool_input, tool_use_id } = question
    const body = { session_id: this.session, tool_name, tool_input, tool_use_id }
    return (await this.server.call(this.key, 'POST', '/authorize/observe', body)).body
  }
}

/** A separate organization with an owner, an admin and a member, whose agents ask before their calls. */
export type AgentWorld = Awaited<ReturnType<typeof agentWorld>>

export async function agentWorld(server: TestServer) {
  const { id: organizationId, owner } = await addOrganization(server.context)
  const admin = await addPerson(server.context, organizationId, 'admin')
  const member = await addPerson(server.context, organizationId, 'member')
  /** Sends a request as the owner, to a path below the organization. Throws if it is refused. */
  const change = async (method: string, path: string, body?: unknown) => {
    const answer = await server.call(owner.key, method, `/organizations/${organizationId}${path}`, body)
    if (answer.status >= 300) throw new Error(`${method} ${path}: ${answer.text}`)
    return answer
  }
  await change('PATCH', '/governance', { approvals_enabled: true })
  type Rest = [method: string, path: string, body?: unknown]
  const asMember = (...rest: Rest) => server.call(member.key, ...rest)
  const asAdmin = (...rest: Rest) => server.call(admin.key, ...rest)
  /** The body of the answer to an admin's GET request. */
  const read = async (path: string) => (await asAdmin('GET', path)).body
  /** The sessions with the client's id. Without one, all of them. */
  const sessions = async (id?: string) =>
    (await read(`/agent-sessions${id === undefined ? '' : `?session_id=${id}`}`)).data
  return {
    ...{ server, organizationId, owner, admin, member, asMember, asAdmin, change, read, sessions },
    agent: () => new Agent(server, member.key),
    decide: (approvalId: string, verb: 'approve' | 'reject', by: { readonly key: string } = admin) =>
      server.call(by.key, 'POST', `/approvals/${approvalId}/${verb}`, {}),
    /** Makes a rule `r` that holds the calls of these tools. */
    hold: (...tools: readonly string[]) =>
      change('POST', '/rules', { name: 'r', verdict: 'require_approval', tools }),
    approval: (id: string) => read(`/approvals/${id}`),
    /** Ends a session of the member. */
    end: (sessionId: string, more: object = {}) =>
      asMember('POST', '/authorize/sessions/end', { session_id: sessionId, ...more }),
    /** Revokes a session, as the admin. */
    revoke: async (sessionId: string, more: object = {}) => {
      const [{ id }] = await sessions(sessionId)
      return asAdmin('POST', `/agent-sessions/${id}/revoke`, more)
    },
    /** The audit entries of this type, the newest first. */
    entries: async (type: string) =>
      (await change('GET', `/governance/audit?event_type=${type}`)).body.events,
  }
}

/** Starts a server for the tests of a file, and gives a new world to each of them. */
export function useAgentWorld(use: (world: AgentWorld) => void, env: NodeJS.ProcessEnv = {}): void {
  let server: TestServer | undefined
  beforeAll(async () => {
    server = await startTestServer({ env })
  })
  beforeEach(async () => use(await agentWorld(server as TestServer)))
  afterAll(() => server?.close())
}
