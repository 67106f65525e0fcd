import type { Look, ToolCall, ToolContext } from './tools/executor.ts'

const issued = new WeakSet<object>()

/** The argument of a tool's body: proof that the policy interceptor has decided this call. */
export interface DecidedCall {
  readonly call: ToolCall<unknown>
  readonly context: ToolContext
  /** Set if the call is only looked for; null: the call is made. */
  readonly look: Look | null
}

export function issueDecidedCall(
  call: ToolCall<unknown>,
  context: ToolContext,
  look: Look | null,
): DecidedCall {
  const decided = Object.freeze({ call, context, look })
  issued.add(decided)
  return decided
}

/** Fails closed in a worker without the interceptor: only `issueDecidedCall` can create a DecidedCall. */
export function isDecidedCall(value: unknown): value is DecidedCall {
  return typeof value === 'object' && value !== null && issued.has(value)
}
