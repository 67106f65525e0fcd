import type { Look, ToolCall, ToolContext } from '../tools/kit/executor.ts'

const issued = new WeakSet<object>()

/** The argument of a tool's body. It proves that the policy interceptor has decided this call. */
export interface DecidedCall {
  readonly call: ToolCall<unknown>
  readonly context: ToolContext
  /**
   * Is null if the body must make the call. Otherwise an earlier attempt may have made the call. Then the tool's finder
   * looks for the call, or sends the call again with its key.
   */
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

/**
 * Returns whether `issueDecidedCall` has created the value. Tools run only with such a value, so a worker without the
 * policy interceptor can run no tool.
 */
export function isDecidedCall(value: unknown): value is DecidedCall {
  return typeof value === 'object' && value !== null && issued.has(value)
}
