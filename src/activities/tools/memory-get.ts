import type { Executor } from './executor.ts'
import type { ToolParams } from './params.ts'

/**
 * `{key, value}` with the labels that were stored with the value. A key that holds nothing gives null and no labels,
 * not an error: a workflow asks for what an earlier run may or may not have kept, and tests it with `when`.
 */
export const getMemory: Executor<ToolParams<'memory_get'>> = async (call, context) => {
  const { key } = call.params
  const found = await context.tools.memory.get(call.organizationId, key)
  if (found === null) return { output: { key, value: null }, labels: [] }
  return { output: { key, value: found.value }, labels: found.labels }
}
