import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { splitKey } from '../../../src/api/route.ts'
import type { GuardedKey } from '../../../src/api/routes/index.ts'
import { planMail } from '../../../src/governance/notifications/plan-mail.ts'
import { planNotifications } from '../../../src/governance/notifications/plan.ts'
import { sendMails } from '../../../src/governance/notifications/send-mail.ts'
import { fanOut } from '../../../src/governance/webhooks/fan-out.ts'
import { createMailer } from '../../../src/programs/create-context.ts'
import type { Role } from '../../../src/policy/types.ts'
import { startSmtpSink, type SmtpSink } from '../../support/smtp-sink.ts'
import type { Person } from '../access-matrix/place.ts'
import { guardedKeys, requestOf, validRequests } from '../access-matrix/valid-requests.ts'
import { World } from '../access-matrix/world.ts'
import { addOrganization, addPerson, sessionCookie } from '../fixtures.ts'
import { startTestServer, type TestServer } from '../server.ts'
import { mark, plant, rows, type Planted, type Row } from './planted.ts'

/*
 * Every route that answers with values × part in the run × the setting `run_values`, as the table in docs/security.md
 * says. A value stands in every place that can hold one, and no route, page, message or log shows it to anybody else.
 */

/** The columns of the table. A reader of the organization next door is a stranger. */
const parts = ['asker', 'owner', 'admin', 'reader', 'grouped', 'member', 'viewer', 'stranger'] as const
type Part = (typeof parts)[number]
const roleOf: Readonly<Record<Exclude<Part, 'stranger'>, Role>> = { asker: 'member', owner: 'owner', admin: 'admin', reader: 'viewer', grouped: 'member', member: 'member', viewer: 'viewer' } // prettier-ignore
const settings = ['participants', 'members', 'everyone'] as const
type Setting = (typeof settings)[number]

const logs = mkdtempSync(join(tmpdir(), 'countersign-values-'))
let server: TestServer
let sink: SmtpSink
let people: Record<Part, Person>
let planted: Planted
let organizationId: string

beforeAll(async () => {
  sink = await startSmtpSink()
  server = await startTestServer({ env: { SMTP_URL: sink.url, LOG_LEVEL: 'debug', LOG_DIR: logs } })
  const { context } = server
  const { id, owner } = await addOrganization(context)
  organizationId = id
  const made = async (part: Exclude<Part, 'stranger'>) => [part, await addPerson(context, id, roleOf[part])]
  const others = await Promise.all(
    (['asker', 'admin', 'reader', 'grouped', 'member', 'viewer'] as const).map(made),
  )
  people = { ...Object.fromEntries(others), owner, stranger: (await addOrganization(context)).owner }
  planted = await plant(server, id, people)
})
afterAll(async () => {
  await server?.close()
  await sink?.close()
  rmSync(logs, { recursive: true, force: true })
})

/** The cells of the table, by row and column. */
function tableOf(page: string): ReadonlyMap<string, readonly string[]> {
  const lines = page.split('\n').filter((line) => line.startsWith('|'))
  const cells = lines.map((line) => line.split('|').slice(1, -1).map((cell) => cell.trim().replaceAll('`', ''))) // prettier-ignore
  return new Map(cells.map(([name = '', ...rest]) => [name, rest]))
}
const table = tableOf(readFileSync('docs/security.md', 'utf8'))
const head = table.get('Values of') ?? []

const columnOf: Partial<Record<Part, string>> = { asker: 'who asked or wrote', reader: 'in readers', grouped: 'in the group' } // prettier-ignore

/** Whether the table lets this person see the values of the row. */
function sees(part: Part, row: Row, setting: Setting): boolean {
  if (part === 'stranger') return false
  const cells = table.get(rows[row]) ?? []
  const cell = cells[head.indexOf(columnOf[part] ?? part)]
  if (cell === 'by role') return sees(roleOf[part], row, setting)
  if (cell === 'yes' || cell === 'no') return cell === 'yes'
  const from = settings.findIndex((each) => each === cell)
  if (from < 0) throw new Error(`docs/security.md: ${rows[row]}, ${part}: ${cell}`)
  return settings.indexOf(setting) >= from
}

/** One answer with values, and the row of the table that says who sees them. */
interface Shown {
  readonly path: string
  readonly row: Row
  readonly values: readonly string[]
}

const ofRuns = (
  pathOf: (id: string) => string,
  names: readonly (keyof Planted['runs'][number]['values'])[],
): (() => readonly Shown[]) =>
  () => planted.runs.map(({ id, row, values }) => ({ path: pathOf(id), row, values: names.map((name) => values[name]) })) // prettier-ignore

const approvalRow = { run: 'approval', heldRun: 'approval', ownersRun: 'ownersApproval', groupsRun: 'groupsApproval' } as const // prettier-ignore

const approvals = (pathOf: (id: string) => string): readonly Shown[] => [
  ...planted.runs.flatMap(
    ({ approvalId, row, values }) =>
    approvalId === null ? [] : [{ path: pathOf(approvalId), row: approvalRow[row], values: [values.param] } as const], // prettier-ignore
  ),
  { path: pathOf(planted.agentApproval.id), row: 'approval', values: [planted.agentApproval.value] },
]

/**
 * - `nothing`: the answer has no value of a run, of a call or of the memory
 * - `sent`: it has only what its sender sends, or the run or approval in the form of another route
 * - a list: answers with values
 */
type Values = 'nothing' | 'sent' | (() => readonly Shown[])

const wholeRun = ['input', 'output', 'result', 'item', 'detail'] as const
const valuesOf: Readonly<Record<GuardedKey, Values>> = {
  'GET /health/secrets': 'nothing',
  'GET /me': 'nothing',
  'GET /me/notifications': 'nothing',
  'PUT /me/notifications': 'sent',
  'GET /me/absence': 'nothing',
  'PUT /me/absence': 'sent',
  'DELETE /me/absence': 'nothing',
  'GET /scopes': 'nothing',
  'POST /organizations': 'sent',
  'POST /invitations/accept': 'sent',
  'POST /workflows/{id}/triggers': 'sent',
  'GET /workflows/{id}/triggers': 'nothing',
  'GET /triggers': 'nothing',
  'GET /workflows/{id}/triggers/{trigger}': 'nothing',
  'PATCH /workflows/{id}/triggers/{trigger}': 'sent',
  'DELETE /workflows/{id}/triggers/{trigger}': 'nothing',
  'POST /workflows/{id}/triggers/{trigger}/test': 'sent',
  'GET /workflows/{id}/triggers/{trigger}/firings': 'nothing',
  'GET /organizations/{id}/members': 'nothing',
  'GET /organizations/{id}/sign-in': 'nothing',
  'POST /organizations/{id}/scim-tokens': 'sent',
  'GET /organizations/{id}/scim-tokens': 'nothing',
  'DELETE /organizations/{id}/scim-tokens/{token}': 'nothing',
  'PUT /organizations/{id}/sign-in': 'sent',
  'DELETE /organizations/{id}/sign-in': 'nothing',
  'POST /organizations/{id}/sign-in/test': 'nothing',
  'POST /organizations/{id}/sign-in/domains/{domain}/prove': 'nothing',
  'PATCH /organizations/{id}/members/{user}': 'sent',
  'DELETE /organizations/{id}/members/{user}': 'nothing',
  'DELETE /organizations/{id}/members/{user}/sign-in': 'nothing',
  'PUT /organizations/{id}/members/{user}/accounts/slack': 'sent',
  'DELETE /organizations/{id}/members/{user}/accounts/slack': 'nothing',
  'GET /organizations/{id}/notifications': 'nothing',
  'POST /organizations/{id}/invitations': 'sent',
  'GET /organizations/{id}/invitations': 'nothing',
  'DELETE /organizations/{id}/invitations/{invitation}': 'nothing',
  'POST /organizations/{id}/groups': 'sent',
  'GET /organizations/{id}/groups': 'nothing',
  'GET /organizations/{id}/freeze': 'nothing',
  'GET /organizations/{id}/groups/{group}': 'nothing',
  'PATCH /organizations/{id}/groups/{group}': 'sent',
  'DELETE /organizations/{id}/groups/{group}': 'nothing',
  'PUT /organizations/{id}/groups/{group}/members/{user}': 'nothing',
  'DELETE /organizations/{id}/groups/{group}/members/{user}': 'nothing',
  'POST /organizations/{id}/invite': 'sent',
  'GET /organizations/{id}/service-accounts': 'nothing',
  'POST /organizations/{id}/service-accounts': 'sent',
  'GET /organizations/{id}/service-accounts/{account}': 'nothing',
  'PATCH /organizations/{id}/service-accounts/{account}': 'sent',
  'DELETE /organizations/{id}/service-accounts/{account}': 'nothing',
  'POST /api-keys': 'sent',
  'GET /api-keys': 'nothing',
  'GET /api-keys/{id}': 'nothing',
  'PATCH /api-keys/{id}': 'sent',
  'DELETE /api-keys/{id}': 'nothing',
  'POST /api-keys/{id}/confirm': 'sent',
  'POST /terminal-logins/look': 'nothing',
  'POST /terminal-logins/approve': 'sent',
  'POST /terminal-logins/deny': 'sent',
  'POST /workflows': 'sent',
  'POST /workflows/validate': 'nothing',
  'POST /workflows/preview': 'sent',
  'GET /workflows': 'nothing',
  'GET /workflows/{id}': 'nothing',
  'PUT /workflows/{id}': 'sent',
  'DELETE /workflows/{id}': 'nothing',
  'GET /workflows/{id}/versions': 'nothing',
  'GET /workflows/{id}/versions/{version}': 'nothing',
  'POST /workflows/{id}/versions/{version}/rollback': 'sent',
  'GET /workflow-registry': 'nothing',
  'GET /workflow-registry/{id}': 'nothing',
  'POST /workflow-registry/{id}/approve-template': 'sent',
  'POST /workflow-registry/{id}/deprecate': 'sent',
  'POST /workflow-registry/{id}/archive': 'sent',
  'POST /workflow-registry/{id}/use': 'sent',
  'POST /workflows/{id}/execute': 'sent',
  'POST /workflows/{id}/authorization-preview': 'sent',
  'GET /runs': 'nothing',
  'GET /runs/{id}': ofRuns((id) => `/runs/${id}`, wholeRun),
  'POST /runs/{id}/cancel': 'sent',
  'POST /runs/{id}/rerun': 'sent',
  'POST /runs/rerun': 'nothing',
  'GET /organizations/{id}/reruns': 'nothing',
  'GET /organizations/{id}/reruns/{rerun}': 'nothing',
  'GET /organizations/{id}/reruns/{rerun}/runs': 'nothing',
  'POST /organizations/{id}/reruns/{rerun}/cancel': 'nothing',
  'GET /executions': 'nothing',
  'GET /executions/{id}': ofRuns((id) => `/executions/${id}?limit=200`, wholeRun),
  'POST /executions/{id}/cancel': 'sent',
  'GET /runs/{id}/authorization': 'nothing',
  'GET /runs/{id}/events': 'nothing',
  'GET /runs/{id}/steps/{step}/output': ofRuns((id) => `/runs/${id}/steps/look/output`, ['output']),
  'GET /runs/{id}/steps/{step}/calls': () => [
    ...ofRuns((id) => `/runs/${id}/steps/each/calls`, ['item', 'detail'])(),
    ...ofRuns((id) => `/runs/${id}/steps/s/calls`, ['param'])(),
  ],
  'POST /runs/{id}/steps/{step}/resolve': 'sent',
  'GET /organizations/{id}/approvals/summary': 'nothing',
  'GET /approvals': () => approvals((id) => `/approvals?organization_id=${organizationId}#${id}`),
  'GET /approvals/{id}': () => approvals((id) => `/approvals/${id}`),
  'POST /approvals/{id}/approve': 'sent',
  'POST /approvals/{id}/reject': 'sent',
  'POST /approvals/{id}/answer': 'sent',
  'POST /approvals/{id}/revise': 'sent',
  'POST /approvals/{id}/withdraw': 'nothing',
  'POST /organizations/{id}/rules': 'sent',
  'GET /organizations/{id}/rules': 'nothing',
  'POST /organizations/{id}/rules/test': 'sent',
  'POST /organizations/{id}/rules/backtest': 'sent',
  'GET /organizations/{id}/rules/analysis': 'nothing',
  'GET /organizations/{id}/rules/counts': 'nothing',
  'POST /organizations/{id}/rules/diff': 'sent',
  'GET /organizations/{id}/rules/{rule}': 'nothing',
  'PUT /organizations/{id}/rules/{rule}': 'sent',
  'PATCH /organizations/{id}/rules/{rule}': 'sent',
  'DELETE /organizations/{id}/rules/{rule}': 'nothing',
  'GET /organizations/{id}/rules/{rule}/versions': 'nothing',
  'GET /organizations/{id}/rules/{rule}/versions/{version}': 'nothing',
  'POST /organizations/{id}/rules/{rule}/versions/{version}/restore': 'sent',
  'POST /organizations/{id}/label-rules': 'sent',
  'GET /organizations/{id}/label-rules': 'nothing',
  'GET /organizations/{id}/label-rules/{rule}': 'nothing',
  'PUT /organizations/{id}/label-rules/{rule}': 'sent',
  'PATCH /organizations/{id}/label-rules/{rule}': 'sent',
  'DELETE /organizations/{id}/label-rules/{rule}': 'nothing',
  'GET /organizations/{id}/label-rules/{rule}/versions': 'nothing',
  'GET /organizations/{id}/label-rules/{rule}/versions/{version}': 'nothing',
  'POST /organizations/{id}/label-rules/{rule}/versions/{version}/restore': 'sent',
  'GET /rule-templates': 'nothing',
  'GET /organizations/{id}/governance': 'nothing',
  'PATCH /organizations/{id}/governance': 'sent',
  'GET /organizations/{id}/governance/audit': 'nothing',
  'GET /organizations/{id}/governance/report': 'nothing',
  'GET /organizations/{id}/governance/approvals': 'nothing',
  'POST /organizations/{id}/webhooks': 'sent',
  'GET /organizations/{id}/webhooks': 'nothing',
  'GET /organizations/{id}/webhooks/{webhook}': 'nothing',
  'PATCH /organizations/{id}/webhooks/{webhook}': 'sent',
  'DELETE /organizations/{id}/webhooks/{webhook}': 'nothing',
  'POST /organizations/{id}/webhooks/{webhook}/rotate-secret': 'sent',
  'POST /organizations/{id}/webhooks/{webhook}/test': 'sent',
  'GET /organizations/{id}/webhooks/{webhook}/deliveries': 'nothing',
  'POST /organizations/{id}/webhooks/{webhook}/deliveries/{delivery}/redeliver': 'sent',
  'GET /organizations/{id}/quota': 'nothing',
  'PATCH /organizations/{id}/quota': 'sent',
  'GET /organizations/{id}/audit-events/verify': 'nothing',
  'GET /organizations/{id}/audit-events/checkpoint': 'nothing',
  'GET /organizations/{id}/audit-events/export': 'nothing',
  'POST /organizations/{id}/freeze': 'sent',
  'POST /organizations/{id}/unfreeze': 'sent',
  'POST /organizations/{id}/apply': 'sent',
  'GET /organizations/{id}/objects': 'nothing',
  'POST /organizations/{id}/release': 'nothing',
  'GET /organizations/{id}/tool-policies': 'nothing',
  'POST /organizations/{id}/tool-policies': 'sent',
  'PATCH /organizations/{id}/tool-policies/{tool}': 'sent',
  'DELETE /organizations/{id}/tool-policies/{tool}': 'nothing',
  'GET /organizations/{id}/tool-policies/{tool}/versions': 'nothing',
  'GET /organizations/{id}/tool-policies/{tool}/versions/{version}': 'nothing',
  'POST /organizations/{id}/tool-policies/{tool}/versions/{version}/restore': 'sent',
  'GET /organizations/{id}/role-policy-overrides': 'nothing',
  'POST /organizations/{id}/role-policy-overrides': 'sent',
  'DELETE /organizations/{id}/role-policy-overrides/{tool}': 'nothing',
  'GET /governance/tool-constraints': 'nothing',
  'POST /authorize': 'sent',
  'POST /hooks/claude-code': 'sent',
  'GET /authorize/approvals/{id}': 'nothing',
  'POST /authorize/approvals/{id}/cancel': 'sent',
  'POST /authorize/observe': 'sent',
  'POST /authorize/sessions/end': 'sent',
  'GET /agent-sessions': 'nothing',
  'GET /agent-sessions/{id}': 'nothing',
  'POST /agent-sessions/{id}/revoke': 'sent',
  'GET /tools': 'nothing',
  'GET /tools/{name}': 'nothing',
  'POST /tools/{name}/try': 'sent',
  'POST /tools/{name}/connect': 'sent',
  'GET /connections/callback/{integration}': 'sent',
  'GET /services': 'nothing',
  'GET /connections': 'nothing',
  'GET /connections/{id}': 'nothing',
  'PATCH /connections/{id}': 'sent',
  'DELETE /connections/{id}': 'nothing',
  'POST /files': 'sent',
  'GET /files': 'nothing',
  'GET /files/{id}': 'nothing',
  'GET /files/{id}/runs': 'nothing',
  'DELETE /files/{id}': 'nothing',
  'GET /memory': 'nothing',
  'GET /memory/{key}': () =>
    planted.memory.map(({ key, row, value }) => ({
      path: `/memory/${key}?organization_id=${organizationId}`,
      row,
      values: [value],
    })),
  'PUT /memory/{key}': 'sent',
  'DELETE /memory/{key}': 'nothing',
}

const found = (text: string): string[] => [...new Set(text.match(new RegExp(`${mark}[\\w-]*`, 'g')))].sort()

const read = (part: Part, path: string) => server.call(people[part].key, 'GET', path.split('#')[0] ?? '')

test('every route says whether it shows values', () => {
  expect(Object.keys(valuesOf).sort()).toEqual([...guardedKeys].sort())
})

describe.each(settings)('with `run_values: %s`', (setting) => {
  beforeAll(async () => {
    const path = `/organizations/${organizationId}/governance`
    const { status } = await server.call(people.owner.key, 'PATCH', path, { run_values: setting })
    expect(status).toBe(200)
  })

  const showing = Object.entries(valuesOf).flatMap(([key, values]) =>
    typeof values === 'function' ? [[key, values] as const] : [],
  )
  test.each(showing)('%s', async (_, values) => {
    for (const part of parts) {
      // One answer may show the values of several rows.
      const answers = Map.groupBy(values(), ({ path }) => path.split('#')[0] ?? '')
      for (const [path, shown] of answers) {
        const expected = shown.flatMap((each) => (sees(part, each.row, setting) ? each.values : [])).sort()
        const answer = await read(part, path)
        expect([part, path, ...found(answer.text)]).toEqual([
          part,
          path,
          ...(mayRead(part, path) ? expected : []),
        ])
        if (part === 'stranger') expect([path, answer.status]).toEqual([path, 404])
        else if (expected.length < shown.flatMap((each) => each.values).length)
          expectReason(part, path, answer)
      }
    }
  })

  /** Viewers read only approvals of their groups, and no memory. */
  const mayRead = (part: Part, path: string): boolean =>
    !(
      part !== 'stranger' &&
      roleOf[part] === 'viewer' &&
      (path.startsWith('/approvals') || path.startsWith('/memory'))
    )

  /** In place of the values stands who can show them. */
  function expectReason(
    part: Part,
    path: string,
    { status, text, body }: Awaited<ReturnType<typeof read>>,
  ): void {
    if (!mayRead(part, path)) return expect([path, status]).toEqual([path, path.startsWith('/approvals?') ? 200 : 403]) // prettier-ignore
    const asker = `${people.asker.userId}@elsewhere.test`
    if (status === 200) expect([path, text]).toEqual([path, expect.stringContaining('"values_hidden"')])
    else expect([path, status, body.error.details]).toEqual([path, 403, [{ path: expect.any(String), message: expect.stringContaining('ask ') }]]) // prettier-ignore
    expect([path, text]).toEqual([path, expect.stringContaining(asker)])
  }

  const pagesOf = (): readonly string[] => [
    ...['', '/runs', '/approvals', '/sessions', `/sessions/${planted.sessionId}`].map(
      (path) => `/console${path}`,
    ),
    ...planted.runs.flatMap(({ id }) => ['', '/steps/look', '/steps/each', '/steps/s'].map((path) => `/console/runs/${id}${path}`)), // prettier-ignore
    ...approvals((id) => `/console/approvals/${id}`).flatMap(({ path }) => [path, `${path}/parameters`]),
  ]

  test('pages show no more than the routes', async () => {
    for (const part of parts) {
      const cookie = await sessionCookie(server.context, people[part].userId)
      for (const path of pagesOf()) {
        const page = await fetch(`${server.base}${path}`, { headers: { cookie } })
        const allowed = everything().filter(({ row }) => sees(part, row, setting)).flatMap(({ values }) => values) // prettier-ignore
        const more = found(await page.text()).filter((value) => !allowed.includes(value))
        expect([part, path, more]).toEqual([part, path, []])
      }
    }
  })
})

/** All answers with values. */
const everything = (): readonly Shown[] =>
  Object.values(valuesOf).flatMap((values) => (typeof values === 'function' ? values() : []))

describe('routes without values', () => {
  const others = guardedKeys.filter((key) => key.startsWith('GET ') && valuesOf[key] === 'nothing')
  test.each(others)('%s', async (key) => {
    const place = { organizationId, owner: people.owner, requester: people.asker }
    const filling = await validRequests[key].prepare(new World(server, place, people.owner))
    for (const ids of plantedIds(key))
      for (const part of parts) {
        const { path } = requestOf(key, organizationId, { ...filling, ...ids })
        const answer = await read(part, path)
        expect([part, path, found(answer.text)]).toEqual([part, path, []])
        if (part === 'owner')
          expect([path, answer.status]).toEqual([path, path.includes('/authorize/') ? 404 : 200])
      }
  })

  /** The planted objects that the path of the route can name. */
  function plantedIds(key: GuardedKey): { ids?: Record<string, string>; query?: string }[] {
    const { path } = splitKey(key)
    const runs = planted.runs.map(({ id }) => id)
    if (path.endsWith('/events')) return runs.map((id) => ({ ids: { id }, query: 'limit=1' }))
    if (path.startsWith('/runs/{id}')) return runs.map((id) => ({ ids: { id } }))
    if (path.startsWith('/agent-sessions/{id}')) return [{ ids: { id: planted.sessionId } }]
    if (path.startsWith('/authorize/approvals/{id}')) return [{ ids: { id: planted.agentApproval.id } }]
    if (path.startsWith('/workflows/{id}/triggers/')) return [{}]
    if (path.startsWith('/workflows/{id}')) return [{ ids: { id: planted.workflowId, version: '1' } }]
    if (path.startsWith('/files/{id}')) return [{ ids: { id: planted.fileId } }]
    return [{}]
  }
})

describe('messages and logs', () => {
  test('mails about approvals have no values', async () => {
    await server.context.pool.query(`update users set email_verified = true`)
    await planNotifications(server.context, [planMail(server.context.config)])
    await server.context.pool.query(`update notifications set next_attempt_at = now() where channel = 'mail'`)
    await sendMails(server.context, createMailer(server.context.config), organizationId)
    expect(sink.deliveries.length).toBeGreaterThan(0)
    expect(found(sink.deliveries.map(({ raw }) => raw.replaceAll(/=\r?\n/g, '')).join())).toEqual([])
  })

  test('messages to webhooks and events of runs have no values', async () => {
    await fanOut(server.context)
    const { rows: messages } = await server.context.pool.query(
      'select message::text, data::text from webhook_events',
    )
    const { rows: events } = await server.context.pool.query('select * from run_events')
    expect([messages.length > 0, events.length > 0]).toEqual([true, true])
    expect(found(JSON.stringify([messages, events]))).toEqual([])
  })

  test('the audit log and the logs of the process have no values', async () => {
    const { rows: entries } = await server.context.pool.query('select canonical from audit_events')
    expect(found(JSON.stringify(entries))).toEqual([])
    const lines = readdirSync(logs, { recursive: true, withFileTypes: true }).filter((each) => each.isFile()).map((each) => readFileSync(join(each.parentPath, each.name), 'utf8')) // prettier-ignore
    expect(lines.join('').length).toBeGreaterThan(0)
    expect(found(lines.join(''))).toEqual([])
  })
})

describe('who may decide the approval of a whole run', () => {
  test('sees its inputs, and no other value, if another approval needs an owner', async () => {
    const run = planted.runs.find(({ row }) => row === 'ownersRun')
    if (run === undefined) throw new Error('no run has an approval that needs an owner')
    await server.context.pool.query(
      `insert into approvals (id, organization_id, kind, status, run_id, workflow_id, labels, risk, requested_by, approver, approvals_needed, created_at)
       values ('apr_of_the_run', $1, 'run', 'approved', $2, $3, '{}', '{"level": "low", "reasons": []}', $4, 'admin', 1, now())`,
      [organizationId, run.id, planted.workflowId, people.asker.userId],
    )
    const seen = async (part: Part) => found((await read(part, `/runs/${run.id}`)).text)
    expect(await seen('admin')).toEqual([run.values.input])
    expect(await seen('member')).toEqual([])
    expect((await read('admin', `/runs/${run.id}/steps/look/output`)).status).toBe(403)
  })
})

test('nobody takes an output that they do not see as an input of a run or of a preview', async () => {
  const settingsPath = `/organizations/${organizationId}/governance`
  await server.call(people.owner.key, 'PATCH', settingsPath, { run_values: 'participants' })
  const from = planted.runs.find(({ row }) => row === 'run')?.id
  const inputs = { note: { from_run: from, step: 'look' } }
  const taking = (part: Part, route: string) =>
    server.call(people[part].key, 'POST', `/workflows/${planted.workflowId}/${route}`, { inputs })
  for (const route of ['execute?wait=0', 'authorization-preview']) {
    const refused = await taking('member', route)
    expect([route, refused.status, found(refused.text)]).toEqual([route, 422, []])
    expect(refused.body.error.details[0].message).toContain('you can see no completed step')
    expect([200, 202]).toContain((await taking('asker', route)).status)
  }
})
