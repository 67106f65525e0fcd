import type { Found, ToolResult } from '../../../src/activities/tools/executor.ts'
import type { ToolName } from '../../../src/catalog/index.ts'
import { emulatorToken } from '../../support/emulators.ts'
import { toolCall, toolContext } from './call.ts'
import { asDeclared, connectionTo, runBody } from './connection.ts'

let calls = 0

/** One call, with functions that make it and look for it. */
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

  /** Makes the call. The output has the form that the tool declares. */
  async make() {
    return this.#checked(((await this.#run(null)) as ToolResult).output)
  }

  async find(sentSecondsAgo = 0) {
    const found = (await this.#run({ sentSecondsAgo })) as Found
    return found.kind === 'done' ? this.#checked(found.output) : found.kind
  }

  #run(look: { sentSecondsAgo: number } | null) {
    const { base, account, linkedSecondsAgo = 1_000, mostMilliseconds = Infinity, revision } = this.over
    const more = { account: 'admin', mostMilliseconds }
    const context = toolContext({
      connection: (async () => connectionTo('slack', { token: emulatorToken }, base, more)) as never,
      slackAccount: async () => (account === undefined ? null : { id: account, linkedSecondsAgo }),
    })
    const call = toolCall(this.#params, {
      idempotencyKey: this.#key,
      labels: this.over.labels ?? [],
      revision: look === null ? (revision ?? null) : null,
    })
    return runBody(this.#name, call, context, look)
  }

  #checked(output: unknown) {
    return asDeclared(this.#name, output) as { channel: string; ts: string; name: string; invited: boolean }
  }
}
