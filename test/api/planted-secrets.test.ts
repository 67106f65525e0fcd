import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { splitKey } from '../../src/api/access.ts'
import { z } from 'zod'
import { routes } from '../../src/api/routes/index.ts'
import { addPerson } from './fixtures.ts'
import { plantedLogs, secret } from './planted.ts'
import { startTestServer, type TestServer } from './server.ts'
import { validRequests, type GuardedKey } from './access-matrix/valid-requests.ts'
import { addPlace, type Place } from './access-matrix/place.ts'
import { World } from './access-matrix/world.ts'

/*
 * Puts a secret into every text of every request. The texts are each field of the body and the query, fields that do
 * not exist, the key and the `Idempotency-Key`. No log and no metric may show the secret. An error answer repeats the
 * names of fields, so that the sender finds a typing error, but never their values. planted-elsewhere.test.ts has the
 * other parts of requests.
 */

const logs = plantedLogs()
let server: TestServer
let place: Place
beforeAll(async () => {
  server = await startTestServer({ env: logs.env })
  const { organization_id, users } = server.identities
  place = await addPlace(server, organization_id, { userId: users.owner.user_id, key: users.owner.api_key })
})
afterAll(async () => {
  await server?.close()
  logs.remove()
})

type Way = readonly (string | number)[]

/** The paths to all texts in a value. */
function textsIn(value: unknown, way: Way = []): Way[] {
  if (typeof value === 'string') return [way]
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([name, each]) => textsIn(each, [...way, name]))
}

function withSecretAt(value: unknown, [name, ...rest]: Way): unknown {
  if (name === undefined) return secret
  const copy = Array.isArray(value) ? [...(value as unknown[])] : { ...(value as object) }
  return Object.assign(copy, { [name]: withSecretAt((value as Record<string, unknown>)[String(name)], rest) })
}

interface Planted {
  /** The name of the field that contains the secret. */
  readonly field: string
  readonly query: string
  readonly body: unknown
  readonly key?: string
}

interface Form {
  readonly body: unknown
  readonly query: string
  /** All fields of the body, and one field that does not exist. */
  readonly fields: readonly string[]
  /** All parameters of the query, and one parameter that does not exist. */
  readonly parameters: readonly string[]
}

/** One request for each text in the body and the query, and for each field that should not be a text. */
function* planted({ body, query, fields, parameters }: Form): Generator<Planted> {
  for (const way of textsIn(body)) yield { field: way.join('.'), query, body: withSecretAt(body, way) }
  for (const name of fields)
    for (const each of [secret, { planted: secret, deep: [secret] }])
      yield { field: name, query, body: { ...(body as object), [name]: each } }
  for (const each of [secret, [secret]]) yield { field: 'the body', query, body: each }
  for (const name of parameters) yield { field: `?${name}`, query: `${name}=${secret}`, body }
  yield { field: 'the key', query, body, key: secret }
}

/**
 * Fields whose wrong value an error answer repeats to its sender. They contain names of things that do not exist or
 * exist already, and values that must come from a fixed list.
 */
const names =
  /(^|\.|\?)(tools?|tool_name|scopes|session_id|organization_id|name|role|status|verdict|outcome|approver|approval_required_from|default_tool_access|kind|mine|include_archived|all|period|scope|risk|channel|state|order|events)(\.\d+)?$/

const namesOf = (schema: z.ZodType | undefined): string[] => [
  ...(schema instanceof z.ZodObject ? Object.keys(schema.shape) : []),
  'no_such_field',
]

test.each(Object.keys(validRequests) as GuardedKey[])('%s', async (key) => {
  const { method, path } = splitKey(key)
  const sender = await addPerson(server.context, place.organizationId, 'owner')
  const world = new World(server, place, sender)
  const { ids = {}, body = {}, query = '' } = await validRequests[key].prepare(world)
  const named = path.replaceAll(/\{(\w+)\}/g, (_, name: string) => ids[name] ?? place.organizationId)
  const route = routes.find((each) => each.key === key)
  const parameters = [...namesOf(route?.query), 'organization_id']
  const repeated: string[] = []
  for (const each of planted({ body, query, fields: namesOf(route?.body), parameters })) {
    const sent = method === 'GET' || method === 'DELETE' ? undefined : each.body
    const headers = { 'idempotency-key': secret }
    const answer = await server.call(each.key ?? sender.key, method, `${named}?${each.query}`, sent, headers)
    if (answer.status >= 400 && answer.text.includes(secret) && !names.test(each.field))
      repeated.push(`${each.field}: ${answer.text}`)
  }
  expect(repeated).toEqual([])
})

test('no log and no metric shows it', () => logs.expectNone(server, 50))
