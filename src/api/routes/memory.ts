import { z } from 'zod'
import { maxMemoryValueLength, memoryKey } from '../../catalog/memory-key.ts'
import { deleteMemory, readMemory, setMemory } from '../../governance/memory.ts'
import { labelSlug } from '../../policy/text.ts'
import { mostLabels } from '../../policy/types.ts'
import type { Json } from '../../policy/types.ts'
import { organizationQuery } from '../query.ts'
import { noContent, ok, route } from '../route.ts'
import { anyJson, labels, time } from '../schemas/common.ts'
import { validate } from '../validation.ts'

const memory = z
  .strictObject({ key: z.string(), value: anyJson, labels, updated_at: time })
  .meta({ id: 'Memory' })

const value = anyJson
  .refine((given) => given !== undefined, 'is missing')
  .refine(
    (given) => given === undefined || JSON.stringify(given).length <= maxMemoryValueLength,
    `takes at most ${maxMemoryValueLength} characters as JSON; keep large documents in files`,
  )

const keyOf = (params: { key: string }): string =>
  validate(z.object({ key: memoryKey }), { key: params.key }, 'the path').key

export const getMemory = route({
  key: 'GET /memory/{key}',
  summary: 'A remembered value with its labels',
  tag: 'Memory',
  query: organizationQuery,
  responses: { 200: memory },
  async handle({ context, caller, params }) {
    return ok(await readMemory(context, caller.organizationId, keyOf(params)))
  },
})

export const putMemory = route({
  key: 'PUT /memory/{key}',
  summary: 'Keep a value, in place of the one before; without `labels` those before stay',
  description:
    'Everybody may add labels; taking one away needs an admin. The labels of a deleted value stay with its key.',
  tag: 'Memory',
  query: organizationQuery,
  body: z.strictObject({ value, labels: z.array(labelSlug).max(mostLabels).optional() }),
  responses: { 200: memory },
  async handle({ context, caller, params, body }) {
    const entry = { key: keyOf(params), value: body.value as Json, labels: body.labels ?? null }
    return ok(await setMemory(context, caller, entry))
  },
})

export const deleteMemoryRoute = route({
  key: 'DELETE /memory/{key}',
  summary: 'Forget a value',
  description: 'Its labels stay with the key; an admin who deletes once more forgets them too.',
  tag: 'Memory',
  query: organizationQuery,
  responses: { 204: null },
  async handle({ context, caller, params }) {
    await deleteMemory(context, caller, keyOf(params))
    return noContent
  },
})
