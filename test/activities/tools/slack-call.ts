import { expect } from '@jest/globals'
import { createToolActivities } from '../../../src/activities/tool-activities.ts'
import { issueDecidedCall } from '../../../src/activities/decided-call.ts'
import {
  ToolError,
  type Found,
  type ServiceConnection,
  type ToolResult,
} from '../../../src/activities/tools/executor.ts'
import { getTool, type ToolName } from '../../../src/catalog/index.ts'
import { createOutgoing } from '../../../src/shared/outgoing/outgoing.ts'
import { loopbackHosts } from '../../../src/shared/outgoing/hosts.ts'
import { emulatorToken } from '../../support/emulators.ts'
import { toolCall, toolContext } from './call.ts'

export const outgoing = createOutgoing({ hosts: loopbackHosts })

const connectionAt = (base: string, mostMilliseconds: number): ServiceConnection<'slack'> => ({
  id: 'con_1',
  credential: { token: emulatorToken },
  account: 'admin',
  base,
  headers: { authorization: `Bearer ${emulatorToken}` },
  fetchWithin: (bounds) =>
    outgoing.fetchWithin({
      ...bounds,
      milliseconds: Math.min(bounds.milliseconds, mostMilliseconds),
      addresses: [base],
    }),
  expired: async () => new ToolError('connection_expired', 'connect again', { retryable: false }),
})

const bodies = createToolActivities()
let calls = 0

/** One call, which is made and looked for. */
export class SlackCall {
  readonly #name: ToolName
  readonly #params: object
  readonly over: {
    readonly base: string
    readonly account?: string
    readonly linkedSecondsAgo?: number
    readonly mostMilliseconds?: number
    readonly labels?: readonly string[]
    /** The account that the approvers saw. */
    readonly revision?: string
  }
  readonly #key = `run/${(calls += 1)}`
  constructor(name: ToolName, params: object, over: SlackCall['over']) {
    this.#name = name
    this.#params = params
    this.over = over
  }

  /** The output has the form that the tool declares. */
  async make() {
    return this.#checked(((await this.#run(null)) as ToolResult).output)
  }

  async find(sentSecondsAgo = 0) {
    const found = (await this.#run({ sentSecondsAgo })) as Found
    return found.kind === 'done' ? this.#checked(found.output) : found.kind
  }

  #run(look: { sentSecondsAgo: number } | null) {
    const { base, account, linkedSecondsAgo = 1_000, mostMilliseconds = Infinity, revision } = this.over
    const context = toolContext({
      connection: (async () => connectionAt(base, mostMilliseconds)) as never,
      slackAccount: async () => (account === undefined ? null : { id: account, linkedSecondsAgo }),
    })
    const call = toolCall(this.#params, {
      idempotencyKey: this.#key,
      labels: this.over.labels ?? [],
      revision: look === null ? (revision ?? null) : null,
    })
    return bodies[this.#name]!(issueDecidedCall(call, context, look))
  }

  #checked(output: unknown) {
    expect(getTool(this.#name)?.output.parse(output)).toEqual(output)
    return output as { channel: string; ts: string; name: string; invited: boolean }
  }
}
