import type { Bodies, StateReaderOf, ToolBody } from '../kit/executor.ts'
import type { tools } from './tools.ts'

/** A key without a value is no error, so a workflow can test with `when` whether an earlier run stored one. */
const getMemory: ToolBody<'memory_get'> = async (call, context) => {
  const { key } = call.params
  const found = await context.tools.memory.get(call.organizationId, key)
  if (found === null) return { output: { key, value: null }, labels: [] }
  return { output: { key, value: found.value }, labels: found.labels }
}

/**
 * The transaction of the outcome stores it, with the input labels from when the call was decided. With `if_absent`, it
 * stores only if nobody has written the key since it was found empty; else the call is decided and made again, and then
 * finds the value.
 */
const setMemory: ToolBody<'memory_set'> = async (call, { tools }) => {
  const { organizationId, requester, labels } = call
  const { key, value, if_absent: ifAbsent } = call.params
  const found = ifAbsent === true ? await tools.memory.state(organizationId, key) : null
  if (found !== null && (found.text !== null || found.isBroken)) return { output: { key, set: false } }
  const revision = call.revision ?? found?.revision ?? null
  const text = JSON.stringify(value)
  const sealed = await tools.memory.seal(organizationId, key, text)
  const stores = { organizationId, userId: requester.userId, key, text, sealed, labels, revision }
  return { output: { key, set: true }, stores }
}

const readMemoryState: StateReaderOf<'memory_set'> = async (call, context) => {
  const { key, value } = call.params
  const { text, isBroken, labels, revision } = await context.tools.memory.state(call.organizationId, key)
  const fields = { 'labels of the key now': labels.length === 0 ? undefined : labels }
  const note = isBroken ? { note: 'The present value of the key cannot be opened.' } : {}
  const after = JSON.stringify(value)
  const inLines = Math.max(text?.length ?? 0, after.length) <= mostInLines
  const shown = (json: string): string => (inLines ? readable(JSON.parse(json)) : json)
  const diff = { before: text === null ? null : shown(text), after: shown(after) }
  return { revision, fields, ...note, ...(isBroken ? {} : { diff }) }
}

/** Lines stay; every other value is shown as JSON. */
const readable = (value: unknown): string =>
  typeof value === 'string' && value.includes('\n') ? value : JSON.stringify(value, null, 2)

/** Characters of JSON; longer values are shown in one line. */
const mostInLines = 50_000

export const run = {
  memory_get: { body: getMemory },
  memory_set: { body: setMemory, state: readMemoryState },
} satisfies Bodies<typeof tools>
