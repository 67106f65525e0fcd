import { ApplicationFailure } from '@temporalio/activity'
import { catalog } from '../tools/index.ts'
import { failureTypes } from '../contract/messages.ts'
import { isDecidedCall } from './decided-call.ts'
import type { Executor, Finder, Found, ToolCall, ToolResult } from '../tools/kit/executor.ts'
import { executors, finders } from '../tools/bodies.ts'

type Body = (decided: unknown) => Promise<ToolResult | Found>

/** The body is looked up at each call, because tests replace bodies. */
const bodyOf = (name: string): Executor<never> | undefined =>
  Object.hasOwn(executors, name) ? (executors as Readonly<Record<string, Executor<never>>>)[name] : undefined

const finderOf = (name: string): Finder<never> | undefined =>
  Object.hasOwn(finders, name) ? (finders as Readonly<Record<string, Finder<never>>>)[name] : undefined

/**
 * Creates one activity for each tool of the catalogue. The activity has the tool's name, and runs only for a decided
 * call.
 */
export function createToolActivities(): Record<string, Body> {
  return Object.fromEntries(
    Object.keys(catalog).map((name): [string, Body] => [
      name,
      async (decided) => {
        if (!isDecidedCall(decided))
          throw ApplicationFailure.nonRetryable('the call was not decided by a rule', failureTypes.refused)
        const { context, look } = decided
        const call = decided.call as ToolCall<never>
        const execute = bodyOf(name)
        if (execute !== undefined && look === null) return execute(call, context)
        const find = finderOf(name)
        if (find !== undefined && look !== null) return find(call, context, look)
        throw ApplicationFailure.nonRetryable(`\`${name}\` cannot run in this version`, failureTypes.refused)
      },
    ]),
  )
}
