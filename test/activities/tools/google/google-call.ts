import type { Found, State, ToolResult } from '../../../../src/activities/tools/executor.ts'
import { audienceReaders, stateReaders } from '../../../../src/activities/tools/index.ts'
import type { ToolName } from '../../../../src/catalog/index.ts'
import type { Reader } from '../../../../src/policy/audience.ts'
import { emulatorToken } from '../../../support/emulators.ts'
import { toolCall } from '../call.ts'
import { asDeclared, connectionTo, contextWith, runBody } from '../connection.ts'

const credential = { client_id: 'c', client_secret: 's', refresh_token: 'r' }

let calls = 0

interface Over {
  readonly base: string
  readonly account?: string | null
  /** The revision that the approvers saw. */
  readonly revision?: string
}

/** One call, with functions that make it and look for it. */
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

  /** Makes the call. Returns its output, which has the form that the tool declares. */
  async make<Output>(): Promise<Output> {
    return asDeclared(this.#name, ((await this.#run(null)) as ToolResult).output) as Output
  }

  async find(sentSecondsAgo = 0): Promise<unknown> {
    const found = (await this.#run({ sentSecondsAgo })) as Found
    return found.kind === 'done' ? asDeclared(this.#name, found.output) : found.kind
  }

  /** The state that approvers see. */
  async seen(): Promise<State> {
    const read = stateReaders[this.#name as 'docs_create']
    return read(this.#call(null) as never, this.#context())
  }

  /** Everybody who can read the target of the call. */
  async audience(): Promise<readonly Reader[]> {
    const read = audienceReaders[this.#name as 'docs_create']
    return read(this.#call(null) as never, this.#context())
  }

  #run(look: { sentSecondsAgo: number } | null) {
    return runBody(this.#name, this.#call(look), this.#context(), look)
  }

  #call(look: object | null) {
    const revision = look === null ? (this.#over.revision ?? null) : null
    return toolCall(this.#params, { idempotencyKey: this.#key, revision })
  }

  #context() {
    const { base, account = 'ana@acme.example' } = this.#over
    return contextWith(connectionTo('google', credential, base, { account, accessToken: emulatorToken }))
  }
}
