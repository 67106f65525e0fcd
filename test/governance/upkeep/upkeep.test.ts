import { randomBytes } from 'node:crypto'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { pino } from 'pino'
import { removeOldData } from '../../../src/governance/upkeep/retention.ts'
import { finishRun } from '../../../src/governance/runs/end/finish.ts'
import { readStepOutput } from '../../../src/governance/runs/read/read.ts'
import { readRun } from '../runs/whole-run.ts'
import { readReceipt } from '../../../src/governance/runs/read/receipt.ts'
import { verify } from '../audit/chain-fixture.ts'
import {
  approvalsOf,
  effectOf,
  eventsOf,
  go,
  hold,
  holdRule,
  mark,
  oneStep,
  opOf,
  outcomeOf,
  runOf,
  useEngine,
  type Engine,
  type ResolvedCall,
} from '../runs/engine-fixture.ts'
import { newId } from '../../../src/contract/ids.ts'
import { longestWaits, measureStoredState } from '../../../src/db/queries/upkeep/measure-state.ts'
import { longestWaitsTeller } from '../../../src/governance/upkeep/state-metrics.ts'
import type { WorkflowEngine } from '../../../src/governance/delivery/workflow-engine.ts'
import { reconcile } from '../../../src/governance/delivery/reconciler.ts'
import { expireDue } from '../../../src/governance/approvals/expire.ts'
import { recordAccountEvents } from '../../../src/governance/people/account-events.ts'
import { acceptRun } from '../../../src/governance/runs/start/accept.ts'
import { createWorkflow } from '../../../src/governance/workflows/workflows.ts'
import { workflowDefinition } from '../../../src/contract/definition.ts'
import { addOrganization } from '../../api/fixtures.ts'
import { asAdmin } from '../../support/postgres.ts'
import { every } from '../../../src/governance/lanes/clock.ts'
import { prune } from '../../../src/governance/upkeep/housekeeping.ts'
import { testContext, type TestContext } from '../support.ts'
import { createContext } from '../../../src/programs/create-context.ts'
import { checkInstallation } from '../../../src/governance/upkeep/installation.ts'
import { WrongKey } from '../../../src/governance/sealing/keyring.ts'
import { createMetrics } from '../../../src/shared/metrics.ts'
import { createSparseLog } from '../../../src/shared/log.ts'

let engine: Engine
useEngine((started) => (engine = started))

const ask = async (sql: string, values: unknown[] = []) =>
  (await engine.context.pool.query<Record<string, unknown>>(sql, values)).rows
/** Inserts a pending approval of an agent's call that was requested so many seconds ago. Returns its id. */
async function insertApproval(
  seconds: number,
  { organizationId, userId } = engine.caller('member'),
  expired: number | null = null,
): Promise<string> {
  const id = newId('approval')
  await ask(
    `insert into approvals (id, organization_id, kind, requested_by, params_hash, labels, approver, approvals_needed, status, risk, created_at, expires_at, tool, session_id)
     values ($1, $2, 'agent_call', $3, 'h', '{pii}', 'admin', 1, 'pending', '{"level": "low", "reasons": []}',
       now() - make_interval(secs => $4), now() - make_interval(mins => $5), 'Write', 'ses_1')`,
    [id, organizationId, userId, seconds, expired],
  )
  return id
}

const inputs = { who: 'a secret name' }
const definition = { inputs: { who: { type: 'string' } }, ...oneStep }

/** A run whose mail was held, approved and sent. */
async function endedRun(): Promise<ResolvedCall> {
  await engine.rules(holdRule())
  const op = opOf(await engine.run(definition, inputs))
  await engine.vote(await hold(engine, op), 'approver')
  await engine.record(outcomeOf(op, await go(engine, op), 'completed'))
  await finishRun(engine.context, { runId: op.key.runId, status: 'completed' })
  return op
}

const daysAgo = (days: number): Date => new Date(Date.now() - days * 24 * 3_600_000)
const removeOld = (retentionDays = 30, { db, config } = engine.context) =>
  removeOldData({ db, config: { ...config, retentionDays } })
const endedDaysAgo = (runId: string, days: number) =>
  ask('update runs set finished_at = $2, slot = null where id = $1', [runId, daysAgo(days)])

describe('data of a run that ended long ago', () => {
  test('is removed with everything that reveals it; the record stays', async () => {
    const op = await endedRun()
    const { runId } = op.key
    const receipt = async () => (await readReceipt(engine.context.db, engine.organizationId, runId)).text()
    const before = await receipt()
    await endedDaysAgo(runId, 31)
    // 0 days keep everything.
    expect(await removeOld(0)).toBe(0)
    expect(await removeOld()).toBe(1)
    const removed = { params_sealed: null, output_sealed: null, params_hash: op.paramsHash }
    expect(await effectOf(engine.context, op)).toMatchObject(removed)
    expect(await approvalsOf(engine.context, runId)).toMatchObject([
      { params_sealed: null, status: 'approved' },
    ])
    expect(await eventsOf(engine.context, runId)).toEqual([])
    expect(await readRun(engine.context, engine.organizationId, runId)).toMatchObject({
      status: 'completed',
      inputs: {},
      outputs: {},
      result: null,
      data_removed_at: expect.any(String),
    })
    expect(await receipt()).toEqual(before)
    const gone = { code: 'not_found', message: expect.stringContaining('RETENTION_DAYS') }
    await expect(readStepOutput(engine.context, engine.organizationId, runId, 's')).rejects.toMatchObject(
      gone,
    )
    const { database, encryptionKeys } = engine.context.config
    expect(await verify(database.url, engine.organizationId, encryptionKeys)).toMatchObject({ valid: true })
    expect(await removeOld()).toBe(0)
  })

  test('stays until then, and until the run has ended', async () => {
    const ended = await endedRun()
    await endedDaysAgo(ended.key.runId, 29)
    const open = opOf(await engine.run(definition, inputs))
    await hold(engine, open)
    await ask('update runs set created_at = $2 where id = $1', [open.key.runId, new Date(0)])
    expect(await removeOld()).toBe(0)
    expect(await readRun(engine.context, engine.organizationId, ended.key.runId)).toMatchObject({ inputs })
    expect((await effectOf(engine.context, open))?.params_sealed).not.toBeNull()
  })

  test('is removed in several transactions, and once by concurrent processes', async () => {
    const runs = await Promise.all(Array.from({ length: 120 }, () => engine.run(definition, inputs)))
    for (const runId of runs) await endedDaysAgo(runId, 31)
    const [here, there] = await Promise.all([removeOld(), removeOld(30, engine.another())])
    expect(here + there).toBe(120)
    expect(await removeOld()).toBe(0)
  })
})

describe('an uploaded file that no run took for long', () => {
  const insert = (id: string, created_at: Date, last_used_at: Date | null) => {
    const { organizationId, userId } = engine.caller('member')
    return ask(
      `insert into files (id, organization_id, name, media_type, size, sha256, labels, text_sealed, text_bytes,
         rows_sealed, rows_bytes, created_at, created_by, last_used_at)
       values ($1, $2, 'a.csv', 'text/csv', 10, repeat('a', 64), '{internal}', $3, 1000, $4, 500, $5, $6, $7)`,
      [id, organizationId, Buffer.alloc(1_000), Buffer.alloc(500), created_at, userId, last_used_at],
    )
  }
  const kept = async () => (await ask('select id from files order by id')).map(({ id }) => id)
  const stored = async (): Promise<number> => {
    const rows = await ask(
      `select h.stored_bytes + coalesce(sum(m.bytes), 0) as bytes from chain_head h
       left join storage_moves m using (organization_id) where organization_id = $1 group by h.stored_bytes`,
      [engine.organizationId],
    )
    return Number(rows[0]?.['bytes'])
  }

  test('is deleted with its text, its rows and its bytes of storage', async () => {
    await insert('file_new', daysAgo(1), null)
    const before = await stored()
    await insert('file_old', daysAgo(31), null)
    await insert('file_unused', daysAgo(60), daysAgo(31))
    await insert('file_used', daysAgo(60), daysAgo(29))
    const ofThree = (await stored()) - before
    expect(ofThree).toBeGreaterThan(3 * 1_500)
    await removeOld(0)
    expect(await kept()).toEqual(['file_new', 'file_old', 'file_unused', 'file_used'])
    await removeOld()
    expect(await kept()).toEqual(['file_new', 'file_used'])
    // Only one of the three added files is left.
    expect(await stored()).toBeLessThan(before + ofThree / 2)
  })
})

/* What operators see of waiting approvals and outcomes, in the log and in the metrics. */
describe('what waits', () => {
  type Line = Readonly<Record<string, unknown>>
  /** Everything that the teller has logged. */
  let lines: Line[]
  let tell: () => Promise<void>
  beforeEach(async () => {
    // Ends the approvals that earlier tests have left pending.
    await ask(`update approvals set status = 'cancelled' where status = 'pending'`)
    lines = []
    tell = newTeller()
  })
  /** A teller that has reported nothing yet, as after a start of the worker. */
  function newTeller(): () => Promise<void> {
    const write = (line: string) => void lines.push(JSON.parse(line) as Line)
    const log = pino({ base: null, timestamp: false }, { write })
    return longestWaitsTeller({ ...engine.context, log })
  }
  const told = async (): Promise<Line[]> => {
    lines.length = 0
    await tell()
    return [...lines]
  }

  /** Holds a step, and makes its approval this many minutes older. */
  const held = async (minutes: number): Promise<{ approvalId: string; runId: string }> => {
    const op = opOf(await engine.run())
    const approvalId = await hold(engine, op)
    await ask('update approvals set created_at = now() - make_interval(mins => $2) where id = $1', [
      approvalId,
      minutes,
    ])
    return { approvalId, runId: op.key.runId }
  }
  const unknown = async (): Promise<ResolvedCall> => {
    const op = opOf(await engine.run())
    await go(engine, op)
    await mark(engine.context, op, 1)
    await engine.record(outcomeOf(op, 1, 'unknown_outcome'))
    await ask(`update effects set sent_at = now() - interval '2 hours' where run_id = $1`, [op.key.runId])
    return op
  }

  test('the oldest approval of each kind is named by its ids, and nothing else of it', async () => {
    await engine.rules(holdRule())
    await held(5)
    const { approvalId, runId } = await held(90)
    await held(30)
    const agents = await insertApproval(180)
    const found = await told()
    const waits = { level: 30, msg: 'this waits longest', waiting_seconds: expect.any(Number) }
    const common = { ...waits, organization_id: engine.organizationId }
    const ofRun = { run_id: runId, workflow_id: expect.stringMatching(/^wf_/), step_id: 's' }
    expect(found).toEqual([
      { ...common, kind: 'agent_call', approval_id: agents, session_id: 'ses_1' },
      { ...common, kind: 'step', approval_id: approvalId, ...ofRun },
    ])
    expect(found.map((line) => Math.floor(Number(line['waiting_seconds']) / 60))).toEqual([3, 90])
  })

  test('a line comes once, and again when another thing waits longest', async () => {
    await engine.rules(holdRule())
    const first = await held(90)
    const second = await held(30)
    expect((await told()).map((line) => line['approval_id'])).toEqual([first.approvalId])
    expect(await told()).toEqual([])
    await engine.vote(first.approvalId, 'approver', 'reject')
    expect((await told()).map((line) => line['approval_id'])).toEqual([second.approvalId])
  })

  test('what has just begun to wait is not named', async () => {
    await engine.rules(holdRule())
    await held(0)
    expect(await told()).toEqual([])
  })

  test('an unknown outcome is named and counted until its run has ended', async () => {
    const op = await unknown()
    expect(await told()).toMatchObject([
      { kind: 'resolution', run_id: op.key.runId, step_id: 's', waiting_seconds: expect.any(Number) },
    ])
    const counted = async (): Promise<string | undefined> =>
      /^countersign_unknown_outcomes\{.*\} (\d+)$/m.exec(await engine.another().metrics.text())?.[1]
    expect(await counted()).toBe('1')
    await ask('update runs set cancel_requested_at = now() where id = $1', [op.key.runId])
    await finishRun(engine.context, { runId: op.key.runId, status: 'cancelled' })
    tell = newTeller()
    expect(await told()).toEqual([])
    expect(await counted()).toBe('0')
  })

  test('unknown outcomes of ended runs, which stay for ever, do not hide one of an open run', async () => {
    const { db } = engine.context
    const end = (runId: string) => finishRun(engine.context, { runId, status: 'failed' })
    for (const { id } of await db.selectFrom('runs').select('id').where('finished_at', 'is', null).execute())
      await end(id)
    for (let count = 0; count < 3; count += 1) await end((await unknown()).key.runId)
    const open = (await unknown()).key.runId
    expect((await longestWaits(1).execute(db)).rows).toMatchObject([{ kind: 'resolution', run_id: open }])
    expect((await measureStoredState<{ unknown: number }>(1).execute(db)).rows).toMatchObject([
      { unknown: 1 },
    ])
    await end(open)
  })

  const valueOf = (text: string, series: string): number | undefined => {
    const line = text.split('\n').find((each) => each.startsWith(`${series} `))
    return line === undefined ? undefined : Number(line.split(' ').at(-1))
  }

  test('pending approvals are counted by kind and age, and the oldest is told', async () => {
    for (const age of [10, 20, 200, 90_000]) await insertApproval(age)
    const text = await engine.context.metrics.text()
    const pending = ['minute', 'hour', 'day', 'older'].map((age) =>
      valueOf(text, `countersign_approvals_pending{kind="agent_call",age="${age}",process="api"}`),
    )
    expect(pending).toEqual([2, 1, undefined, 1])
    const oldest = valueOf(text, 'countersign_approvals_oldest_seconds{kind="agent_call",process="api"}')
    expect(oldest).toBeGreaterThan(89_999)
    expect(valueOf(text, 'countersign_database_up{process="api"}')).toBe(1)
    expect(valueOf(text, 'countersign_unknown_outcomes{process="api"}')).toBe(0)
  })

  test('without the database the state is missing, and not old', async () => {
    const context = engine.another()
    await context.pool.end()
    const connect = () => Promise.reject(new Error('away'))
    Object.assign(context.pool, { connect, end: () => Promise.resolve() })
    const text = await context.metrics.text()
    expect(valueOf(text, 'countersign_database_up{process="api"}')).toBe(0)
    expect(text).not.toMatch(
      /^countersign_(open_runs|outbox_messages|unknown_outcomes|approvals_pending)\b.* \d/m,
    )
  })

  test('the statement reads open runs, waiting approvals and calls by their indexes', async () => {
    const { context } = engine
    const { sql, parameters } = measureStoredState(10_000).compile(context.db)
    const client = await context.pool.connect()
    try {
      await client.query('set enable_seqscan = off')
      const { rows } = await client.query<{ 'QUERY PLAN': string }>(`explain ${sql}`, [...parameters])
      const plan = rows.map((row) => row['QUERY PLAN']).join('\n')
      expect(plan).toContain('runs_open')
      expect(plan).toContain('approvals_pending')
      expect(plan).toMatch(/using effects_\w+ on effects/)
    } finally {
      client.release(true)
    }
  })
})

/* Periodic tasks go on for all other organizations if the audit chain of one organization takes no entry. */
describe('with an organization whose chain is broken', () => {
  let other: Awaited<ReturnType<typeof addOrganization>>
  beforeEach(async () => {
    await ask('update approvals set expires_at = null')
    other = await addOrganization(engine.context)
    await refuse('chain_head', `new.organization_id = '${engine.organizationId}' and new.seq <> old.seq`)
  })
  /** Makes PostgreSQL refuse these updates of a table. */
  const refuse = (table: string, when: string) =>
    asAdmin(engine.adminUrl, (client) =>
      client.query(`create function refuse() returns trigger language plpgsql as $$
          begin raise exception 'it is broken'; end $$;
        create trigger broken before update on ${table} for each row when (${when}) execute function refuse()`),
    )
  const heal = () =>
    asAdmin(engine.adminUrl, (client) => client.query('drop function if exists refuse() cascade'))
  afterEach(heal)

  const theirOwner = () => ({ ...engine.caller('owner'), ...other.owner, organizationId: other.id })
  const statusesIn = async (organizationId: string) => {
    const sql = 'select distinct status from approvals where organization_id = $1 and expires_at < now()'
    return (await ask(sql, [organizationId])).map(({ status }) => status)
  }

  test('approvals of other organizations expire, however many of the broken one are due', async () => {
    for (let each = 0; each < 110; each += 1) await insertApproval(86_400, undefined, 60)
    for (let each = 0; each < 2; each += 1) await insertApproval(86_400, theirOwner(), 5)
    await expireDue(engine.context)
    expect(await statusesIn(other.id)).toEqual(['expired'])
    expect(await statusesIn(engine.organizationId)).toEqual(['pending'])
    // Only approvals of the broken organization are left, so the task fails.
    await expect(expireDue(engine.context)).rejects.toThrow('it is broken')
    await heal()
    while ((await expireDue(engine.context)) > 0);
    expect(await statusesIn(engine.organizationId)).toEqual(['expired'])
  })

  test('account events of other organizations are recorded, however many of the broken one wait', async () => {
    await ask('delete from account_events')
    const insert = (organizationId: string, userId: string, count: number) =>
      ask(
        `insert into account_events (organization_id, user_id, type)
       select $1, $2, 'user.password_changed' from generate_series(1, $3)`,
        [organizationId, userId, count],
      )
    await insert(engine.organizationId, engine.caller('member').userId, 210)
    await insert(other.id, other.owner.userId, 1)
    await recordAccountEvents(engine.context)
    const waiting = () => ask('select organization_id, count(*)::int from account_events group by 1')
    expect(await waiting()).toEqual([{ organization_id: engine.organizationId, count: 210 }])
    await heal()
    await recordAccountEvents(engine.context)
    await recordAccountEvents(engine.context)
    expect(await waiting()).toEqual([])
  })

  test('runs of other organizations are closed that have ended in Temporal', async () => {
    const { context } = engine
    await heal()
    const ours = await engine.run()
    const caller = theirOwner()
    const workflow = { name: 'w', description: '', definition: workflowDefinition.parse(oneStep) }
    const { id: workflowId } = await createWorkflow(context, caller, workflow)
    const { runId: theirs } = await acceptRun(context, { caller, workflowId, inputs: {} })
    await refuse('runs', `new.id = '${ours}' and new.finished_at is not null`)
    const temporal = { describe: async () => 'terminated' } as unknown as WorkflowEngine
    await reconcile(context, temporal, async () => false, -60)
    expect((await runOf(context, theirs)).status).toBe('cancelled')
    expect((await runOf(context, ours)).status).not.toBe('cancelled')
  })
})

test('claims of Slack accounts are deleted after a day, with their codes', async () => {
  const { db } = engine.context
  const claim = async (hours: number): Promise<string> => {
    const id = newId('notification')
    const created_at = new Date(Date.now() - hours * 3_600_000)
    const owned = { id, organization_id: engine.organizationId, user_id: engine.caller('member').userId }
    const claimed = { slack_account: 'U000MEMBER', code: '12345678', created_at, expires_at: created_at }
    await db
      .insertInto('slack_claims')
      .values({ ...owned, ...claimed })
      .execute()
    return id
  }
  await claim(25)
  const younger = await claim(23)
  await prune(db)
  expect(await db.selectFrom('slack_claims').select('id').execute()).toEqual([{ id: younger }])
})

describe('the check of the installation', () => {
  let made: TestContext
  beforeAll(async () => {
    made = await testContext()
  })
  afterAll(() => made?.close())

  test('accepts the key of the first process only', async () => {
    const { context } = made
    await Promise.all([checkInstallation(context), checkInstallation(context)])
    await checkInstallation(context)
    const other = createContext({ ...context.config, encryptionKeys: [randomBytes(32)] }, 'tool')
    await expect(checkInstallation(other)).rejects.toBeInstanceOf(WrongKey)
    await other.close()
    expect(await context.db.selectFrom('data_keys').select('id').execute()).toHaveLength(1)
  })

  describe('names in one line the part that a database lacks', () => {
    /** The error message for a process with these database settings. */
    async function told(change: (url: URL) => void, appRole = 'countersign_app'): Promise<string> {
      const { config } = made.context
      const url = new URL(config.database.url)
      change(url)
      const database = { ...config.database, url: url.href, appRole }
      const context = createContext({ ...config, database }, 'tool')
      try {
        await checkInstallation(context)
        return 'fit'
      } catch (error) {
        return String(error)
      } finally {
        await context.close()
      }
    }
    const asItIs = () => undefined

    test('a missing role', async () => {
      expect(await told(asItIs, 'nobody_at_all')).toContain('UnfitDatabase: there is no role `nobody_at_all`')
    })

    test('a login that may not use the role', async () => {
      const name = `lonely_${randomBytes(6).toString('hex')}`
      await asAdmin(made.adminUrl, (client) => client.query(`create role ${name} login password 'p'`))
      try {
        const login = (url: URL) => Object.assign(url, { username: name, password: 'p' })
        expect(await told(login)).toContain('may not take the role `countersign_app`')
        expect(await told(login, name)).toContain('lacks rights on the tables')
        const wrong = (url: URL) => Object.assign(url, { username: name, password: 'wrong' })
        expect(await told(wrong)).toContain('refuses the login of DATABASE_URL')
      } finally {
        await asAdmin(made.adminUrl, (client) => client.query(`drop role ${name}`))
      }
    })

    test('a missing database, or missing tables', async () => {
      expect(await told((url) => (url.pathname = '/gone'))).toContain('does not exist: create it')
      expect(await told((url) => (url.pathname = '/postgres'))).toContain('`npm run migrate` makes them')
    })
  })
})

test('a periodic task that fails goes on; its first failure and its recovery are logged, and each round is counted', async () => {
  const lines: { msg: string; task: string }[] = []
  const log = pino({ base: null }, { write: (line) => void lines.push(JSON.parse(line)) })
  const metrics = createMetrics('worker')
  let rounds = 0
  const recovered = Promise.withResolvers<void>()
  const task = every({ log, metrics, sparseLog: createSparseLog(log) }, 'heartbeat', 0, () => {
    rounds += 1
    if (rounds === 5) recovered.resolve()
    return rounds < 3 ? Promise.reject(new Error('away')) : Promise.resolve()
  })
  await recovered.promise
  await task.stop()
  expect(lines.map(({ msg, task: name }) => `${name}: ${msg}`)).toEqual([
    'heartbeat: a periodic task failed',
    'heartbeat: a periodic task works again',
  ])
  const text = await metrics.text()
  expect(text).toContain(
    'countersign_task_rounds_total{task="heartbeat",result="failure",process="worker"} 2',
  )
  expect(text).toMatch(/task_last_success_timestamp_seconds\{task="heartbeat",process="worker"\} \d{10}/)
})
