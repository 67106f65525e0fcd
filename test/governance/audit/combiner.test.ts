import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals'
import { sql } from 'kysely'
import type { ChainTx } from '../../../src/governance/audit/chain-tx.ts'
import { type CombinerOptions, LaneCache } from '../../../src/governance/audit/combiner.ts'
import type { BatchKind } from '../../../src/governance/audit/lane-transactions.ts'
import { activeOf, bytesOf, compileRows, type SavedRow } from '../../../src/governance/audit/policy-cache.ts'
import { DomainError } from '../../../src/governance/errors.ts'
import { decide } from '../../../src/policy/decide.ts'
import type { TestDatabase } from '../../support/stack.ts'
import { waitsForLock } from '../support.ts'
import {
  appendMarked,
  appendTo,
  createOrganization,
  marked,
  openCombiner,
  organizationId,
  other,
  query,
  storedRows,
  userId,
  verify,
} from './chain-fixture.ts'
import { useChain } from './use-chain.ts'

let database: TestDatabase
useChain((made) => (database = made))

/** Combiners of other processes. They are closed after the test. */
const closers: (() => Promise<unknown>)[] = []
const opened = (options: Partial<CombinerOptions> = {}, url = database.appUrl) => {
  const { combiner, close } = openCombiner(url, options)
  closers.push(close)
  return combiner
}
let combiner: ReturnType<typeof opened>
/** What the combiner has announced after its commits. */
let told: { runs: string[]; outbox: boolean }[]
beforeEach(() => {
  told = []
  combiner = opened({
    onCommitted: ({ touched, outboxWritten }) => told.push({ runs: [...touched], outbox: outboxWritten }),
  })
})
afterEach(async () => {
  for (const close of closers.splice(0)) await close()
})

const marks = (count: number): string[] => Array.from({ length: count }, (_, index) => `m${index}`)
const stored = async () => (await storedRows(database.appUrl)).map((row) => row.mark)
const append = (mark: string, by = combiner) => by.join(organizationId, appendMarked, mark)
const appendAll = (all: readonly string[], by = combiner) => Promise.all(all.map((mark) => append(mark, by)))
const run = <T>(work: (tx: ChainTx) => T | Promise<T>, by = combiner): Promise<T> =>
  by.run(organizationId, 'org.change', async (tx) => work(tx))
const rows = (text: string): Promise<unknown[]> =>
  query(database.adminUrl, async (client) => (await client.query(text)).rows)

/** The policy version in each entry. */
const versions = `select seq, metadata ->> 'mark' as mark, metadata -> 'policy_version' as version
  from audit_events order by seq`

test('under the lock nothing is read by a sequential scan, even if the table was small when the plan was made', async () => {
  const settings = await run((tx) => {
    appendTo(tx, 'looked')
    return tx.send(
      sql<object>`select current_setting('enable_seqscan') as seqscan, current_setting('jit') as jit`,
    )
  })
  expect(settings).toEqual([{ seqscan: 'off', jit: 'off' }])
})

test('shared reads are planned once per connection; PostgreSQL plans other statements as it likes', async () => {
  const mode = sql<{ mode: string }>`select current_setting('plan_cache_mode') as mode`
  const shared: BatchKind<null, { mode: string }[], string | undefined> = {
    point: 'effect.decide',
    load: async (reader) => [...(await reader.send(mode))],
    apply(tx, [row]) {
      appendTo(tx, 'looked')
      return row?.mode
    },
    write: () => {},
  }
  const alone = () => run(async (tx) => (await tx.send(mode))[0]?.mode)
  expect(await combiner.join(organizationId, shared, null)).toBe('force_generic_plan')
  expect(await alone()).toBe('auto')
  const together = [alone(), combiner.join(organizationId, shared, null), alone()]
  expect(await Promise.all(together)).toEqual(['auto', 'force_generic_plan', 'auto'])
})

describe('order', () => {
  test('operations are applied and answered in order of arrival', async () => {
    expect(await appendAll(marks(300))).toEqual(marks(300).map((_, index) => index + 1))
    expect(await stored()).toEqual(marks(300))
  })

  test('operations with their own statements keep their place among shared ones', async () => {
    const work = marks(30).map((mark, index) =>
      index % 7 === 3 ? run((tx) => appendTo(tx, mark)) : append(mark),
    )
    expect(await Promise.all(work)).toEqual(marks(30).map((_, index) => index + 1))
    expect(await stored()).toEqual(marks(30))
  })

  test('an operation sees the changes of earlier ones in its batch', async () => {
    const useOnce: BatchKind<string, { used: boolean }, boolean> = {
      point: 'effect.decide',
      load: () => Promise.resolve({ used: false }),
      apply(tx, shared, mark) {
        const first = !shared.used
        shared.used = true
        appendTo(tx, mark)
        return first
      },
      write: () => {},
    }
    const answers = marks(5).map((mark) => combiner.join(organizationId, useOnce, mark))
    expect(await Promise.all(answers)).toEqual([true, false, false, false, false])
  })
})

describe('batches', () => {
  const transactions = async (): Promise<number> =>
    new Set((await storedRows(database.appUrl)).map((row) => row.xmin)).size

  test.each([
    ['waiting operations share one transaction', {}, 1],
    ['with a longest batch of 1, every call has its own transaction', { maxBatch: 1 }, 100],
  ])('%s', async (_, options, count) => {
    await appendAll(marks(100), opened(options))
    expect(await transactions()).toBe(count)
  })

  test('operations with much to write share no transaction, small ones do', async () => {
    const mebibytes = (count: number): BatchKind<string, null, number> => ({
      ...appendMarked,
      weight: () => count * 1024 * 1024,
    })
    await Promise.all(marks(4).map((mark) => combiner.join(organizationId, mebibytes(3), mark)))
    expect(await transactions()).toBe(4)
    await Promise.all(marks(4).map((mark) => combiner.join(organizationId, mebibytes(1), mark)))
    expect(await transactions()).toBe(5)
    expect(await combiner.join(organizationId, mebibytes(30), 'alone')).toBe(9)
  })

  test('organizations do not wait for each other', async () => {
    await createOrganization(database.adminUrl, other)
    const began = Promise.withResolvers<void>()
    const finish = Promise.withResolvers<void>()
    const held = run(async (tx) => {
      began.resolve()
      await finish.promise
      return appendTo(tx, 'held')
    })
    // Otherwise the other operation might finish before this one starts, and the test would prove nothing.
    await began.promise
    expect(await combiner.join(other, appendMarked, 'free')).toBe(1)
    finish.resolve()
    expect(await held).toBe(1)
  })
})

describe('failures', () => {
  test('operations that are refused, also by the database, fail alone and leave nothing', async () => {
    const refused = new DomainError('conflict', 'refused')
    const kind: BatchKind<string, null, number> = {
      ...appendMarked,
      apply(tx, _shared, mark) {
        const seq = appendTo(tx, mark)
        if (mark === 'm20') throw refused
        return seq
      },
    }
    // PostgreSQL refuses the whole statement if one of its texts contains a NUL.
    const wanted = marks(64).map((mark, index) => (index === 40 ? 'a\u0000b' : mark))
    const answers = await Promise.allSettled(wanted.map((mark) => combiner.join(organizationId, kind, mark)))
    const failed = answers.flatMap((answer, index) => (answer.status === 'rejected' ? [index] : []))
    expect(failed).toEqual([20, 40])
    expect(answers[20]).toMatchObject({ reason: refused })
    expect(await stored()).toEqual(marks(64).filter((_, index) => !failed.includes(index)))
    expect(await verify(database.appUrl)).toMatchObject({ valid: true, entries: 62 })
  })

  test('a listener that throws after the commit changes no answer and repeats nothing', async () => {
    const warned = jest.spyOn(process, 'emitWarning').mockImplementation(() => {})
    const failing = opened({
      onCommitted: () => {
        throw new Error('the listener failed')
      },
    })
    expect(await appendAll(marks(10), failing)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10])
    expect(await append('next', failing)).toBe(11)
    expect(warned).toHaveBeenCalledTimes(2)
    warned.mockRestore()
    expect(await stored()).toHaveLength(11)
  })

  test('an organization that does not exist is not found, and a database that cannot be reached is unavailable', async () => {
    const absent = combiner.join('org_absent', appendMarked, 'm')
    await expect(absent).rejects.toMatchObject({ code: 'not_found' })
    const away = append('m', opened({}, 'postgres://127.0.0.1:1/none'))
    await expect(away).rejects.toMatchObject({ code: 'unavailable' })
  })

  test('a batch that takes too long runs again in parts, and only the slow operation is refused', async () => {
    const hasty = opened({ transactionMilliseconds: 1_500 })
    let [runs, slow] = [0, true]
    const block: BatchKind<string, null, number> = {
      ...appendMarked,
      apply(tx, _shared, mark) {
        runs += 1
        for (const end = performance.now() + 2_000; slow && performance.now() < end;);
        slow = mark === 'always slow'
        return appendTo(tx, mark)
      },
    }
    const answers = marks(8).map((mark) => hasty.join(organizationId, block, mark))
    expect(await Promise.all(answers)).toEqual(marks(8).map((_, index) => index + 1))
    // There are more attempts if the machine itself stopped for a long time.
    expect(runs).toBeGreaterThanOrEqual(16)
    slow = true
    await expect(hasty.join(organizationId, block, 'always slow')).rejects.toMatchObject({
      code: 'unavailable',
      message: 'the transaction took too long, so nothing was decided: try again',
    })
    slow = false
    expect(await hasty.join(organizationId, block, 'next')).toBe(9)
    expect(await stored()).toEqual([...marks(8), 'next'])
  })
})

test('the clock is read after the wait for the lock, even if the previous holder changed nothing', async () => {
  const locked = Promise.withResolvers<void>()
  const finish = Promise.withResolvers<void>()
  const held = run(async () => {
    locked.resolve()
    await finish.promise
  }, opened())
  await locked.promise
  const waiting = run((tx) => tx.now)
  await waitsForLock(database.adminUrl)
  const [released] = (await rows('select clock_timestamp() as now')) as [{ now: Date }]
  finish.resolve()
  await held
  expect((await waiting).getTime()).toBeGreaterThanOrEqual(released.now.getTime())
})

describe('in one transaction', () => {
  beforeEach(async () => {
    await query(database.adminUrl, async (client) => {
      await client.query(
        `insert into workflows (id, organization_id, name, current_version, created_by) values ('wf_1', $1, 'w', 1, $2)`,
        [organizationId, userId],
      )
      await client.query(
        `insert into workflow_versions (workflow_id, version, definition, digest, deployed_by, authors, step_authors, tools)
         values ('wf_1', 1, '{}', '', $1, '[]', '[]', '{}')`,
        [userId],
      )
      await client.query(
        `insert into runs (id, organization_id, workflow_id, workflow_version, interpreter_version, status,
           status_reason, requested_by, requester_email, input_hash, time_zone, risk)
         select id, $1, 'wf_1', 1, 1, 'running', '', $2, 'a@b.test', '', 'UTC', '{}'
         from unnest('{run_1,run_2}'::text[]) as id`,
        [organizationId, userId],
      )
    })
  })

  test('run events are numbered without gaps per run across transactions, and announced after the commit', async () => {
    await run((tx) => {
      tx.event('run_1', 'a', { n: 1 })
      tx.event('run_2', 'b')
      tx.event('run_1', 'c')
      tx.append(marked('one'))
    })
    await run((tx) => {
      tx.event('run_1', 'd')
      tx.append(marked('two'))
    })
    expect(await rows('select run_id, seq, type, data from run_events order by run_id, seq')).toEqual([
      { run_id: 'run_1', seq: 1, type: 'a', data: { n: 1 } },
      { run_id: 'run_1', seq: 2, type: 'c', data: {} },
      { run_id: 'run_1', seq: 3, type: 'd', data: {} },
      { run_id: 'run_2', seq: 1, type: 'b', data: {} },
    ])
    expect(await rows('select id, event_seq from runs order by id')).toEqual([
      { id: 'run_1', event_seq: 3 },
      { id: 'run_2', event_seq: 1 },
    ])
    expect(told).toEqual([
      { runs: ['run_1', 'run_2'], outbox: false },
      { runs: ['run_1'], outbox: false },
    ])
  })

  test('deliveries are written with the change and announced after the commit', async () => {
    await run((tx) => {
      tx.deliver('run.start', 'run_1', { key: 'a' })
      tx.deliver('run.wake', 'run_2')
      tx.append(marked('one'))
    })
    expect(
      await rows(`select message->>'kind' as kind, message->>'run_id' as run_id, message->'payload' as payload
         from lanes where kind = 'temporal' order by id::bigint`),
    ).toEqual([
      { kind: 'run.start', run_id: 'run_1', payload: { key: 'a' } },
      { kind: 'run.wake', run_id: 'run_2', payload: {} },
    ])
    expect(told).toEqual([{ runs: [], outbox: true }])
  })

  test.each([
    ['an event', (tx: ChainTx) => tx.event('run_1', 'a')],
    ['a delivery', (tx: ChainTx) => tx.deliver('run.wake', 'run_1')],
  ])('%s without an audit entry is refused and leaves nothing', async (_what, work) => {
    await expect(run(work)).rejects.toThrow('a change has no audit entry')
    expect(await rows('select 1 from run_events union all select 1 from lanes')).toEqual([])
    expect(told).toEqual([])
  })

  test('a failed transaction leaves no rows and announces nothing', async () => {
    await expect(
      run((tx) => {
        tx.event('run_1', 'a')
        tx.append(marked('one'))
        throw new Error('no')
      }),
    ).rejects.toThrow('no')
    expect(await rows('select 1 from run_events union all select 1 from audit_events')).toEqual([])
    expect(told).toEqual([])
  })

  test('entries are stored exactly as sealed, with any text', async () => {
    const texts = [
      '"quoted"',
      'back\\slash',
      'two\nlines',
      '\r\n\u2028\u2029',
      '{a,b}',
      'NULL',
      'null',
      '',
      ' ',
      'é€😀',
    ]
    await run((tx) => {
      for (const text of texts) tx.append(marked(text))
    })
    expect(await rows(`select metadata ->> 'mark' as mark from audit_events order by seq`)).toEqual(
      texts.map((mark) => ({ mark })),
    )
    expect(await verify(database.appUrl)).toMatchObject({ valid: true, entries: texts.length })
  })

  test('an entry that the listing could not read is refused, and its transaction is rolled back', async () => {
    await expect(run((tx) => tx.append(marked('a\u0000b')))).rejects.toThrow('unsupported Unicode')
    expect(await rows('select 1 from audit_events')).toEqual([])
  })
})

test.each([
  ['upper-case', "repeat('A', 64)"],
  ['too short', "repeat('a', 62)"],
  ['too long', "repeat('a', 66)"],
  ['no hexadecimal', "repeat('g', 64)"],
  ['with a line break', "repeat('a', 63) || chr(10)"],
])('the table refuses a hash that is %s', async (_, hash) => {
  const entry = `select replace(canonical, '"seq":1,', '"seq":2,'), ${hash} from audit_events`
  await run((tx) => tx.append(marked('one')))
  await expect(rows(`insert into audit_events (canonical, hash) ${entry}`)).rejects.toThrow(
    /audit_events_hash_check|invalid hexadecimal/,
  )
})

test('entries of one transaction are linked, and a saved policy shows from its entry on', async () => {
  const heads: unknown[] = []
  await run((tx) => {
    heads.push(tx.head.seq)
    tx.append(marked('old rules'))
    tx.policyChanged()
    tx.append(marked('saved'))
    heads.push(tx.head.seq)
  })
  await run((tx) => tx.append(marked('new rules')))
  expect(heads).toEqual([0, 2])
  expect(await rows(versions)).toEqual([
    { seq: 1, mark: 'old rules', version: 1 },
    { seq: 2, mark: 'saved', version: 2 },
    { seq: 3, mark: 'new rules', version: 2 },
  ])
  expect(
    await rows(
      'select h.policy_version, h.seq, h.hash = e.hash as same from chain_head h join audit_events e using (seq)',
    ),
  ).toEqual([{ policy_version: 2, seq: 3, same: true }])
})

describe('the policy', () => {
  const decideMail: BatchKind<string, null, string> = {
    point: 'effect.decide',
    load: () => Promise.resolve(null),
    apply(tx, _shared, mark) {
      appendTo(tx, mark)
      const call = {
        source: 'workflows',
        tool: 'mail_send',
        sideEffect: 'egress',
        params: {},
        labels: [],
      } as const
      return decide(tx.policy.compiled, call).verdict
    },
    write: () => {},
  }

  function saveRule(name: string, verdict: string): Promise<void> {
    return run(async (tx) => {
      await tx.trx
        .insertInto('rules')
        .values({
          id: `rule_${name}`,
          organization_id: organizationId,
          name,
          body: JSON.stringify({ name, verdict, status: 'active', tools: ['mail_send'] }),
          created_by: userId,
        })
        .execute()
      tx.policyChanged()
      tx.append(marked(`saved ${name}`))
    })
  }

  let deciding: ReturnType<typeof opened>
  beforeEach(() => void (deciding = opened()))
  const verdictOf = (mark: string, by = deciding) => by.join(organizationId, decideMail, mark)

  test('a rule that another process saves, changes or deletes decides the next call in every process', async () => {
    const change = (work: (trx: ChainTx['trx']) => Promise<unknown>): Promise<void> =>
      run(async (tx) => {
        await work(tx.trx)
        tx.policyChanged()
        tx.append(marked('changed'))
      })
    const setVerdict = (verdict: string): Promise<void> => {
      const body = JSON.stringify({ name: 'mail', verdict, status: 'active', tools: ['mail_send'] })
      return change((trx) => trx.updateTable('rules').set({ body }).where('name', '=', 'mail').execute())
    }
    expect(await verdictOf('before')).toBe('allow')
    await saveRule('kept', 'allow')
    await saveRule('mail', 'deny')
    expect([await verdictOf('denied'), await verdictOf('here', combiner)]).toEqual(['deny', 'deny'])
    await setVerdict('allow')
    expect(await verdictOf('allowed')).toBe('allow')
    await setVerdict('deny')
    expect(await verdictOf('denied again')).toBe('deny')
    await change((trx) => trx.deleteFrom('rules').where('name', '=', 'mail').execute())
    expect(await verdictOf('deleted')).toBe('allow')
  })

  test('a freeze holds from the next decision on, and so does its end', async () => {
    const freeze = (reason: string | null): Promise<void> =>
      run(async (tx) => {
        await tx.trx.updateTable('chain_head').set({ frozen: reason }).execute()
        tx.append(marked('freeze'))
      })
    expect(await verdictOf('before')).toBe('allow')
    await freeze('incident')
    expect(await verdictOf('frozen')).toBe('deny')
    await freeze(null)
    expect(await verdictOf('after')).toBe('allow')
  })

  test('a failed save changes no version and no decision', async () => {
    await saveRule('no-mail', 'deny')
    await expect(saveRule('no-mail', 'deny')).rejects.toThrow(/rules_pkey|rules_name/)
    expect(await verdictOf('after')).toBe('deny')
    expect(await rows(versions)).toEqual([
      { seq: 1, mark: 'saved no-mail', version: 2 },
      { seq: 2, mark: 'after', version: 2 },
    ])
    expect(await verify(database.appUrl)).toMatchObject({ valid: true })
  })

  test('a policy is read once, and one that does not fit is dropped without dropping others', async () => {
    await createOrganization(database.adminUrl, other)
    const small = opened({ kept: { count: 10, bytes: 50_000 } })
    const policyOf = (organization: string): Promise<unknown> =>
      small.run(organization, 'org.change', (tx) => Promise.resolve(tx.policy))
    await saveRule('no-mail', 'deny')
    const first = await policyOf(organizationId)
    await policyOf(other)
    expect(await policyOf(organizationId)).toBe(first)
    await query(database.adminUrl, async (client) => {
      const domains = Array.from({ length: 1_000 }, (_, index) => `partner${index}.example`)
      const params = [{ param: 'to', operator: 'domain_in', value: domains }]
      const body = { name: 'long', verdict: 'deny', status: 'active', tools: ['mail_send'], params }
      await client.query(
        `insert into rules (id, organization_id, name, body, created_by) values ('rule_long', $1, 'long', $2, $3)`,
        [other, JSON.stringify(body), userId],
      )
      await client.query('update chain_head set policy_version = policy_version + 1 where organization_id = $1', [other]) // prettier-ignore
    })
    const large = await policyOf(other)
    expect(await policyOf(organizationId)).toBe(first)
    expect(await policyOf(other)).not.toBe(large)
    expect(await verdictOf('after', small)).toBe('deny')
  })

  test('a reader without the lock gets the cached policy of its version, and a policy that it loads is cached', async () => {
    const decidedBy = () => run((tx) => tx.policy, deciding)
    const first = await decidedBy()
    const head = { policy_version: first.version, frozen: first.frozen }
    const never = () => Promise.reject(new Error('loaded again'))
    expect(await deciding.policy(organizationId, head, never)).toBe(first)
    await saveRule('no-mail-again', 'deny')
    const next = { ...first, version: first.version + 1 }
    const newer = { ...head, policy_version: next.version }
    expect(await deciding.policy(organizationId, newer, () => Promise.resolve(next))).toBe(next)
    expect(await deciding.policy(organizationId, newer, never)).toBe(next)
    expect(await decidedBy()).toBe(next)
    await expect(deciding.policy(organizationId, { ...newer, frozen: 'why' }, never)).rejects.toThrow()
  })
})

describe('of the lanes in memory', () => {
  interface Lane {
    readonly id: string
    idle: boolean
    bytes: number
  }

  function kept(limits: { count: number; bytes: number }) {
    const lanes = new LaneCache<Lane>(limits)
    const made: string[] = []
    const use = (id: string): Lane =>
      lanes.laneOf(id, () => {
        made.push(id)
        return { id, idle: true, bytes: 0 }
      })
    return { lanes, made, use }
  }

  test('no more than the limit stay, and dropped ones are made again', () => {
    const { lanes, made, use } = kept({ count: 3, bytes: 100 })
    for (const id of ['a', 'b', 'c']) use(id)
    use('a')
    for (let index = 0; index < 1_000; index += 1) {
      use(`o${index}`)
      use('a')
      expect(lanes.size).toBe(3)
    }
    expect(made.filter((id) => id === 'a')).toHaveLength(1)
    use('b')
    expect(made.filter((id) => id === 'b')).toHaveLength(2)
  })

  test('the largest are dropped first, even if smaller ones are older', () => {
    const { lanes, made, use } = kept({ count: 10, bytes: 100 })
    for (const id of ['a', 'b', 'c']) use(id).bytes = 30
    lanes.trim()
    expect(lanes.size).toBe(3)
    use('c').bytes = 60
    lanes.trim()
    expect(lanes.size).toBe(2)
    for (const id of ['a', 'b']) use(id)
    expect(made).toEqual(['a', 'b', 'c'])
  })

  test('the least recently used one is dropped among those of one size', () => {
    const { lanes, made, use } = kept({ count: 10, bytes: 100 })
    for (const id of ['a', 'b', 'c']) use(id).bytes = 30
    use('a')
    use('d').bytes = 30
    lanes.trim()
    for (const id of ['a', 'c', 'd']) use(id)
    expect(made).toEqual(['a', 'b', 'c', 'd'])
  })

  test('a busy one that is too large is dropped once it is idle, and no other', () => {
    const { lanes, made, use } = kept({ count: 10, bytes: 100 })
    for (const id of ['a', 'b']) use(id).bytes = 30
    const large = use('large')
    large.idle = false
    large.bytes = 90
    for (let round = 0; round < 3; round += 1) lanes.trim()
    expect(lanes.size).toBe(3)
    large.idle = true
    lanes.becameIdle(large)
    expect(lanes.size).toBe(2)
    for (const id of ['a', 'b']) use(id)
    expect(made).toEqual(['a', 'b', 'large'])
  })

  test('a busy one is never dropped: an organization has one lane', () => {
    const { lanes, made, use } = kept({ count: 2, bytes: 100 })
    const busy = use('busy')
    busy.idle = false
    busy.bytes = 1_000
    for (const id of ['a', 'b', 'c']) use(id)
    lanes.trim()
    expect(use('busy')).toBe(busy)
    expect(lanes.size).toBe(2)
    busy.idle = true
    lanes.becameIdle(busy)
    expect(lanes.size).toBe(1)
    expect(made).toEqual(['busy', 'a', 'b', 'c'])
  })
})

describe('of the saved rules', () => {
  const compiledIds: string[] = []
  const compile = (id: string, body: object): string | null => {
    compiledIds.push(id)
    return 'inactive' in body ? null : `${id} ${JSON.stringify(body)}`
  }
  const saved = (id: string, body: object): SavedRow => ({ id, text: JSON.stringify(body) })

  test('only new and changed rules are compiled; order, deletion and inactive rules are as saved', () => {
    const first = compileRows([saved('a', { n: 1 }), saved('b', { n: 2 }), saved('c', { inactive: 1 })], undefined, compile) // prettier-ignore
    expect(activeOf(first)).toEqual(['a {"n":1}', 'b {"n":2}'])
    expect(compiledIds.splice(0)).toEqual(['a', 'b', 'c'])

    const second = compileRows([saved('c', { inactive: 1 }), saved('b', { n: 3 }), saved('a', { n: 1 }), saved('d', { n: 4 })], first, compile) // prettier-ignore
    expect(activeOf(second)).toEqual(['b {"n":3}', 'a {"n":1}', 'd {"n":4}'])
    expect(compiledIds.splice(0)).toEqual(['b', 'd'])

    const third = compileRows([saved('a', { inactive: 1 })], second, compile)
    expect(activeOf(third)).toEqual([])
    expect(bytesOf(third)).toBeLessThan(bytesOf(second))
    expect(compiledIds).toEqual(['a'])
  })

  test('none takes over anything from another rule with the same text', () => {
    const first = compileRows([saved('a', { n: 1 })], undefined, compile)
    expect(activeOf(compileRows([saved('b', { n: 1 })], first, compile))).toEqual(['b {"n":1}'])
  })
})
