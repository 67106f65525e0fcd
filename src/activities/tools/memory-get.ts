import type { ToolBody } from './params.ts'

/**
 * Returns `{key, value}` with the labels stored with the value. An empty key gives null without labels, not an error,
 * so that a workflow can test with `when` whether an earlier run stored a value.
 */
export const getMemory: ToolBody<'memory_get'> = async (call, context) => {
  const { key } = call.params
  const found = await context.tools.memory.get(call.organizationId, key)
  if (found === null) return { output: { key, value: null }, labels: [] }
  return { output: { key, value: found.value }, labels: found.labels }
}
