import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { setPriority } from 'node:os'
import { Readable } from 'node:stream'
import { Pool } from 'undici'

/*
 * Runs a hostile tenant (organization) in its own process. The parent process sends a HostileOrder. This process
 * prepares the tenant and answers `ready`. Its callers then repeat their acts until the parent sends `stop`. At the
 * end, this process sends the number of answers for each act and status.
 */

export interface HostileOrder {
  readonly baseUrl: string
  readonly organizationId: string
  readonly key: string
  /** The names of the acts that the tenant does; null means all acts. */
  readonly acts: readonly string[] | null
}

type Body = string | Readable | object
type Send = (act: string, method: Method, path: string, body?: Body, type?: string) => Promise<Answer>
type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
interface Answer {
  readonly status: number
  readonly body: unknown
}

// This process stands for a client on another machine. The low priority leaves the processor to the service.
setPriority(10)
process.once('disconnect', () => process.exit(0))
const [order] = (await once(process, 'message')) as [HostileOrder]
const counts: Record<string, number> = {}
const pool = new Pool(order.baseUrl, { connections: 256, bodyTimeout: 0, headersTimeout: 0 })

const send: Send = async (act, method, path, body, type = 'application/json') => {
  const { statusCode, body: answer } = await pool.request({
    method,
    path: `/api/v1${path}`,
    headers: { authorization: `Bearer ${order.key}`, 'content-type': type },
    ...(body === undefined ? {} : { body: isSentAsItIs(body) ? body : JSON.stringify(body) }),
  })
  const text = await answer.text()
  const name = `${act} ${statusCode}`
  counts[name] = (counts[name] ?? 0) + 1
  return { status: statusCode, body: parse(text) }
}

const isSentAsItIs = (body: Body): body is string | Readable =>
  typeof body === 'string' || body instanceof Readable

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}

function field(answer: Answer, name: string): string {
  const value = (answer.body as Record<string, unknown> | null)?.[name]
  return typeof value === 'string' ? value : ''
}

const MiB = 1024 * 1024
const organization = `/organizations/${order.organizationId}`
const longKey = `{"${'k'.repeat(400_000)}":[${'0,'.repeat(290_000)}0]}`
/** A JSON text with about as many lists as one stored value (`memory_set`) may have. */
const tinyLists = `[${'[],'.repeat(45_000)}[]]`
const manyValues = `[${'0,'.repeat(MiB)}0]`
const command = `echo ${'"$(a)" '.repeat(1_200)}`

const question = (tool: string, input: string): string =>
  `{"agent":{"name":"n","kind":"hook"},"session_id":"${randomUUID()}","tool_name":"${tool}","tool_input":${input}}`

const multipart = 'multipart/form-data; boundary=x'
const fileOf = (content: string): string =>
  `--x\r\ncontent-disposition: form-data; name="file"; filename="${randomUUID()}.txt"\r\n\r\n${content}\r\n--x--\r\n`
const upload = (act: string, body: string | Readable): Promise<Answer> =>
  send(act, 'POST', '/files', body, multipart)
const largeText = 'a line of text\r\n'.repeat((20 * MiB) / 16)
/** Returns the body of an upload that arrives in chunks of one byte. */
const scattered = (): Readable =>
  Readable.from(Array.from(fileOf('x'.repeat(50_000)), (each) => Buffer.from(each)))

/** Asks a question, which opens an agent session. Then ends or revokes this session. */
async function sessions(isRevoked: boolean): Promise<void> {
  const text = question('Write', '{"a":"y"}')
  const opened = await send('sessions', 'POST', '/authorize', text)
  const id = field(opened, 'session_run_id')
  if (isRevoked && id !== '') await send('revoke', 'POST', `/agent-sessions/${id}/revoke`, {})
  const { session_id } = JSON.parse(text) as { session_id: string }
  if (!isRevoked) await send('end', 'POST', '/authorize/sessions/end', { session_id })
}

/** `callers` callers run the act at the same time. Each caller starts the act again as soon as the act has ended. */
const acts: Readonly<Record<string, { readonly callers: number; readonly act: () => Promise<unknown> }>> = {
  questions: { callers: 16, act: () => send('questions', 'POST', '/authorize', question('Read', '{"a":1}')) },
  shell: {
    callers: 4,
    act: () => send('shell', 'POST', '/authorize', question('Bash', JSON.stringify({ command }))),
  },
  heavyQuestions: {
    callers: 2,
    act: () => send('heavyQuestions', 'POST', '/authorize', question('Edit', manyValues.slice(0, MiB) + ']')),
  },
  heldQuestions: {
    callers: 4,
    act: () =>
      send('heldQuestions', 'POST', '/authorize', question('Write', `{"a":"${'x'.repeat(3 * MiB)}"}`)),
  },
  reads: { callers: 8, act: () => send('reads', 'GET', '/runs?limit=200') },
  quota: { callers: 4, act: () => send('quota', 'PATCH', `${organization}/quota`, { memory_mb: 300 }) },
  verify: { callers: 4, act: () => send('verify', 'GET', `${organization}/audit-events/verify`) },
  audit: {
    callers: 4,
    act: () =>
      send(
        'audit',
        'GET',
        `${organization}/governance/audit?event_type=workflow.execute&page=50&per_page=100`,
      ),
  },
  bodies: {
    callers: 2,
    act: () =>
      send('bodies', 'POST', '/workflows', `{"name":"n","definition":{"steps":[{"id":"a","tool":"memory_set","params":${longKey}}]}}`), // prettier-ignore
  },
  rules: {
    callers: 2,
    act: () =>
      send('rules', 'POST', `${organization}/rules`, {
        name: `rule ${randomUUID()}`,
        verdict: 'require_approval',
        tools: ['Write'],
        params: [{ param: '*', operator: 'contains', value: 'y'.repeat(500) }],
      }),
  },
  ruleTests: {
    callers: 2,
    act: () =>
      send('ruleTests', 'POST', `${organization}/rules/test`, {
        call: {
          source: 'agents',
          tool: 'Write',
          params: { a: 'y'.repeat(900_000) },
          labels: [],
          role: 'member',
        },
      }),
  },
  smallFiles: { callers: 4, act: () => upload('smallFiles', fileOf('hello')) },
  largeFiles: { callers: 2, act: () => upload('largeFiles', fileOf(largeText)) },
  scatteredFiles: { callers: 2, act: () => upload('scatteredFiles', scattered()) },
  ends: { callers: 2, act: () => sessions(false) },
  revocations: { callers: 2, act: () => sessions(true) },
  memory: {
    callers: 2,
    act: () => send('memory', 'PUT', `/memory/${randomUUID()}`, `{"value":"${'v'.repeat(960_000)}"}`),
  },
}

/** Starts a run of many items, opens event streams that are never read fully, and cancels the run. */
async function runs(workflowId: string): Promise<void> {
  const id = field(await send('runs', 'POST', `/workflows/${workflowId}/execute?wait=0`, {}), 'execution_id')
  if (id === '') return
  // A busy service may cut a stream off.
  const streams = Array.from({ length: 20 }, async () => {
    const { body } = await pool.request({
      method: 'GET',
      path: `/api/v1/runs/${id}/events`,
      headers: { authorization: `Bearer ${order.key}` },
    })
    return body.on('error', () => undefined)
  }).map((stream) => stream.catch(() => null))
  await new Promise((resolve) => setTimeout(resolve, 2_000))
  await send('cancel', 'POST', `/runs/${id}/cancel`, {})
  for (const stream of streams) void stream.then((body) => body?.destroy())
}

/**
 * Saves two workflows. In the first, all items read one value with many lists. In the second, each item reads a file.
 * Returns the ids of the workflows.
 */
async function prepare(): Promise<string[]> {
  // Sets all limits as high as an owner may.
  const { body } = await send('prepare', 'GET', `${organization}/quota`)
  const { limits } = body as { limits: Record<string, number> }
  await send('prepare', 'PATCH', `${organization}/quota`, raised(limits))
  await send('prepare', 'PATCH', `${organization}/governance`, { approvals_enabled: true })
  await send('prepare', 'PUT', '/memory/lists', `{"value":${tinyLists}}`)
  const inputs = { items: { type: 'array', default: Array.from({ length: 100 }, (_, n) => n) } }
  const lists = {
    inputs,
    steps: [
      { id: 'get', tool: 'memory_get', params: { key: 'lists' } },
      {
        id: 'each',
        tool: 'memory_set',
        for_each: '{{input.items}}',
        params: { key: 'n{{index}}', value: '{{get.output.value[0]}}' },
      },
    ],
  }
  const params = { path: 'reports/q3-summary.md' }
  const files = { inputs, steps: [{ id: 'each', tool: 'file_read', for_each: '{{input.items}}', params }] }
  const saved = [lists, files].map((definition) =>
    send('prepare', 'POST', '/workflows', { name: 'n', definition }),
  )
  return (await Promise.all(saved)).map((each) => field(each, 'id'))
}

const raised = (limits: Record<string, number>): Record<string, number> =>
  Object.fromEntries(Object.entries(limits).map(([name, value]) => [name, value * 100]))

const workflowIds = await prepare()
let goesOn = true
const repeat = async (act: () => Promise<unknown>): Promise<void> => {
  while (goesOn) {
    await act().catch(() => {
      counts['cut off'] = (counts['cut off'] ?? 0) + 1
    })
  }
}
const isChosen = (name: string): boolean => order.acts?.includes(name) ?? true
for (const [name, { callers, act }] of Object.entries(acts))
  for (let n = 0; isChosen(name) && n < callers; n += 1) void repeat(act)
for (const id of workflowIds) for (let n = 0; isChosen('runs') && n < 4; n += 1) void repeat(() => runs(id))
process.send?.('ready')
process.once('message', () => {
  goesOn = false
  process.send?.(counts)
})
