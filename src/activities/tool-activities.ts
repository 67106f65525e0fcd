import { ApplicationFailure } from '@temporalio/activity'
import { catalog } from '../catalog/index.ts'
import { failureTypes } from '../contract/messages.ts'
import { isDecidedCall } from './decided-call.ts'
import type { Executor, ToolResult } from './tools/executor.ts'
import { executors } from './tools/index.ts'

type Body = (decided: unknown) => Promise<ToolResult>

/** One activity per tool of the catalogue, named like the tool. Its body runs for a decided call and nothing else. */
export function createToolActivities(): Record<string, Body> {
  return Object.fromEntries(
    Object.keys(catalog).map((name): [string, Body] => [
      name,
      async (decided) => {
        if (!isDecidedCall(decided))
          throw ApplicationFailure.nonRetryable('the call was not decided by a rule', failureTypes.refused)
        const execute = (executors as unknown as Record<string, Executor<unknown>>)[name] as Executor<unknown>
        return execute(decided.call, decided.context)
      },
    ]),
  )
}
