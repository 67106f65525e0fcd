import { beforeAll, describe, expect, test } from '@jest/globals'
import { splitKey } from '../../../src/api/access.ts'
import { agentBodyLimit, mostAgentValues } from '../../../src/api/agent-question.ts'
import { defaultBodyLimit, mostValues } from '../../../src/api/json-body.ts'
import { routes } from '../../../src/api/routes/index.ts'
import type { Route } from '../../../src/api/route.ts'
import { requestOf, validRequests, type GuardedKey } from '../access-matrix/valid-requests.ts'
import type { World } from '../access-matrix/world.ts'
import { sessionCookie } from '../fixtures.ts'
import {
  boundOf,
  costOf,
  json,
  leastCost,
  useMeasuredApi,
  type Cost,
  type MeasuredApi,
} from './measured-api.ts'
import { byDepth } from '../../support/depth.ts'
import { spotsOf, withAt, type Spot } from './spots.ts'
import { worstJson, type WorstJson } from './worst-json.ts'

/*
 * Sends the worst bodies that each route accepts, and measures the processor time they cost an API process. The limit,
 * beyond a normal request of the route, is 50 ms plus 50 ms for each MiB. The minimum of several tries counts, so that
 * a garbage collection or a busy machine does not fail the test. The test allows four times the limit, since machines
 * differ. Forms are in pieces.test.ts.
 */

let measured: MeasuredApi
let world: World
useMeasuredApi((started) => {
  measured = started
  world = started.world
})

const fits = ({ takes }: Spot, { text }: WorstJson): boolean => {
  const kind = { '"': 'text', '[': 'list', '{': 'object' }[text.charAt(0)]
  return takes === 'anything' || takes === kind
}

/**
 * The kinds of bodies that `npm run test:deep` tries at every spot, in the first route that has it. There, the other
 * kinds, and the same spot of other routes, take turns. In `npm test`, all kinds take turns at new spots. Where any JSON
 * is accepted, all kinds are tried.
 */
const everywhere = byDepth(
  new Set<string>(),
  new Set([
    'one long text',
    'many short texts',
    'many objects with one key',
    'many short keys',
    'the longest keys, one in the other, over a wide list',
    'many texts of templates',
  ]),
)
let turn = 0
/** The paths that a route has tried. Rules, label rules and workflows each have the same body in several routes. */
const tried = new Set<string>()
function chosen(spot: Spot, bytes: number, values: number, isFirst: boolean): WorstJson[] {
  const fitting = worstJson(bytes, values).filter((each) => fits(spot, each))
  if (spot.takes === 'anything' && isFirst) return fitting
  turn += 1
  const key = JSON.stringify(spot)
  const isNew = !tried.has(key)
  tried.add(key)
  return fitting.filter(
    ({ name }, index) =>
      (isNew && everywhere.has(name)) || (byDepth(isNew, true) && index === turn % fitting.length),
  )
}

async function exceeding(route: Route): Promise<string[]> {
  const { method } = splitKey(route.key)
  const valid = validRequests[route.key as GuardedKey]
  const prepare = async () =>
    requestOf(route.key as GuardedKey, world.organizationId, await valid.prepare(world))
  const usual = async (): Promise<Cost> => {
    const { path, body } = await prepare()
    const cost = await costOf(measured, { method, path, body: JSON.stringify(body ?? {}) })
    await valid.restore?.(world)
    return cost
  }
  let base = Infinity
  for (let tries = 0; tries < 3; tries += 1) base = Math.min(base, (await usual()).milliseconds)
  const limit = route.bodyLimit ?? (route.ask === undefined ? defaultBodyLimit : agentBodyLimit)
  const values = route.bodyValues ?? (route.ask === undefined ? mostValues : mostAgentValues)
  const { path, body = {} } = await prepare()
  const found: string[] = []
  const spots = route.body === undefined ? [{ path: [], takes: 'anything' as const }] : spotsOf(route.body)
  let isFirst =
    route.ask !== undefined || route.key === 'PUT /memory/{key}' || route.key === 'POST /workflows'
  for (const spot of spots.filter(({ takes }) => takes !== 'other')) {
    const room = limit - Buffer.byteLength(withAt(body, spot.path, '')) - 10
    for (const { name, text } of chosen(spot, room, values, isFirst)) {
      const whole = withAt(body, spot.path, text)
      const bound = boundOf(Buffer.byteLength(whole))
      const { milliseconds, status, answered } = await leastCost(base + bound, async (isAgain) => {
        const cost = await costOf(measured, { method, path, body: whole }, isAgain)
        await valid.restore?.(world)
        return cost
      })
      const place = `\`${spot.path.join('.')}\` is ${name}`
      if (milliseconds > base + bound) found.push(`${place}: ${milliseconds - base} ms, not ${bound}`)
      if (status >= 500) found.push(`${place}: answered ${status}`)
      if (status >= 400 && answered > 200_000) found.push(`${place}: an error of ${answered} characters`)
      worst = Math.max(worst, (milliseconds - base) / bound)
    }
    if (spot.takes === 'anything') isFirst = false
  }
  return found
}
let worst = 0

describe('the worst bodies cost an API process at most 50 ms, plus 50 ms for each MiB', () => {
  const taking = routes.filter(
    ({ key, body, receive }) => receive === undefined && (body !== undefined || key.startsWith('POST ')),
  )
  test.each(taking.map((route) => [route.key, route] as const))('%s', async (_, route) => {
    expect(await exceeding(route)).toEqual([])
  })
})

describe('the worst bodies for the sign-in library take no more', () => {
  const valid = {
    email: 'a@acme.com',
    password: 'a long enough password',
    name: 'Ann',
    token: 'none',
    newPassword: 'a long enough password',
    code: '123456',
    currentPassword: 'another long password',
    image: 'https://acme.com/a.png',
  }
  const endpoints: [string, (keyof typeof valid)[]][] = [
    ['sign-in/email', ['email', 'password']],
    ['sign-up/email', ['email', 'password', 'name']],
    ['request-password-reset', ['email']],
    ['reset-password', ['token', 'newPassword']],
    ['two-factor/verify-totp', ['code']],
    ['two-factor/verify-backup-code', ['code']],
    ['two-factor/enable', ['password']],
    ['change-password', ['currentPassword', 'newPassword']],
    ['update-user', ['name', 'image']],
  ]
  let cookie: string
  beforeAll(async () => {
    cookie = await sessionCookie(measured.server.context, world.sender.userId)
  })
  test.each(endpoints)('%s', async (endpoint, names) => {
    const send = async (text: string, isAgain = false): Promise<Cost> => {
      // Otherwise the limit on requests from one address would refuse the request.
      await measured.server.context.pool.query('delete from auth_rate_limits')
      const headers = { cookie, origin: measured.api.url, ...json }
      return costOf(measured, { method: 'POST', path: `/api/auth/${endpoint}`, body: text, headers }, isAgain)
    }
    const body = Object.fromEntries(names.map((name) => [name, valid[name]]))
    let base = Infinity
    for (let tries = 0; tries < 3; tries += 1) {
      const { milliseconds, status } = await send(JSON.stringify(body))
      base = Math.min(base, milliseconds)
      expect(status).not.toBe(404)
    }
    const found: string[] = []
    for (const name of names)
      for (const worstOf of chosen({ path: [name], takes: 'anything' }, 63 * 1024, mostValues, false)) {
        const whole = withAt(body, [name], worstOf.text)
        const bound = base + boundOf(Buffer.byteLength(whole))
        const cost = await leastCost(bound, (isAgain) => send(whole, isAgain))
        if (cost.milliseconds > bound || cost.status >= 500 || cost.status === 429)
          found.push(`\`${name}\` is ${worstOf.name}: ${cost.milliseconds} ms, status ${cost.status}`)
      }
    expect(found).toEqual([])
  })
})

describe('bodies that used to be slow', () => {
  const slow: [string, GuardedKey, (path: (key: GuardedKey) => unknown) => string][] = [
    [
      'a key of 400,000 characters over 290,000 elements',
      'POST /workflows',
      () =>
        `{"name":"W","definition":{"steps":[{"id":"s","tool":"memory_get","params":{"${'k'.repeat(400_000)}":[${'0,'.repeat(290_000)}0]}}]}}`,
    ],
    [
      '100 conditions of 900 values, each wrong',
      'POST /organizations/{id}/rules/test',
      () => {
        const params = Array.from({ length: 100 }, () => ({
          param: 'to',
          operator: 'domain_in',
          value: Array.from({ length: 900 }, () => ''),
        }))
        return JSON.stringify({
          call: { tool: 'mail_send' },
          rules: [{ name: 'a', verdict: 'deny', params }],
        })
      },
    ],
    [
      '1,000 rules of 30 conditions without an operator',
      'POST /organizations/{id}/rules/test',
      () => {
        const params = Array.from({ length: 30 }, () => ({ param: 'to' }))
        const rules = Array.from({ length: 1_000 }, () => ({ name: 'a', verdict: 'deny', params }))
        return JSON.stringify({ call: { tool: 'mail_send' }, rules })
      },
    ],
    [
      '1,000 steps that each wait for 90 that do not exist',
      'POST /workflows',
      () => {
        const steps = Array.from({ length: 1_000 }, (_, n) => ({
          id: `s${n}`,
          tool: 'memory_get',
          params: { key: 'a' },
          depends_on: Array.from({ length: 90 }, (__, m) => `x${m}`),
        }))
        return JSON.stringify({ name: 'W', definition: { steps } })
      },
    ],
    [
      '9,900 tools that nobody knows',
      'PATCH /organizations/{id}/governance',
      () => {
        const names = Array.from({ length: 9_900 }, (_, n) => [`mcp__a__t${n}`, { side_effect: 'read' }])
        return JSON.stringify({ external_tools: Object.fromEntries(names) })
      },
    ],
    [
      'one text of 200,000 templates',
      'POST /workflows',
      () =>
        JSON.stringify({
          name: 'W',
          definition: { steps: [{ id: 's', tool: 'memory_get', params: { key: '{{s}}'.repeat(200_000) } }] },
        }),
    ],
  ]
  test.each(slow)('%s', async (_, key, textOf) => {
    const { path } = requestOf(key, world.organizationId, {})
    const text = textOf(() => null)
    const bound = boundOf(Buffer.byteLength(text))
    const { milliseconds, status } = await leastCost(bound, (isAgain) =>
      costOf(measured, { method: splitKey(key).method, path, body: text }, isAgain),
    )
    expect(milliseconds).toBeLessThan(bound)
    expect(status).toBeLessThan(500)
  })
})
