import { beforeAll, describe, expect, test } from '@jest/globals'
import { agentBodyLimit, mostAgentValues } from '../../../src/api/routes/agents.ts'
import { defaultBodyLimit, mostValues } from '../../../src/api/json-body.ts'
import { splitKey, type Route } from '../../../src/api/route.ts'
import { routes, type GuardedKey } from '../../../src/api/routes/index.ts'
import { byDepth } from '../../support/depth.ts'
import { requestOf, validRequests } from '../access-matrix/valid-requests.ts'
import { sessionCookie } from '../fixtures.ts'
import { useMeasuredApi, type MeasuredApi } from './measured-api.ts'
import { sendScattered } from './scattered.ts'
import { spotsOf, withAt, type Spot } from './spots.ts'
import { kindOf, worstJson, type WorstJson } from './worst-json.ts'

/*
 * Sends the worst bodies that each route accepts, and measures the processor time they cost an API process. The limit,
 * beyond a normal request of the route, is 50 ms plus 50 ms for each MiB. The minimum of several tries counts, so that
 * a garbage collection or a busy machine does not fail the test. The test allows four times the limit, since machines
 * differ.
 */

let server: MeasuredApi['server']
let api: MeasuredApi['api']
let world: MeasuredApi['world']
useMeasuredApi((started) => ({ server, api, world } = started))

/** Number of tries of which the cheapest counts. */
const mostTries = 8
const megabyte = 1024 * 1024
/**
 * A slow or busy machine takes several times the processor time for the same work. Work that grows faster than its
 * input takes seconds here, so this bound detects it on any machine.
 */
const slowness = 4
/** Milliseconds that a body of so many bytes may cost beyond a usual one. */
const boundOf = (text: string): number => slowness * (50 + (50 * Buffer.byteLength(text)) / megabyte)

const json = { 'content-type': 'application/json' }
const formType = { 'content-type': 'multipart/form-data; boundary=x' }
const urlEncoded = { 'content-type': 'application/x-www-form-urlencoded' }
const authorization = () => ({ authorization: `Bearer ${world.sender.key}` })

interface Cost {
  readonly milliseconds: number
  readonly status: number
  readonly answered: number
}

/** Sends a request and measures its cost. `isAgain` first collects the garbage of earlier requests. */
async function costOf(
  request: { method: string; path: string; body: string; headers?: Record<string, string> },
  isAgain = false,
): Promise<Cost> {
  const { method, path, body, headers = json } = request
  const before = await api.cpu(isAgain ? 'clean' : undefined)
  const response = await fetch(`${api.url}${path}`, {
    method,
    headers: { ...('cookie' in headers ? {} : authorization()), ...headers },
    body,
    redirect: 'manual',
  })
  const answered = (await response.text()).length
  return { milliseconds: (await api.cpu()) - before, status: response.status, answered }
}

/** Sends a text as the body of a request. */
type Send = (text: string, isAgain?: boolean) => Promise<Cost>

/** The minimum of several tries. Stops as soon as one try is within the bound. */
async function leastCost(bound: number, text: string, send: Send): Promise<Cost> {
  let least = await send(text)
  for (let tries = 1; tries < mostTries && least.milliseconds > bound; tries += 1) {
    const again = await send(text, true)
    if (again.milliseconds < least.milliseconds) least = again
  }
  return least
}

/** What three usual requests cost at least. */
async function usualCost(send: () => Promise<Cost>): Promise<number> {
  let base = Infinity
  for (let tries = 0; tries < 3; tries += 1) {
    const { milliseconds, status } = await send()
    base = Math.min(base, milliseconds)
    expect(status).not.toBe(404)
  }
  return base
}

/** Those of the texts that cost more than a usual one and the bound, or are answered wrongly. */
async function slowOf(
  base: number,
  texts: Iterable<readonly [name: string, text: string]>,
  send: Send,
  mayBeLimited = false,
): Promise<string[]> {
  const found: string[] = []
  for (const [name, text] of texts) {
    const bound = boundOf(text)
    const { milliseconds, status, answered } = await leastCost(base + bound, text, send)
    if (milliseconds > base + bound) found.push(`${name}: ${milliseconds - base} ms, not ${bound}`)
    if (status >= 500 || (status === 429 && !mayBeLimited)) found.push(`${name}: answered ${status}`)
    if (status >= 400 && answered > 200_000) found.push(`${name}: an error of ${answered} characters`)
  }
  return found
}

const fits = ({ takes }: Spot, worst: WorstJson): boolean => takes === 'anything' || takes === kindOf(worst)

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

/** The name of each text, and the body with the text at this path. One body at a time is in memory. */
function* placed(body: unknown, path: Spot['path'], worst: readonly WorstJson[]) {
  for (const { name, text } of worst)
    yield [`\`${path.join('.')}\` is ${name}`, withAt(body, path, text)] as const
}

async function exceeding(route: Route): Promise<string[]> {
  const key = route.key as GuardedKey
  const { method } = splitKey(key)
  const valid = validRequests[key]
  const prepare = async () => requestOf(key, world.organizationId, await valid.prepare(world))
  const base = await usualCost(async () => {
    const { path, body } = await prepare()
    const cost = await costOf({ method, path, body: JSON.stringify(body ?? {}) })
    await valid.restore?.(world)
    return cost
  })
  const limit = route.bodyLimit ?? (route.ask === undefined ? defaultBodyLimit : agentBodyLimit)
  const values = route.bodyValues ?? (route.ask === undefined ? mostValues : mostAgentValues)
  const { path, body = {} } = await prepare()
  const send: Send = async (text, isAgain) => {
    const cost = await costOf({ method, path, body: text }, isAgain)
    await valid.restore?.(world)
    return cost
  }
  const found: string[] = []
  const spots = route.body === undefined ? [{ path: [], takes: 'anything' as const }] : spotsOf(route.body)
  let isFirst = route.ask !== undefined || key === 'PUT /memory/{key}' || key === 'POST /workflows'
  for (const spot of spots.filter(({ takes }) => takes !== 'other')) {
    const room = limit - Buffer.byteLength(withAt(body, spot.path, '')) - 10
    const texts = placed(body, spot.path, chosen(spot, room, values, isFirst))
    found.push(...(await slowOf(base, texts, send, true)))
    if (spot.takes === 'anything') isFirst = false
  }
  return found
}

describe('the worst bodies cost an API process at most 50 ms, plus 50 ms for each MiB', () => {
  const taking = routes.filter(
    ({ key, body, receive, needs }) =>
      receive === undefined && needs !== null && (body !== undefined || key.startsWith('POST ')),
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
  const endpoints: [string, ...(keyof typeof valid)[]][] = [
    ['sign-in/email', 'email', 'password'],
    ['sign-up/email', 'email', 'password', 'name'],
    ['request-password-reset', 'email'],
    ['reset-password', 'token', 'newPassword'],
    ['two-factor/verify-totp', 'code'],
    ['two-factor/verify-backup-code', 'code'],
    ['two-factor/enable', 'password'],
    ['change-password', 'currentPassword', 'newPassword'],
    ['update-user', 'name', 'image'],
  ]
  let cookie: string
  beforeAll(async () => {
    cookie = await sessionCookie(server.context, world.sender.userId)
  })
  test.each(endpoints)('%s', async (endpoint, ...names) => {
    const send: Send = async (text, isAgain) => {
      // Otherwise the limit on requests from one address would refuse the request.
      await server.context.pool.query('delete from auth_rate_limits')
      const headers = { cookie, origin: api.url, ...json }
      return costOf({ method: 'POST', path: `/api/auth/${endpoint}`, body: text, headers }, isAgain)
    }
    const body = Object.fromEntries(names.map((name) => [name, valid[name]]))
    const base = await usualCost(() => send(JSON.stringify(body)))
    for (const name of names) {
      const worst = chosen({ path: [name], takes: 'anything' }, 63 * 1024, mostValues, false)
      expect(await slowOf(base, placed(body, [name], worst), send)).toEqual([])
    }
  })
})

describe('bodies that used to be slow', () => {
  const many = <Value>(length: number, make: (n: number) => Value): Value[] =>
    Array.from({ length }, (_, n) => make(n))
  const trial = (rules: readonly object[]) => ({ call: { tool: 'mail_send' }, rules })
  const workflow = (...steps: readonly object[]) => ({ name: 'W', definition: { steps } })
  const step = { id: 's', tool: 'memory_get', params: { key: 'a' } }

  function slow(what: string, key: GuardedKey, bodyOf: () => object): void {
    test(what, async () => {
      const { path } = requestOf(key, world.organizationId, {})
      const text = JSON.stringify(bodyOf())
      const bound = boundOf(text)
      const { milliseconds, status } = await leastCost(bound, text, (body, isAgain) =>
        costOf({ method: splitKey(key).method, path, body }, isAgain),
      )
      expect(milliseconds).toBeLessThan(bound)
      expect(status).toBeLessThan(500)
    })
  }

  slow('100 conditions of 900 values, each wrong', 'POST /organizations/{id}/rules/test', () => {
    const condition = { param: 'to', operator: 'domain_in', value: many(900, () => '') }
    return trial([{ name: 'a', verdict: 'deny', params: many(100, () => condition) }])
  })
  slow('1,000 rules of 30 conditions without an operator', 'POST /organizations/{id}/rules/test', () => {
    const params = many(30, () => ({ param: 'to' }))
    return trial(many(1_000, () => ({ name: 'a', verdict: 'deny', params })))
  })
  slow('1,000 steps that each wait for 90 that do not exist', 'POST /workflows', () =>
    workflow(...many(1_000, (n) => ({ ...step, id: `s${n}`, depends_on: many(90, (m) => `x${m}`) }))),
  )
  slow('9,900 tools that nobody knows', 'PATCH /organizations/{id}/governance', () => {
    const tools = many(9_900, (n) => [`mcp__a__t${n}`, { side_effect: 'read' }] as const)
    return { external_tools: Object.fromEntries(tools) }
  })
})

/*
 * Node's parser takes seconds of the one thread for a megabyte in chunks of one byte, and each chunk is an object in
 * memory. So a body in too many pieces is refused and its connection closes, whoever reads the body and even if nobody
 * does.
 */

/** Milliseconds. A body without a limit takes 1,300 or more. */
const mostCpu = 400
/** In bytes. Without a limit an upload takes 860 MiB. */
const mostMemory = 64 * megabyte
const partOf = (name: string): string =>
  `--x\r\ncontent-disposition: form-data; name="${name}"; filename="a.txt"\r\n\r\n`

test.each<[string, string, () => Record<string, string>, string]>([
  ['an uploaded file', '/files', () => ({ ...authorization(), ...formType }), partOf('file')],
  ['a JSON body', '/workflows', () => ({ ...authorization(), ...json }), '{}'],
  ['the body of a request without a key', '/workflows', () => json, '{}'],
  ['the body of an unknown address', '/nowhere', () => json, '{}'],
  ['a body to the sign-in library', '/api/auth/sign-in/email', () => json, '{}'],
  ['a form of the console', '/console/sign-in', () => ({ origin: api.url, ...urlEncoded }), 'a='],
])(
  '%s in pieces of one byte is cut off before it costs much time or memory',
  async (_, path, headers, before) => {
    const body = { before, count: 2 * megabyte, after: '\r\n--x--\r\n' }
    let [cpu, memory] = [Infinity, Infinity]
    // The minimum of several tries counts, so that a busy machine does not fail the test.
    for (let tries = 0; tries < mostTries && (cpu > mostCpu || memory > mostMemory); tries += 1) {
      const began = await api.usage('clean')
      const { isCut } = await sendScattered(api.url, { path, headers: headers() }, body)
      const ended = await api.usage()
      expect(isCut).toBe(true)
      cpu = Math.min(cpu, ended.cpu - began.cpu)
      memory = Math.min(memory, ended.memory - began.memory)
    }
    expect(cpu).toBeLessThan(mostCpu)
    expect(memory).toBeLessThan(mostMemory)
  },
)

test.each([
  ['a file in many small pieces arrives', 9_000, { status: 201, isCut: false }],
  ['a refusal that can be answered is 413', 10_200, { status: 413 }],
])('%s', async (_, count, answer) => {
  const body = { before: partOf('file'), count, after: '\r\n--x--\r\n' }
  const head = { path: '/files', headers: { ...authorization(), ...formType } }
  expect(await sendScattered(api.url, head, body)).toMatchObject(answer)
})

describe('the worst forms take no more', () => {
  const part = (head: string, content: string): string =>
    `--x\r\ncontent-disposition: form-data; ${head}\r\n\r\n${content}\r\n`
  const formOf = (content: string, around = ''): string =>
    `${around}${part('name="file"; filename="a.txt"', content)}--x--\r\n`
  const size = 4 * megabyte
  const filled = (text: string): string => text.repeat(size / text.length)

  test('POST /files', async () => {
    const labels = part('name="labels"', 'a,'.repeat(4_000))
    const worstForms = {
      'a file of line ends': formOf(filled('\r\n')),
      'a file of beginnings of boundaries': formOf(filled('\r\n--')),
      'a file of boundaries with another end': formOf(filled('\r\n--y')),
      'a file of hyphens': formOf(filled('-')),
      'a file of commas': formOf(filled(',')),
      'parts without end': `${part('name="labels"', 'a').repeat(20_000)}--x--\r\n`,
      'labels of commas': formOf('hello', labels.repeat(31)),
      'a head of a megabyte': `--x\r\n${'a: b\r\n'.repeat(170_000)}`,
      'a name of a megabyte': formOf('hello').replace('a.txt', 'a'.repeat(megabyte)),
      'a boundary in vain': '--'.repeat(megabyte),
    }
    const send: Send = (body, isAgain) =>
      costOf({ method: 'POST', path: '/files', body, headers: formType }, isAgain)
    const base = await usualCost(() => send(formOf('hello')))
    expect(await slowOf(base, Object.entries(worstForms), send)).toEqual([])
  })

  test('a page of the console', async () => {
    const headers = { origin: api.url, ...urlEncoded }
    const most = 63 * 1024
    const worstForms = {
      'many fields': 'a&'.repeat(most / 2),
      'many values of a field': 'email=&'.repeat(most / 7),
      'one long value': `email=${'a'.repeat(most)}`,
      'a value of percent signs': `email=${'%'.repeat(most)}`,
      'a value of encoded bytes': `email=${'%ff'.repeat(most / 3)}`,
      'a value of spaces': `email=${'+'.repeat(most)}&password=${'+'.repeat(500)}`,
    }
    const send: Send = async (body, isAgain) => {
      await server.context.pool.query('delete from auth_rate_limits')
      return costOf({ method: 'POST', path: '/console/sign-in', body, headers }, isAgain)
    }
    const base = await usualCost(() => send('email=a%40acme.com&password=a+long+password'))
    expect(await slowOf(base, Object.entries(worstForms), send)).toEqual([])
  })
})
