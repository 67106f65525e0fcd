import { expect } from '@jest/globals'
import { createToolActivities } from '../../../../src/activities/tool-activities.ts'
import { issueDecidedCall } from '../../../../src/activities/decided-call.ts'
import {
  ToolError,
  type Found,
  type ServiceConnection,
  type State,
  type ToolResult,
} from '../../../../src/activities/tools/executor.ts'
import { stateReaders } from '../../../../src/activities/tools/index.ts'
import { getTool, type ToolName } from '../../../../src/catalog/index.ts'
import { createOutgoing } from '../../../../src/shared/outgoing/outgoing.ts'
import { loopbackHosts } from '../../../../src/shared/outgoing/hosts.ts'
import { emulatorToken } from '../../../support/emulators.ts'
import { toolCall, toolContext } from '../call.ts'

export const outgoing = createOutgoing({ hosts: loopbackHosts })

const connectionAt = (base: string, account: string | null): ServiceConnection<'google'> => ({
  id: 'con_1',
  credential: { client_id: 'c', client_secret: 's', refresh_token: 'r' },
  account,
  base,
  headers: { authorization: `Bearer ${emulatorToken}` },
  fetchWithin: (bounds) => outgoing.fetchWithin({ ...bounds, addresses: [base] }),
  expired: async () => new ToolError('connection_expired', 'connect again', { retryable: false }),
})

const bodies = createToolActivities()
let calls = 0

interface Over {
  readonly base: string
  readonly account?: string | null
  /** What the approvers saw. */
  readonly revision?: string
}

/** One call, which is made and looked for. */
export class GoogleCall {
  readonly #name: ToolName
  readonly #params: object
  readonly #over: Over
  readonly #key = `google/${(calls += 1)}`
  constructor(name: ToolName, params: object, over: Over) {
    this.#name = name
    this.#params = params
    this.#over = over
  }

  /** The output, which has the form that the tool declares. */
  async make<Output>(): Promise<Output> {
    return this.#checked(((await this.#run(null)) as ToolResult).output) as Output
  }

  async find(sentSecondsAgo = 0): Promise<unknown> {
    const found = (await this.#run({ sentSecondsAgo })) as Found
    return found.kind === 'done' ? this.#checked(found.output) : found.kind
  }

  /** What approvers see. */
  async seen(): Promise<State> {
    const read = stateReaders[this.#name as 'docs_create']
    return read(this.#call(null) as never, this.#context())
  }

  #run(look: { sentSecondsAgo: number } | null) {
    return bodies[this.#name]!(issueDecidedCall(this.#call(look), this.#context(), look))
  }

  #call(look: object | null) {
    const revision = look === null ? (this.#over.revision ?? null) : null
    return toolCall(this.#params, { idempotencyKey: this.#key, revision })
  }

  #context() {
    const { base, account = 'ana@acme.example' } = this.#over
    return toolContext({ connection: (async () => connectionAt(base, account)) as never })
  }

  #checked(output: unknown) {
    expect(getTool(this.#name)?.output.parse(output)).toEqual(output)
    return output
  }
}
