import { newId } from '../../../src/contract/ids.ts'
import { addOrganization, addPerson } from '../fixtures.ts'
import type { Answer, TestServer } from '../server.ts'

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
export interface AgentWorld {
  readonly server: TestServer
  readonly organizationId: string
  readonly owner: Person
  readonly admin: Person
  readonly member: Person
  agent(): Agent
  /** Sends a request as the owner, to a path below the organization. Throws if it is refused. */
  change(method: string, path: string, body?: unknown): Promise<Answer>
  decide(approvalId: string, verb: 'approve' | 'reject', by?: Person): Promise<Answer>
}

interface Person {
  readonly userId: string
  readonly key: string
}

export async function agentWorld(server: TestServer): Promise<AgentWorld> {
  const { id: organizationId, owner } = await addOrganization(server.context)
  const admin = await addPerson(server.context, organizationId, 'admin')
  const member = await addPerson(server.context, organizationId, 'member')
  const change = async (method: string, path: string, body?: unknown) => {
    const answer = await server.call(owner.key, method, `/organizations/${organizationId}${path}`, body)
    if (answer.status >= 300) throw new Error(`${method} ${path}: ${answer.text}`)
    return answer
  }
  await change('PATCH', '/governance', { approvals_enabled: true })
  return {
    server,
    organizationId,
    owner,
    admin,
    member,
    agent: () => new Agent(server, member.key),
    change,
    decide: (approvalId, verb, by = admin) =>
      server.call(by.key, 'POST', `/approvals/${approvalId}/${verb}`, {}),
  }
}
