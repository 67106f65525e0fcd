import type { ToolCall, ToolContext } from './tools/executor.ts'

const issued = new WeakSet<object>()

/** What a tool's body is called with: proof that the policy interceptor has decided this very call. */
export interface DecidedCall {
  readonly call: ToolCall<unknown>
  readonly context: ToolContext
}

export function issueDecidedCall(call: ToolCall<unknown>, context: ToolContext): DecidedCall {
  const decided = Object.freeze({ call, context })
  issued.add(decided)
  return decided
}

/** Fails closed where a worker was put together without the interceptor: nothing else can make a DecidedCall. */
export function isDecidedCall(value: unknown): value is DecidedCall {
  return typeof value === 'object' && value !== null && issued.has(value)
}
