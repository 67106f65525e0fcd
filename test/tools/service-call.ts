import type { Found, State, ToolCall, ToolContext, ToolResult } from '../../src/tools/kit/executor.ts'
import { bodiesOf } from '../../src/tools/bodies.ts'
import type { ToolName } from '../../src/tools/index.ts'
import type { Reader } from '../../src/policy/audience.ts'
import { toolCall } from './call.ts'
import { asDeclared, runBody } from './connection.ts'

let calls = 0

/** One call, with functions that make it and look for it. Outputs have the form that the tool declares. */
export class ServiceCall {
  readonly #name: ToolName
  readonly #params: object
  readonly #context: ToolContext
  readonly #over: Partial<ToolCall<object>>
  readonly #idempotencyKey = `call/${(calls += 1)}`
  constructor(name: ToolName, params: object, context: ToolContext, over: Partial<ToolCall<object>>) {
    this.#name = name
    this.#params = params
    this.#context = context
    this.#over = over
  }

  async make<Output>(): Promise<Output> {
    return asDeclared(this.#name, ((await this.#run(null)) as ToolResult).output) as Output
  }

  async find(sentSecondsAgo = 0): Promise<unknown> {
    const found = (await this.#run({ sentSecondsAgo })) as Found
    return found.kind === 'done' ? asDeclared(this.#name, found.output) : found.kind
  }

  /** The state that approvers see. */
  async seen(): Promise<State> {
    return (await bodiesOf(this.#name))!.state!(this.#call() as never, this.#context)
  }

  /** Everybody who can read the target of the call. */
  async audience(): Promise<readonly Reader[]> {
    return (await bodiesOf(this.#name))!.audience!(this.#call() as never, this.#context)
  }

  /** A look does not know the revision that the approvers saw. */
  #run(look: { sentSecondsAgo: number } | null): Promise<unknown> {
    const call = look === null ? this.#call() : { ...this.#call(), revision: null }
    return runBody(this.#name, call, this.#context, look)
  }

  #call(): ToolCall<object> {
    return toolCall(this.#params, { idempotencyKey: this.#idempotencyKey, ...this.#over })
  }
}
