import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import type { ToolName } from '../../src/tools/index.ts'
import { askAt, credentialAt } from '../tools/faults/ask.ts'
import { drip } from '../tools/faults/hostile.ts'
import { commentsOf, commentsWithFiles } from '../tools/faults/files.ts'
import { github } from '../tools/services/github.ts'
import type { Ask, FaultService } from '../tools/faults/service.ts'
import { apart, services as parts } from '../tools/faults/services.ts'
import { first } from '../tools/faults/rows.ts'
import { until } from '../stack/until.ts'
import { crashHome, type CrashHome, type Fault as Point } from '../support/chaos.ts'
import type { Run } from '../support/client-types.ts'
import type { Emulator } from '../support/emulators.ts'
import { startFaultProxy, type Fault, type FaultProxy } from '../support/fault-proxy.ts'
import { byDepth } from '../support/depth.ts'

/*
 * A whole stack, and for each service of `test/tools/services` a stand-in that keeps state. The worker is killed around each
 * write of a call that can be looked for or sent again with its key. Runs are cancelled while a request is in flight,
 * and connections end while calls need them. A new tool is also killed here, because faults.test.ts checks that
 * these services have every tool of the catalogue.
 */

const writes = parts.flatMap(({ tools }) => Object.keys(tools) as ToolName[])
const partOf = (tool: ToolName): FaultService =>
  parts.find(({ tools }) => Object.hasOwn(tools, tool)) as FaultService
/** Points at which the result of a crash depends on the tool. */
const pointsOfTools: readonly Point[] = ['effect.sent:before', 'effect.sent:after', 'effect.outcome:before']
/** Points at which the result of a crash is the same for every tool. Each tool is killed at one of them, by turns. */
const pointsOfAll: readonly Point[] = ['effect.decide:before', 'effect.decide:after', 'effect.outcome:after']
const otherPoints = [...pointsOfTools.filter((point) => point !== 'effect.sent:after'), ...pointsOfAll]
/** `npm test` kills each tool right after its request was sent, and one tool at each of the other points. */
const kills = byDepth(
  [
    ...writes.map((tool) => ['effect.sent:after', tool] as const),
    ...otherPoints.map(
      (point, at) =>
        [point, writes[Math.floor((at * writes.length) / otherPoints.length)] as ToolName] as const,
    ),
  ],
  [
    ...writes.flatMap((tool) => pointsOfTools.map((point) => [point, tool] as const)),
    ...writes.map((tool, at) => [pointsOfAll[at % pointsOfAll.length] as Point, tool] as const),
  ],
)
/** `npm test` cancels one call of each service. */
const toCancel = byDepth(
  apart.map(({ tools }) => Object.keys(tools)[0] as ToolName),
  writes,
)

/** A stand-in, and the proxy in front of it. */
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
  const body = { credential, scope: 'organization' }
  return (await home.admin.good<{ id: string }>('POST', `/tools/${tool}/connect`, body)).id
}

beforeAll(async () => {
  await Promise.all(apart.map(startService))
  home = await crashHome({ env: { TRACKER_BASE_URL: (services.get('jira') as Service).proxy.url } })
  await home.owner.settings({ approvals_enabled: true })
  // A sent call is looked for only with the connection that sent it, so these connections stay.
  for (const { tools } of apart) await connect(Object.keys(tools)[0] as ToolName)
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
  /** The number of times that the service holds the text of the call. */
  held(): Promise<number>
}

async function start(tool: ToolName): Promise<Started> {
  texts += 1
  const text = `text${texts}end`
  const writing = tool === 'github_get_issue' ? undefined : partOf(tool).tools[tool]
  const { place } = tool === 'github_get_issue' ? github : partOf(tool)
  const params = writing?.params(text, place) ?? github.reads?.tools.github_get_issue?.(place) ?? {}
  // The kill of a later test can hit another attempt at this call. Such an attempt fails if nothing was made.
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
  const started: (Started & { readonly point: Point; readonly tool: ToolName })[] = []

  test.each(kills)('%s of %s', async (point, tool) => {
    await home.faults.at(point, () => void start(tool).then((each) => started.push({ ...each, point, tool })))
    // Moves the calls past the time after which a call that is not found was certainly not made. On a slow machine,
    // earlier calls still wait, so every kill moves them. A new channel is known by its time while it has no mark, and
    // Slack keeps its clock. So its calls wait for a minute.
    await home.query(
      `update effects set sent_at = least(sent_at, clock_timestamp() - interval '301 s')
       where state = 'sent' and tool <> 'slack_create_channel'`,
    )
  })

  test('each call was made once, or a person is asked', async () => {
    await until('all have started', () => started.length === kills.length)
    // For these tools, nothing proves that a request was never sent. Their calls are moved past the time after which a
    // person is asked.
    const asking = writes.filter((tool) => partOf(tool).tools[tool]?.mayStillAppear === true)
    await home.query(
      `update effects set sent_at = least(sent_at, clock_timestamp() - interval '901 s')
       where sent_at is not null and state in ('sent', 'intent') and tool = any($1)`,
      [asking],
    )
    for (const { runId, held, point, tool } of started) {
      const isSettled = (run: Run) => run.finished_at !== null || stepOf(run).status === 'unknown_outcome'
      const run = await home.member.untilRun(runId, 'settled', isSettled)
      const { status, error } = stepOf(run)
      const made = await held()
      // A kill can also hit an earlier call, at another point. So a person may be asked about any call of these tools.
      const isAsked = asking.includes(tool) && made === 0
      const wanted = isAsked ? 'unknown_outcome' : 'completed'
      const told = { point, tool, status, made, code: error?.code }
      expect(told).toEqual({ point, tool, status: wanted, made: isAsked ? 0 : 1, code: undefined })
    }
  })
})

describe.each(commentsWithFiles)('a worker is killed in $tool with a file', (given) => {
  const { tool, service } = given
  test.each([
    ['after the file', 1, 'unknown_outcome', { comments: 0, files: 1 }],
    ['after the comment', 2, 'completed', { comments: 1, files: 1 }],
  ] as const)('%s: both exist once, or a person is asked', async (_, last, status, exist) => {
    let written = 0
    const killed = Promise.withResolvers<void>()
    onWrite(() => {
      written += 1
      if (written !== last) return 'pass'
      return { lost: () => void home.stack.kill9('worker').then(killed.resolve, killed.reject) }
    })
    texts += 1
    const text = `text${texts}end`
    const step = { id: 's', tool, params: given.params(text) }
    const runId = await home.member.execute(await home.member.createWorkflow(text, { steps: [step] }), {})
    await killed.promise
    // Moves the call past the time after which a person is asked.
    await home.query(
      `update effects set sent_at = sent_at - interval '901 s' where run_id = $1 and state = 'sent'`,
      [runId],
    )
    await home.member.untilRun(runId, status, (run) => stepOf(run).status === status)
    const { url } = serviceOf(tool).emulator
    const comments = await commentsOf(given)(askOf(tool), text, service.place, url)
    expect({ comments: comments.length, files: await given.files(askOf(tool), text) }).toEqual(exist)
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

  test.each(toCancel)('%s that was sent and whose answer is lost', async (tool) => {
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
    await home.admin.good('DELETE', `/connections/${connectionId}`)
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
