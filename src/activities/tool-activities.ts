import { ApplicationFailure } from '@temporalio/activity'
import { catalog } from '../tools/index.ts'
import { failureTypes } from '../contract/messages.ts'
import { isDecidedCall } from './decided-call.ts'
import type { Found, SomeBodies, ToolCall, ToolResult } from '../tools/kit/executor.ts'
import { ownActivities } from '../steps/index.ts'
import { bodiesOf } from '../tools/bodies.ts'

type Body = (decided: unknown) => Promise<ToolResult | Found>

const notDecided = (): ApplicationFailure =>
  ApplicationFailure.nonRetryable('the call was not decided by a rule', failureTypes.refused)

/**
 * Creates one activity for each tool of the catalogue. The activity has the tool's name, and runs only for a decided
 * call. Also creates the activities of steps that call no tool: the policy interceptor runs these steps itself, so
 * they have no body.
 */
export function createToolActivities(): Record<string, Body> {
  const ofKinds = ownActivities.map((name): [string, Body] => [name, () => Promise.reject(notDecided())])
  return Object.fromEntries([
    ...ofKinds,
    ...Object.keys(catalog).map((name): [string, Body] => [
      name,
      async (decided) => {
        if (!isDecidedCall(decided)) throw notDecided()
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
