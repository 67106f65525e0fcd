import type { Look, ToolCall, ToolContext, Found, SomeBodies, ToolResult } from '../tools/kit/executor.ts'
import { ApplicationFailure } from '@temporalio/activity'
import { catalog } from '../tools/index.ts'
import { failureTypes } from '../contract/messages.ts'
import { ownActivities } from '../steps/index.ts'
import { bodiesOf } from '../tools/bodies.ts'

const issued = new WeakSet<object>()

/** Proves that the policy interceptor has decided this call. */
export interface IssuedCall {
  readonly call: ToolCall<unknown>
  readonly context: ToolContext
  /**
   * Null if the body must make the call. Otherwise the tool's finder looks for it, or repeats it with its
   * key.
   */
  readonly look: Look | null
}

export function issueCall(call: ToolCall<unknown>, context: ToolContext, look: Look | null): IssuedCall {
  const decided = Object.freeze({ call, context, look })
  issued.add(decided)
  return decided
}

/** Tools run only with a value of `issueCall`, so a worker without the policy interceptor can run no tool. */
export function isIssuedCall(value: unknown): value is IssuedCall {
  return typeof value === 'object' && value !== null && issued.has(value)
}

type Body = (decided: unknown) => Promise<ToolResult | Found>

const notDecided = (): ApplicationFailure =>
  ApplicationFailure.nonRetryable('the call was not decided by a rule', failureTypes.refused)

/** Steps that call no tool have an activity without a body: the policy interceptor runs them itself. */
export function createToolActivities(): Record<string, Body> {
  const ofKinds = ownActivities.map((name): [string, Body] => [name, () => Promise.reject(notDecided())])
  return Object.fromEntries([
    ...ofKinds,
    ...Object.keys(catalog).map((name): [string, Body] => [
      name,
      async (decided) => {
        if (!isIssuedCall(decided)) throw notDecided()
        const { context, look } = decided
        const call = decided.call as ToolCall<never>
        const { body, find } = (await bodiesOf(name)) as SomeBodies
        if (look === null) return body(call, context)
        if (find !== undefined) return find(call, context, look)
        throw ApplicationFailure.nonRetryable(`\`${name}\` cannot look for a call`, failureTypes.refused)
      },
    ]),
  ])
}
