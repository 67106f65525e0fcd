import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import type { ToolName } from '../../src/catalog/index.ts'
import { askAt, credentialAt } from '../activities/tools/faults/ask.ts'
import { drip } from '../activities/tools/faults/hostile.ts'
import { github } from '../activities/tools/faults/github.ts'
import { googleCalendar, googleDocs, googleSheets } from '../activities/tools/faults/google.ts'
import { jira } from '../activities/tools/faults/jira.ts'
import { mail } from '../activities/tools/faults/mail.ts'
import { trello } from '../activities/tools/faults/trello.ts'
import type { Ask, FaultService } from '../activities/tools/faults/service.ts'
import { first } from '../activities/tools/faults/rows.ts'
import { until } from '../stack/until.ts'
import { crashHome, type CrashHome, type Fault as Point } from '../support/chaos.ts'
import type { Run } from '../support/client-types.ts'
import type { Emulator } from '../support/emulators.ts'
import { startFaultProxy, type Fault, type FaultProxy } from '../support/fault-proxy.ts'

/*
 * A whole stack and stand-ins for GitHub, Google, Jira, Trello and Resend that keep state. The worker is killed around each
 * write of a call that can be looked for or sent again with its key, runs are cancelled with a request in flight, and
 * connections end while calls need them.
 */

const parts = [github, googleCalendar, googleDocs, googleSheets, jira, trello, mail]
const writes = parts.flatMap(({ tools }) => Object.keys(tools) as ToolName[])
const partOf = (tool: ToolName): FaultService =>
  parts.find(({ tools }) => Object.hasOwn(tools, tool)) as FaultService
/** What follows a crash here depends on the tool. */
const pointsOfTools: readonly Point[] = ['effect.sent:before', 'effect.sent:after', 'effect.outcome:before']
/** Here it does not. */
const pointsOfAll: readonly Point[] = ['effect.decide:before', 'effect.decide:after', 'effect.outcome:after']
const kills = writes
  .flatMap((tool) => pointsOfTools.map((point) => [point, tool] as const))
  .concat(pointsOfAll.map((point) => [point, 'github_comment'] as const))

/** A stand-in and the proxy before it. */
interface Service {
  readonly emulator: Emulator
  readonly proxy: FaultProxy
}

let home: CrashHome
const services = new Map<string, Service>()

async function startService(part: FaultService): Promise<void> {
  const emulator = await part.start()
  services.set(part.name, { emulator, proxy: await startFaultProxy(emulator.url) })
}
const serviceOf = (tool: ToolName): Service => services.get(partOf(tool).name) as Service

async function connect(tool: ToolName): Promise<string> {
  const credential = credentialAt(partOf(tool), serviceOf(tool).proxy.url)
  const body = { credential, scope: 'personal' }
  return (await home.member.good<{ id: string }>('POST', `/tools/${tool}/connect`, body)).id
}

beforeAll(async () => {
  await startService(jira)
  const env = { TRACKER_BASE_URL: (services.get('jira') as Service).proxy.url }
  ;[home] = await Promise.all([
    crashHome({ env }),
    startService(github),
    startService(googleCalendar),
    startService(trello),
    startService(mail),
  ])
  await home.owner.settings({ approvals_enabled: true })
  // A call that was sent is looked for with the same connection alone, so they stay.
  for (const tool of [
    'github_comment',
    'calendar_create_event',
    'jira_comment',
    'trello_comment',
    'mail_send',
  ] as const)
    await connect(tool)
})
beforeEach(() => {
  for (const { proxy } of services.values()) proxy.choose = () => 'pass'
})
afterAll(async () => {
  await home?.close()
  await Promise.all(
    [...services.values()].flatMap(({ proxy, emulator }) => [proxy.close(), emulator.close()]),
  )
})

const askOf = (tool: ToolName): Ask => askAt(partOf(tool), serviceOf(tool).emulator.url)
let texts = 0

interface Started {
  readonly runId: string
  /** How often the service holds what the call writes. */
  held(): Promise<number>
}

async function start(tool: ToolName): Promise<Started> {
  texts += 1
  const text = `text${texts}end`
  const writing = tool === 'github_get_issue' ? undefined : partOf(tool).tools[tool]
  const { place } = tool === 'github_get_issue' ? github : partOf(tool)
  const params = writing?.params(text, place) ?? { repo: place }
  // A later kill can meet another attempt of this call, which counts as failed if nothing was made.
  const step = { id: 's', tool, params, retry: { attempts: 20, backoff_seconds: 1 } }
  const workflowId = await home.member.createWorkflow(text, { steps: [step] })
  const runId = await home.member.execute(workflowId, {})
  const held = async () =>
    (await writing?.made(askOf(tool), text, place, serviceOf(tool).emulator.url))?.length ?? 0
  return { runId, held }
}

const stepOf = (run: Run) => run.steps[0] as Run['steps'][number]
const ended = (runId: string) => home.member.untilRun(runId, 'ended', (run) => run.finished_at !== null)
const onWrite = (fault: () => Fault | Promise<Fault>) => {
  for (const [service, { proxy }] of services)
    proxy.choose = (method, path) => {
      const isWrite = parts.some(({ name, isWrite: is }) => name === service && is(method, path))
      return isWrite ? fault() : 'pass'
    }
}

describe('a worker is killed', () => {
  const started: (Started & { readonly name: string; readonly isAsked: boolean })[] = []

  test.each(kills)('%s of %s', async (point, tool) => {
    // Nothing tells that this request was never sent.
    const isAsked = point === 'effect.sent:after' && partOf(tool).tools[tool]?.mayStillAppear === true
    await home.faults.at(
      point,
      () => void start(tool).then((each) => started.push({ ...each, isAsked, name: `${point} of ${tool}` })),
    )
    // The time passes after which a call that is not found was certainly not made, or a person is asked. On a slow machine
    // earlier calls still wait, so it passes once for each.
    await home.query(
      `update effects set sent_at = least(sent_at, clock_timestamp() - make_interval(secs => case
         when $1::boolean and run_id = (select max(run_id) from effects where tool = $2) then 901 else 301 end))
       where state = 'sent'`,
      [isAsked, tool],
    )
  })

  test('each call was made once, or a person is asked', async () => {
    await until('all have started', () => started.length === kills.length)
    for (const { runId, held, name, isAsked } of started) {
      const isSettled = (run: Run) => run.finished_at !== null || stepOf(run).status === 'unknown_outcome'
      const run = await home.member.untilRun(runId, 'settled', isSettled)
      const { status, error } = stepOf(run)
      const wanted = isAsked ? ['unknown_outcome', 0] : ['completed', 1]
      expect([name, status, await held(), error?.code]).toEqual([name, ...wanted, undefined])
    }
  })
})

describe('a run is cancelled while a request is in flight', () => {
  test('a read ends with it', async () => {
    let [opened, closed] = [false, false]
    services.get('github')!.proxy.choose = () => {
      opened = true
      return drip(() => (closed = true))
    }
    const { runId } = await start('github_get_issue')
    await until('the request waits', () => opened)
    await home.member.cancel(runId)
    const run = await home.member.untilStatus(runId, 'cancelled')
    expect(stepOf(run).status).toBe('cancelled')
    await until('the request ends', () => closed)
  })

  test.each(writes)('%s that was sent and whose answer is lost', async (tool) => {
    const arrived = Promise.withResolvers<void>()
    const cancelled = Promise.withResolvers<Fault>()
    onWrite(() => {
      arrived.resolve()
      return cancelled.promise
    })
    const { runId, held } = await start(tool)
    await arrived.promise
    await home.member.cancel(runId)
    await home.member.untilStatus(runId, 'cancelled')
    cancelled.resolve('lose answer')
    // A mail is not sent again for a cancelled run, so a person decides.
    const status = tool === 'mail_send' ? 'unknown_outcome' : 'completed'
    const run = await home.member.untilRun(runId, status, (each) => stepOf(each).status === status)
    expect([run.status, await held()]).toEqual(['cancelled', 1])
  })
})

describe('a connection ends', () => {
  let connectionId: string
  beforeEach(async () => {
    connectionId = await connect('github_comment')
  })
  const statusOf = async () => {
    const { data } = await home.member.good<{ data: { id: string; status: string }[] }>('GET', '/connections')
    return data.find(({ id }) => id === connectionId)?.status
  }

  test('at the service: the step says what to do, and the connection shows it', async () => {
    onWrite(first({ status: 401 }))
    const { runId, held } = await start('github_comment')
    expect(stepOf(await ended(runId))).toMatchObject({
      status: 'failed',
      error: {
        code: 'connection_expired',
        message: expect.stringContaining('POST /tools/github_comment/connect'),
      },
    })
    expect([await statusOf(), await held()]).toEqual(['expired', 0])
  })

  test('while a call is held: after its approval the step says what to do', async () => {
    const rule = await home.admin.createRule({
      name: 'comments wait',
      verdict: 'require_approval',
      tools: ['github_comment'],
    })
    const { runId, held } = await start('github_comment')
    const approvalId = await home.approver.untilHeld(runId, 'step')
    await home.member.good('DELETE', `/connections/${connectionId}`)
    expect(await statusOf()).toBe('revoked')
    const { status } = await home.approver.decide(approvalId, 'approve')
    expect(status).toBe(200)
    expect(stepOf(await ended(runId))).toMatchObject({
      status: 'failed',
      error: {
        code: 'tool_not_available',
        message: expect.stringContaining('POST /tools/github_comment/connect'),
      },
    })
    expect(await held()).toBe(0)
    await home.admin.deleteRule(rule.id)
  })
})
