import { expect, test } from '@jest/globals'
import { z } from 'zod'
import { ok, tagged } from '../../../src/api/route.ts'
import {
  routes,
  type AnswerOf,
  type BodyOf,
  type ParamsOf,
  type QueryOf,
  type RouteKey,
} from '../../../src/api/routes/index.ts'

/* The types that callers get of a route, by its key. The compiler does the checks. */

test('a caller knows the keys, parameters, queries, bodies and answers of routes', () => {
  const key: RouteKey = 'GET /runs/{id}/steps/{step}/calls'
  // @ts-expect-error there is no such route
  const unknown: RouteKey = 'GET /runs/{id}/steps/{step}/cals'
  const params: ParamsOf<typeof key> = { id: 'run_1', step: 'send' }
  // A query has texts, as in an address.
  const query: QueryOf<typeof key> = { limit: '50' }
  const body: BodyOf<'POST /organizations/{id}/webhooks'> = { url: 'https://a.test', events: ['run.failed'] }
  // @ts-expect-error there is no such event
  const wrong: (typeof body)['events'] = ['run.fails']
  // @ts-expect-error a rule has no such field
  const field = (answer: AnswerOf<'GET /organizations/{id}/rules/{rule}'>) => answer.nam
  const status = (answer: AnswerOf<'GET /executions/{id}'>): string => answer.status
  const nothing: AnswerOf<'DELETE /api-keys/{id}'> = undefined
  expect({ params, query, wrong, unknown, field, status, nothing }).toBeDefined()
  expect(routes.map((route) => route.key)).toContain(key)
})

test('a route that does not say what it needs does not compile, and is never mounted', () => {
  // @ts-expect-error it needs no scope and no role
  tagged('T').route({
    key: 'GET /everything',
    summary: 's',
    responses: { 200: z.unknown() },
    handle: () => Promise.resolve(ok([])),
  })
  const open = routes.filter(({ needs }) => needs === null).map(({ key }) => key)
  expect(open.sort()).toEqual([
    'GET /docs',
    'GET /health',
    'GET /integrations',
    'GET /integrations/{file}',
    'GET /openapi.json',
    'GET /workflow-schema',
    // The message proves its sender.
    'POST /deliveries/{trigger}',
    // Its token is signed by the provider.
    'POST /organizations/{id}/sign-in/logout',
  ])
  for (const { key, needs } of routes.filter((each) => each.needs !== null))
    expect([key, needs]).toEqual([key, expect.objectContaining({ role: expect.any(String) })])
})
