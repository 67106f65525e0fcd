import { beforeEach, describe, expect, test } from '@jest/globals'
import { ApplicationFailure } from '@temporalio/common'
import { approvalsAt, attempted } from './attempt.ts'
import { execute as executeIn, type Scheduled } from './execute.ts'
import {
  effectOf,
  type Engine,
  holdRule,
  opOf,
  runOf,
  stepOf,
  useEngine,
} from '../governance/runs/engine-fixture.ts'
import { call, done, read, set } from '../calls/runs/labelled-calls.ts'
import { type IssuedCall, isIssuedCall } from '../../src/activities/attempt.ts'
import { prepareCall } from '../../src/calls/runs/prepare.ts'
import type { ToolDeclaration } from '../../src/tools/kit/tool.ts'
import type { Context } from '../../src/governance/context.ts'
import { setFreeze } from '../../src/governance/rules/freeze.ts'
import { expandStep } from '../../src/calls/runs/items.ts'
import { cancelRun } from '../../src/governance/runs/end/cancel.ts'
import { readDefinedCall } from '../../src/calls/runs/call.ts'
import { hashOf } from '../../src/shared/canonical-json.ts'

let engine: Engine
let runId: string
useEngine((started) => (engine = started))
const { newest, view } = approvalsAt(() => engine)

/** Accepts a run for each test of a `describe`. */
const useRun = () =>
  beforeEach(async () => {
    runId = await engine.run({
      steps: [
        { id: 's', tool: 'file_read', params: { path: 'a' } },
        { id: 'later', tool: 'file_read', params: { path: '{{s.output.text}}' } },
        { id: 'each', tool: 'file_read', params: { path: '{{item}}' }, for_each: ['x', 'y'] },
      ],
    })
  })

const execute = (scheduled: Partial<Scheduled> & { readonly args: unknown[] }) =>
  executeIn(engine.context, { workflowId: runId, activityType: 'file_read', ...scheduled })

const step = (stepId: string, itemIndex: number | null = null) => [{ runId, stepId, itemIndex }]

/** Expects that an activity ends like this, and that no body runs. */
async function expectEnd(scheduled: Parameters<typeof execute>[0], end: object): Promise<void> {
  const { answer, bodies } = await execute(scheduled)
  expect(answer).toMatchObject(end)
  expect(bodies).toEqual([])
}
const refused = { type: 'Refused', nonRetryable: true }

describe('a call that its run’s own workflow schedules', () => {
  useRun()

  test('is decided, runs as a decided call, and its outcome is recorded', async () => {
    const { answer, bodies } = await execute({ args: step('s') })
    expect(answer).toEqual({ outcome: 'completed' })
    expect(bodies).toHaveLength(1)
    expect(isIssuedCall(bodies[0])).toBe(true)
    const again = await execute({ args: step('s') })
    expect(again).toEqual({ answer: { outcome: 'completed' }, bodies: [] })
    expect((await execute({ args: step('later') })).answer).toEqual({ outcome: 'completed' })
    expect(await runOf(engine.context, runId)).toMatchObject({ nodes_executed: 2 })
  })

  test('is held, and the failure contains no parameter', async () => {
    await engine.rules(holdRule({ tools: ['file_read'] }))
    const end = { type: 'ApprovalRequired', nonRetryable: true, message: 'waits for approval' }
    await expectEnd({ args: step('s') }, end)
  })

  test('fails before its body runs if its sealed parameters were changed', async () => {
    await execute({ args: step('s') })
    await engine.rules(holdRule({ tools: ['file_read'] }))
    await execute({ args: step('later') })
    const broken = engine.context.db.updateTable('effects').set({ params_sealed: Buffer.from('broken') })
    await broken.where('step_id', '=', 'later').execute()
    const end = { type: 'StepEnded', nonRetryable: true, details: [{ outcome: 'failed' }] }
    await expectEnd({ args: step('later') }, end)
    expect(await stepOf(engine.context, runId, 'later')).toMatchObject({ error: { code: 'not_prepared' } })
  })

  test('that cannot be decided fails without details and is given up in the end; outages do not count', async () => {
    await engine.rules(holdRule({ tools: ['file_read'] }))
    await execute({ args: step('s') })
    await engine.context.db.updateTable('effects').set({ params_hash: 'other' }).execute()
    const undecided = { type: 'Unavailable', message: 'the call could not be decided' }
    await expectEnd({ args: step('s') }, undecided)
    await expectEnd({ args: step('s'), attempt: 50_000 }, { type: 'Unavailable' })
    const counted = engine.context.pool.query('update unexpected_errors set errors = 1998 returning errors')
    expect((await counted).rows).toHaveLength(1)
    await expectEnd({ args: step('s') }, { type: 'Unavailable' })
    await expectEnd(
      { args: step('later') },
      { type: 'Refused', message: expect.stringContaining('waits for') },
    )
    const message = expect.stringContaining('2000 unexpected errors')
    await expectEnd({ args: step('s') }, { ...refused, message })
  })

  test('is refused after a denied step, whatever the workflow says', async () => {
    await engine.rules({ name: 'no', verdict: 'deny', tools: ['file_read'] })
    expect((await execute({ args: step('s') })).answer).toMatchObject({ type: 'StepEnded' })
    await engine.rules()
    await expectEnd({ args: step('later') }, refused)
  })

  test.each([
    ['file_read', { runId: 'run_none', stepId: 's', itemIndex: null }],
    ['finishRun', { runId: 'run_none', status: 'failed' }],
  ])(
    'of a run in another database is left to the worker of that database: %s',
    async (activityType, given) => {
      const end = { type: 'Unavailable', nonRetryable: false, nextRetryDelay: 5_000 }
      await expectEnd({ workflowId: 'run_none', activityType, args: [given] }, end)
    },
  )

  test('errors of the interpreter’s own activities are not shown to Temporal', async () => {
    const body = () => Promise.reject(new Error('a secret'))
    const { answer } = await execute({ activityType: 'finishRun', args: [{ runId }], body })
    expect(answer).toMatchObject({ type: 'Unavailable', message: 'the call could not be decided' })
  })
})

describe('refused, without a trace in the run:', () => {
  useRun()

  const refusals: readonly (readonly [string, () => Parameters<typeof execute>[0]])[] = [
    ['a call of another workflow', () => ({ workflowId: 'other', args: step('s') })],
    ['no argument', () => ({ args: [] })],
    ['an argument of another shape', () => ({ args: [{ runId, stepId: 7, itemIndex: null }] })],
    ['an unknown step', () => ({ args: step('zz') })],
    ['another tool', () => ({ activityType: 'mail_send', args: step('s') })],
    ['an item of a step without items', () => ({ args: step('s', 0) })],
    ['a whole step that has items', () => ({ args: step('each') })],
    ['an item before the step is expanded', () => ({ args: step('each', 0) })],
    ['a negative item', () => ({ args: step('each', -1) })],
    ['half an item', () => ({ args: step('each', 0.5) })],
    ['a step whose dependencies have not ended', () => ({ args: step('later') })],
    ['the end of another run', () => ({ workflowId: 'other', activityType: 'finishRun', args: [{ runId, status: 'completed' }] })], // prettier-ignore
    ['entering another run', () => ({ workflowId: 'other', activityType: 'enterRun', args: [runId] })],
    ['expanding a step of another run', () => ({ workflowId: 'other', activityType: 'expandStep', args: [runId, 'each'] })], // prettier-ignore
  ]
  test.each(refusals)('%s', async (_name, scheduled) => {
    const before = await runOf(engine.context, runId)
    await expectEnd(scheduled(), refused)
    expect(await runOf(engine.context, runId)).toEqual(before)
  })

  test('an item beyond those that the step was expanded to', async () => {
    expect(await expandStep(engine.context, runId, 'each')).toEqual({ count: 2 })
    await expectEnd({ args: step('each', 2) }, refused)
    expect(
      await effectOf(engine.context, opOf(runId, { key: { runId, stepId: 'each', itemIndex: 2 } })),
    ).toBeUndefined()
    expect((await execute({ args: step('each', 1) })).answer).toEqual({ outcome: 'completed' })
  })
})

describe('nothing is read for a call that can only end', () => {
  const untouchable = (what: string): never =>
    new Proxy(
      {},
      {
        get: (_, name) => {
          throw new Error(`${what}.${String(name)} was used`)
        },
      },
    ) as never

  /** The parts of the context that load values fail the test when they are used. */
  const unread = (): Context => {
    const { runCaches } = engine.context
    const loads = untouchable('loads')
    const values = untouchable('values')
    return { ...engine.context, runCaches: { ...runCaches, loads, outputs: values, inputs: values } }
  }

  /** A run whose step `t` reads the output of `s`, which has ended, and whose step `each` goes over it. */
  async function started(): Promise<string> {
    const runId = await engine.run({
      steps: [
        read('s', 'a.md'),
        set('t', '{{s.output.text}}'),
        set('each', '{{item}}', { for_each: '{{s.output.list}}' }),
      ],
    })
    await done(engine, runId, 's', { text: 'x', list: [1, 2] })
    return runId
  }
  const cancel = (runId: string) => cancelRun(engine.context, { caller: engine.caller('member'), runId })
  const whileFrozen = async (work: () => Promise<void>): Promise<void> => {
    await setFreeze(engine.context, engine.caller('owner'), true, {
      reason: 'incident',
      askedAt: performance.now(),
      once: null,
    })
    try {
      await work()
    } finally {
      await setFreeze(engine.context, engine.caller('owner'), false, {
        reason: 'over',
        askedAt: performance.now(),
        once: null,
      })
    }
  }
  /** Makes the call ready and decides it, with nothing that could be read. */
  async function decide(runId: string): Promise<unknown> {
    const spec = await readDefinedCall(engine.context, { runId, stepId: 't', itemIndex: -1 })
    const context = { ...unread(), db: untouchable('db') }
    const { value } = await prepareCall(context, spec, spec.tool as ToolDeclaration, AbortSignal.abort())
    return engine.decide(value)
  }

  test('because it was cancelled', async () => {
    const runId = await started()
    await cancel(runId)
    expect(await decide(runId)).toMatchObject({ state: 'cancelled' })
    expect(await expandStep(unread(), runId, 'each')).toEqual({ ended: 'cancelled' })
  })

  test('because it has ended', async () => {
    const runId = await started()
    await done(engine, runId, 't', {})
    expect(await decide(runId)).toMatchObject({ state: 'completed' })
  })

  test('because its organization is frozen', async () => {
    const runId = await started()
    await whileFrozen(async () => {
      expect(await expandStep(unread(), runId, 'each')).toEqual({ ended: 'denied' })
      expect(await decide(runId)).toMatchObject({ state: 'denied' })
    })
  })

  test('because its organization is frozen, although its parameters are sealed; the decision names them', async () => {
    const runId = await started()
    const { op } = await call(engine, runId, 't')
    await whileFrozen(async () => {
      expect(await decide(runId)).toMatchObject({ state: 'denied' })
    })
    const decisions = engine.context.db.selectFrom('decisions').select(['verdict', 'params_hash'])
    const last = decisions.where('run_id', '=', runId).orderBy('seq', 'desc')
    expect(await last.executeTakeFirstOrThrow()).toEqual({ verdict: 'deny', params_hash: op.paramsHash })
    expect(await effectOf(engine.context, op)).toMatchObject({ params_hash: op.paramsHash })
  })
})

describe('an attempt that may not act any more sends nothing, and its end is no unexpected error', () => {
  const mail = { to: 'a@b.test', subject: 's', text: 't' }
  const start = () => engine.run({ steps: [{ id: 's', tool: 'mail_send', params: mail }] })

  /** One attempt. Its body sends after `before` and the point of no return. */
  async function attempt(runId: string, before: () => Promise<unknown> = async () => {}) {
    let sent = 0
    const { answer } = await attempted(engine, runId, 'mail_send', {
      body: async (decided) => {
        await before()
        await (decided as IssuedCall).context.pointOfNoReturn()
        sent += 1
        return { output: { message_id: 'm', accepted: [] } }
      },
    })
    const ended = answer instanceof ApplicationFailure ? [answer.type, ...(answer.details ?? [])] : [answer]
    return { ended, sent }
  }
  const unexpected = async (runId: string) =>
    (await engine.context.pool.query('select activity_id from unexpected_errors where run_id = $1', [runId]))
      .rows

  test('a run that was cancelled before its call acts: the call ends as cancelled', async () => {
    const runId = await start()
    // Temporal has not delivered the cancellation yet.
    const cancelled = await attempt(runId, () =>
      cancelRun(engine.context, { caller: engine.caller('member'), runId }),
    )
    expect(cancelled).toEqual({ ended: ['StepEnded', { outcome: 'cancelled' }], sent: 0 })
    expect(await effectOf(engine.context, opOf(runId))).toMatchObject({ state: 'cancelled', sent_at: null })
    expect(await unexpected(runId)).toEqual([])
  })

  test('a newer attempt has made the call: the older one says so', async () => {
    const runId = await start()
    let newer: unknown
    const older = await attempt(runId, async () => (newer = await attempt(runId)))
    expect(newer).toEqual({ ended: [{ outcome: 'completed' }], sent: 1 })
    expect(older).toEqual({ ended: [{ outcome: 'completed' }], sent: 0 })
    expect(await unexpected(runId)).toEqual([])
  })
})

describe('a mail to `me`', () => {
  const mail = (to: unknown) => ({ id: 's', tool: 'mail_send', params: { to, subject: 'x', text: 'me' } })
  const outside = (over: object = {}) => ({
    name: 'only to our own',
    verdict: 'deny',
    tools: ['mail_send'],
    params: [{ param: 'to', operator: 'domain_not_in', value: ['other.example'] }],
    ...over,
  })
  const inside = (over: object = {}) =>
    outside({ params: [{ param: 'to', operator: 'domain_not_in', value: ['countersign.test'] }], ...over })
  const send = (runId: string) =>
    attempted(engine, runId, 'mail_send', { body: async () => ({ output: {} }) })
  const paramsOf = (bodies: unknown[]) => bodies.map((body) => (body as IssuedCall).call.params)

  test('is judged by the requester’s address, and goes to it', async () => {
    await engine.rules(inside())
    const runId = await engine.run({ steps: [mail(['me', 'b@countersign.test'])] })
    const { answer, bodies } = await send(runId)
    expect(answer).toEqual({ outcome: 'completed' })
    expect(paramsOf(bodies)).toEqual([
      { to: ['member@countersign.test', 'b@countersign.test'], subject: 'x', text: 'me' },
    ])
  })

  test('is refused with the plan if no rule allows the requester’s address', async () => {
    await engine.rules(outside())
    await expect(engine.run({ steps: [mail('me')] })).rejects.toMatchObject({ code: 'run_denied' })
  })

  test('is denied during the run if `me` only appears there', async () => {
    await engine.rules()
    const runId = await engine.run({ steps: [mail('me')] })
    await engine.rules(outside())
    const { answer, bodies } = await send(runId)
    expect(answer).toMatchObject({ type: 'StepEnded', details: [{ outcome: 'denied' }] })
    expect(bodies).toEqual([])
  })

  test('is approved for the address at the time of acceptance, and goes only there', async () => {
    await engine.rules(inside({ verdict: 'allow' }), outside({ verdict: 'require_approval', name: 'hold' }))
    const runId = await engine.run({ steps: [mail('me')] })
    expect((await send(runId)).answer).toMatchObject({ type: 'ApprovalRequired' })
    const params = { to: 'me', subject: 'x', text: 'me' }
    expect(await view(runId, 'approver')).toMatchObject({
      params,
      params_hash: hashOf({ tool: 'mail_send', params }),
      requester_email: 'member@countersign.test',
    })
    await engine.context.db
      .updateTable('users')
      .set({ email: 'elsewhere@evil.example' })
      .where('email', '=', 'member@countersign.test')
      .execute()
    await engine.vote((await newest(runId)).id, 'approver')
    expect(paramsOf((await send(runId)).bodies)).toMatchObject([{ to: 'member@countersign.test' }])
  })
})
