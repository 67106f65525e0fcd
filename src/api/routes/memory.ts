import { sql, type RawBuilder } from 'kysely'
import { z } from 'zod'
import { memoryKey, maxMemoryValueLength } from '../../tools/memory/tools.ts'
import { deleteMemory, listMemory, readMemory, setMemory } from '../../governance/tools/memory.ts'
import { mostLabels, type Json } from '../../policy/types.ts'
import { organizationQuery } from '../query.ts'
import { done, ok, tagged } from '../route.ts'
import type { Inner } from '../subjects.ts'
import { named, anyJson, id, labels, listOf, listQuery, pageIn, time } from '../schemas/common.ts'
import { validate } from '../errors.ts'
import { labelSlug } from '../../policy/text.ts'

const value = anyJson
  .refine((given) => given !== undefined, 'is missing')
  .refine(
    (given) => given === undefined || JSON.stringify(given).length <= maxMemoryValueLength,
    `takes at most ${maxMemoryValueLength} characters as JSON; keep large documents in files`,
  )

export const memoryBody = named('MemoryRequest', {
  value,
  labels: z.array(labelSlug).max(mostLabels).optional(),
})

const { route } = tagged('Memory')

const memory = z
  .strictObject({ key: z.string(), value: anyJson, labels, updated_at: time })
  .meta({ id: 'Memory' })

const inMemory = (counts: RawBuilder<boolean>): Inner => ({
  word: 'value',
  param: 'key',
  exists: ({ params }) => sql`exists (select from memory
    where organization_id = s.organization_id and key = ${params['key']} and ${counts})`,
})
const oneValue = inMemory(sql`deleted_at is null`)
/** An admin can delete the labels that a deleted value has left. */
const valueOrLabels = inMemory(sql`(deleted_at is null or m.role in ('admin', 'owner'))`)

const keyOf = (params: { key: string }): string =>
  validate(z.object({ key: memoryKey }), { key: params.key }, 'the path').key

const head = named('MemoryHead', {
  key: z.string(),
  labels,
  bytes: z.int().describe('As it counts for `memory_mb`.'),
  updated_at: time,
  updated_by: id,
  updated_by_email: z.string(),
})

export const memoryRoutes = [
  route({
    key: 'GET /memory',
    needs: { scope: 'memory:read', role: 'member', subject: 'own' },
    summary: 'The keys that have a value, in their order, without the values',
    // The cursor contains a key.
    query: listQuery.extend({ cursor: z.string().min(1).max(2_000).optional() }),
    responses: { 200: listOf(head) },
    handle: async ({ context, caller, query }) =>
      ok(await listMemory(context.db, caller.organizationId, pageIn(query))),
  }),
  route({
    key: 'GET /memory/{key}',
    needs: { scope: 'memory:read', role: 'member', subject: 'own' },
    inner: [oneValue],
    summary: 'A stored value with its labels',
    description:
      'A value with one of the `restricted_labels` is read by who wrote it, admins and owners, and by runs.',
    query: organizationQuery,
    responses: { 200: memory },
    handle: async ({ context, caller, params }) => ok(await readMemory(context, caller, keyOf(params))),
  }),
  route({
    key: 'PUT /memory/{key}',
    needs: { scope: 'memory:write', role: 'member', subject: 'own' },
    audit: ['memory.set'],
    summary: 'Store a value in place of the previous one; without `labels` the previous labels stay',
    description:
      'Everybody may add labels; removing one needs an admin. The labels of a deleted value stay with its key.',
    query: organizationQuery,
    body: memoryBody,
    responses: { 200: memory },
    async handle({ context, caller, params, body }) {
      const entry = { key: keyOf(params), value: body.value as Json, labels: body.labels ?? null }
      return ok(await setMemory(context, caller, entry))
    },
  }),
  route({
    key: 'DELETE /memory/{key}',
    needs: { scope: 'memory:write', role: 'member', subject: 'own' },
    inner: [valueOrLabels],
    audit: ['memory.deleted'],
    summary: 'Delete a value',
    description: 'Its labels stay with the key. An admin who deletes again removes them too.',
    query: organizationQuery,
    responses: { 204: null },
    handle: ({ context, caller, params }) => done(deleteMemory(context, caller, keyOf(params))),
  }),
]
