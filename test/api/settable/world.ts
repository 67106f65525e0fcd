import { createApp } from '../../../src/api/app.ts'
import { createHttpServer } from '../../../src/api/http-server.ts'
import { newId } from '../../../src/contract/ids.ts'
import type { FakeReads, Stack } from '../../workflows/worker-fixture.ts'
import { addOrganization, addPerson, unthrottled } from '../fixtures.ts'
import { listen } from '../server.ts'

/** The API on a stack with a worker. */
export type Api = Awaited<ReturnType<typeof startApi>> & { readonly reads: FakeReads }

export async function startApi(stack: Stack) {
  /** Addresses to which the service itself has sent an e-mail. */
  const mailed: string[] = []
  const services = {
    temporal: () => Promise.resolve(true),
    draining: new AbortController().signal,
    mail: async ({ to }: { to: string }) => void mailed.push(to),
  }
  const server = createHttpServer(createApp(stack.context, services))
  return {
    base: await listen(server),
    stack,
    mailed,
    async close() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

export interface Reply {
  readonly status: number
  // Tests read answers as untyped JSON, like a caller.
  // oxlint-disable-next-line typescript/no-explicit-any
  readonly body: any
}

type Who = 'owner' | 'admin' | 'member'
interface Person {
  readonly userId: string
  readonly key: string
}

/** A new organization with people of three roles, so that settings do not affect other tests. */
export class World {
  readonly api: Api
  readonly id: string
  readonly people: Readonly<Record<Who, Person>>
  readonly path: string

  private constructor(api: Api, id: string, people: Record<Who, Person>) {
    this.api = api
    this.id = id
    this.people = people
    this.path = `/organizations/${id}`
  }

  static async make(api: Api): Promise<World> {
    const { context } = api.stack
    const { id, owner } = await addOrganization(context)
    await context.db
      .updateTable('organizations')
      .set({ quota_overrides: unthrottled })
      .where('id', '=', id)
      .execute()
    const admin = await addPerson(context, id, 'admin')
    return new World(api, id, { owner, admin, member: await addPerson(context, id, 'member') })
  }

  /** Sends a request as one of the people, or with the given key or cookie. */
  async send(
    who: Who | { key?: string; cookie?: string },
    method: string,
    path: string,
    body?: unknown,
  ): Promise<Reply> {
    const given = typeof who === 'string' ? { key: this.people[who].key } : who
    const answer = await fetch(`${this.api.base}${path}`, {
      method,
      headers: {
        ...('key' in given ? { authorization: `Bearer ${given.key}` } : {}),
        ...('cookie' in given ? { cookie: given.cookie ?? '', origin: this.api.base } : {}),
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    const text = await answer.text()
    return { status: answer.status, body: text === '' ? null : JSON.parse(text) }
  }

  /** Sends a request, as `send` does. Throws if the request is refused. */
  async ok(who: Who, method: string, path: string, body?: unknown): Promise<Reply['body']> {
    const reply = await this.send(who, method, path, body)
    if (reply.status >= 300)
      throw new Error(`${method} ${path}: ${reply.status} ${JSON.stringify(reply.body)}`)
    return reply.body
  }

  settings(patch: object): Promise<Reply['body']> {
    return this.ok('owner', 'PATCH', `${this.path}/governance`, patch)
  }

  /** Saves a workflow. With `PUT`, first creates another workflow and then replaces its definition. */
  async workflow(definition: object, way = 'POST', more: object = {}): Promise<string> {
    if (way === 'POST')
      return (await this.ok('member', 'POST', '/workflows', { name: 'w', definition, ...more })).id
    const { id } = await this.ok('member', 'POST', '/workflows', { name: 'old', definition: nothing })
    await this.ok('member', 'PUT', `/workflows/${id}`, { definition, ...more })
    return id
  }

  execute(id: string, body: object = {}, wait = 60): Promise<Reply> {
    return this.send('member', 'POST', `/workflows/${id}/execute?wait=${wait}`, body)
  }

  /** Saves a workflow, runs it to its end and returns the run. */
  async run(definition: object, way = 'POST', body: object = {}): Promise<Reply['body']> {
    const reply = await this.execute(await this.workflow(definition, way), body)
    if (reply.status >= 300) return reply
    return this.ok('member', 'GET', `/runs/${reply.body.execution_id}`)
  }

  /** Asks about an agent's call, and returns the decision. All these calls are of one session. */
  async ask(tool: string, input: object = {}, who: Who = 'member'): Promise<Reply['body']> {
    const agent = { name: 'a', kind: 'hook' }
    const asked = { agent, session_id: this.id, tool_name: tool, tool_input: input }
    return this.ok(who, 'POST', '/authorize', { ...asked, tool_use_id: newId('event') })
  }

  /** Makes a rule that holds the calls of `Write`. */
  async hold(): Promise<void> {
    await this.settings({ approvals_enabled: true })
    const rule = { name: 'hold', verdict: 'require_approval', tools: ['Write'] }
    await this.ok('admin', 'POST', `${this.path}/rules`, rule)
  }

  /** An object of the list at this path, as the person sees it. */
  async listed(who: Who, path: string, id: string, list = 'data'): Promise<Reply['body']> {
    const body = await this.ok(who, 'GET', path)
    return body[list].find((each: { id: string }) => each.id === id)
  }

  /** A new workflow whose only step calls `memory_get`, run to its end. */
  completed(): Promise<Reply['body']> {
    return this.run(nothing)
  }
}

/** A workflow of one step that changes nothing. */
export const nothing = { steps: [{ id: 'old', tool: 'memory_get', params: { key: 'old' } }] }

/** Two values of a field, and the visible effect of each. */
export interface Proof<V = unknown> {
  readonly values: readonly [V, V]
  readonly seen: readonly [unknown, unknown]
  /** Sets the value with a method of the route, and returns its visible effect. */
  readonly observe: (world: World, value: V, way: string) => Promise<unknown>
}
export type Proofs = Readonly<Record<string, Proof>>

export const proof = <V>(
  values: readonly [V, V],
  seen: readonly [unknown, unknown],
  observe: Proof<V>['observe'],
): Proof => ({ values, seen, observe: observe as Proof['observe'] })
