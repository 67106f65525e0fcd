import { z } from 'zod'
import { memoryKey } from '../../tools/memory/tools.ts'
import { deleteMemory, readMemory, setMemory } from '../../governance/tools/memory.ts'
import type { Json } from '../../policy/types.ts'
import { organizationQuery } from '../query.ts'
import { noContent, ok, route } from '../route.ts'
import { anyJson, labels, time } from '../schemas/common.ts'
import { memoryBody } from '../schemas/memory.ts'
import { validate } from '../validation.ts'

const memory = z
  .strictObject({ key: z.string(), value: anyJson, labels, updated_at: time })
  .meta({ id: 'Memory' })

const keyOf = (params: { key: string }): string =>
  validate(z.object({ key: memoryKey }), { key: params.key }, 'the path').key

export const getMemory = route({
  key: 'GET /memory/{key}',
  summary: 'A stored value with its labels',
  tag: 'Memory',
  query: organizationQuery,
  responses: { 200: memory },
  async handle({ context, caller, params }) {
    return ok(await readMemory(context, caller.organizationId, keyOf(params)))
  },
})

export const putMemory = route({
  key: 'PUT /memory/{key}',
  summary: 'Store a value in place of the previous one; without `labels` the previous labels stay',
  description:
    'Everybody may add labels; removing one needs an admin. The labels of a deleted value stay with its key.',
  tag: 'Memory',
  query: organizationQuery,
  body: memoryBody,
  responses: { 200: memory },
  async handle({ context, caller, params, body }) {
    const entry = { key: keyOf(params), value: body.value as Json, labels: body.labels ?? null }
    return ok(await setMemory(context, caller, entry))
  },
})

export const deleteMemoryRoute = route({
  key: 'DELETE /memory/{key}',
  summary: 'Delete a value',
  description: 'Its labels stay with the key. An admin who deletes again removes them too.',
  tag: 'Memory',
  query: organizationQuery,
  responses: { 204: null },
  async handle({ context, caller, params }) {
    await deleteMemory(context, caller, keyOf(params))
    return noContent
  },
})
