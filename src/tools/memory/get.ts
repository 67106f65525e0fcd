import type { ToolBody } from '../kit/params.ts'

/**
 * Returns `{key, value}` with the labels that are stored with the value. If the key has no stored value, `value` is
 * null and has no labels. This is no error, so a workflow can test with `when` whether an earlier run stored a value.
 */
export const getMemory: ToolBody<'memory_get'> = async (call, context) => {
  const { key } = call.params
  const found = await context.tools.memory.get(call.organizationId, key)
  if (found === null) return { output: { key, value: null }, labels: [] }
  return { output: { key, value: found.value }, labels: found.labels }
}
