import { readFileSync, utimesSync } from 'node:fs'
import { describe, expect, jest, test } from '@jest/globals'
import { sha256 } from '../../../src/shared/canonical-json.ts'
import { AuditAlarms } from '../../../src/governance/audit/alarms.ts'
import { KnownHeads } from '../../../src/governance/audit/checkpoints.ts'
import { organizationId, other } from './chain-fixture.ts'
import {
  addOrganization,
  asSuperuser,
  cut,
  eachWithFolder,
  fileName,
  filesOf,
  keptProcess,
  pathOf,
  startProcess,
  verifyWith,
} from './checkpoint-fixture.ts'

eachWithFolder()

const cutShort = 'the chain is cut: its kept checkpoint has 10 entries'

describe('a kept checkpoint', () => {
  test('is that of the newest entry, and replaces earlier ones', async () => {
    const { checkpoints, conflicts, grow } = startProcess()
    expect(await checkpoints.kept(organizationId)).toBeNull()
    await grow(3)
    await grow(2)
    expect(filesOf()).toEqual([fileName(5)])
    expect(readFileSync(pathOf(5), 'utf8')).toBe((await checkpoints.end(organizationId)).note)
    expect(await verifyWith(checkpoints)).toMatchObject({ valid: true, entries: 5, first_mismatch: null })
    expect(conflicts).toEqual([])
  })

  test('is not written again while the chain does not grow', async () => {
    const { checkpoints } = await keptProcess(1)
    utimesSync(pathOf(1), 1, 1)
    await checkpoints.keep({ sweep: true })
    expect(filesOf()).toEqual([fileName(1)])
    expect(await verifyWith(checkpoints)).toMatchObject({ valid: true })
  })

  test('has one file for each organization', async () => {
    await addOrganization(other)
    const { append, checkpoints } = startProcess()
    await append(3)
    await append(2, other)
    await checkpoints.keep()
    expect([filesOf(), filesOf(other)]).toEqual([[fileName(3)], [fileName(2)]])
  })

  test('is only logged if no folder is set', async () => {
    const info = jest.fn()
    const { append, checkpoints } = startProcess({ folder: null, log: { info } as never })
    await append(3)
    await checkpoints.keep({ sweep: true })
    await checkpoints.keep({ sweep: true })
    const { note } = await checkpoints.end(organizationId)
    expect(info.mock.calls).toEqual([
      [{ organization_id: organizationId, seq: 3, checkpoint: note }, 'checkpoint of the audit log'],
    ])
  })
})

describe('a superuser who cuts the end of the chain and sets the head back', () => {
  test('is noticed by a sweep also if the head still names them', async () => {
    const { checkpoints, conflicts } = await keptProcess(10)
    await asSuperuser(async (client) => {
      await client.query('alter table audit_events disable trigger all')
      await client.query('delete from audit_events where seq > 7')
    })
    await checkpoints.keep({ sweep: true })
    expect(conflicts).toEqual([cutShort])
  })

  const shorter = {
    seq: 8,
    id: null,
    reason: 'checkpoint',
    expected: '10 entries, by the kept checkpoint',
    found: '7 entries',
  }

  test('is noticed by verification, and by the next checkpoint, which is not made', async () => {
    const { checkpoints } = await keptProcess(10)
    await cut(7)
    expect(await verifyWith(checkpoints)).toMatchObject({
      valid: false,
      entries: 7,
      head: { seq: 7 },
      first_mismatch: shorter,
    })
    const { note, problem } = await checkpoints.end(organizationId)
    expect({ note, problem }).toEqual({
      note: readFileSync(pathOf(10), 'utf8'),
      problem: cutShort,
    })
    const another = startProcess()
    await another.grow(1)
    expect(another.conflicts).toEqual([cutShort])
    expect(filesOf()).toEqual([fileName(10)])
  })

  test('is noticed also after the chain has grown beyond the checkpoint', async () => {
    const { checkpoints } = await keptProcess(10)
    const hash = (await checkpoints.end(organizationId)).head.hash
    await cut(7)
    const another = startProcess()
    await another.grow(5)
    expect(another.conflicts).toEqual(['entry 10 is not the entry of the kept checkpoint'])
    expect(filesOf()).toEqual([fileName(10)])
    expect(await verifyWith(checkpoints)).toMatchObject({
      valid: false,
      entries: 9,
      first_mismatch: { seq: 10, id: expect.stringMatching(/^evt_/), reason: 'checkpoint', expected: hash },
    })
  })

  test('is noticed if it happens before the checkpoint is made', async () => {
    const { append, checkpoints } = startProcess()
    await append(10)
    await cut(7)
    await checkpoints.keep()
    expect(await verifyWith(checkpoints)).toMatchObject({ valid: false, first_mismatch: shorter })
  })

  test('is noticed by a sweep without any request', async () => {
    await keptProcess(10)
    await cut(7)
    const { checkpoints, conflicts } = startProcess()
    await checkpoints.keep({ sweep: true })
    expect(conflicts).toEqual([cutShort])
  })
})

describe('a superuser who cuts entries that have no kept checkpoint yet', () => {
  const lost = 'the chain is cut: this process has committed or signed 10 entries'
  const contradicted = 'entry 10 is not the entry that this process has committed or signed'

  test('is noticed by verification in this process', async () => {
    const { append, checkpoints } = startProcess()
    await append(10)
    await cut(7)
    expect(await verifyWith(checkpoints)).toMatchObject({
      valid: false,
      entries: 7,
      first_mismatch: {
        seq: 8,
        reason: 'checkpoint',
        expected: '10 entries, which this process has committed or signed',
        found: '7 entries',
      },
    })
    await startProcess().append(5)
    expect(await verifyWith(checkpoints)).toMatchObject({
      valid: false,
      first_mismatch: { seq: 10, id: expect.stringMatching(/^evt_/), reason: 'checkpoint' },
    })
  })

  test('is noticed by the next commit of the process, and the old checkpoint is kept as the proof', async () => {
    const { append, checkpoints, conflicts } = startProcess()
    await append(10)
    const { hash } = (await checkpoints.end(organizationId)).head
    await cut(7)
    await append(5)
    expect(conflicts).toEqual([lost])
    await checkpoints.keep()
    expect(await checkpoints.kept(organizationId)).toMatchObject({ seq: 10, hash })
    expect(filesOf()).toEqual([fileName(10)])
  })

  test('is noticed if another process has appended since, and nothing contradictory is signed', async () => {
    const { append, checkpoints, conflicts } = startProcess()
    await append(10)
    await cut(7)
    await startProcess().append(5)
    await append(1)
    expect(await checkpoints.end(organizationId)).toMatchObject({ note: null, problem: contradicted })
    await checkpoints.keep()
    expect(conflicts).toEqual([contradicted])
  })

  test('is noticed if only the last entry is another one', async () => {
    const { append, conflicts } = startProcess()
    await append(10)
    await cut(9)
    await startProcess().append(1)
    await append(1)
    expect(conflicts).toEqual([contradicted])
  })

  test('is noticed after a checkpoint was signed for a reader', async () => {
    await startProcess().append(10)
    const { checkpoints } = startProcess()
    expect(await checkpoints.end(organizationId)).toMatchObject({ problem: null })
    await cut(7)
    expect(await checkpoints.end(organizationId)).toMatchObject({ note: null, problem: lost })
  })
})

test('processes that append in turn, read and keep raise no alarm', async () => {
  const processes = [startProcess(), startProcess(), startProcess()]
  for (let round = 0; round < 20; round += 1) {
    await Promise.all(
      processes.map(async ({ append, checkpoints }, index) => {
        await append(2)
        if ((round + index) % 3 === 0) await checkpoints.end(organizationId)
        if ((round + index) % 7 === 0) await checkpoints.keep()
      }),
    )
  }
  for (const { checkpoints, conflicts } of processes) {
    expect(await checkpoints.end(organizationId)).toMatchObject({ head: { seq: 120 }, problem: null })
    expect(conflicts).toEqual([])
  }
})

test('a chain that is rewritten as a whole has another entry than its checkpoint', async () => {
  const { checkpoints } = await keptProcess(3)
  await asSuperuser(async (client) => {
    await client.query('alter table audit_events disable trigger all')
    let prev = '0'.repeat(64)
    for (let seq = 1; seq <= 3; seq += 1) {
      const { rows } = await client.query('select canonical from audit_events where seq = $1', [seq])
      const canonical = rows[0].canonical
        .replace('"ok"', '"no"')
        .replace(/"prev_hash":"\w{64}"/, `"prev_hash":"${prev}"`)
      prev = sha256(canonical)
      const values = [seq, canonical, prev]
      await client.query('update audit_events set canonical = $2, hash = $3 where seq = $1', values)
    }
    await client.query('update chain_head set hash = $1', [prev])
  })
  expect(await verifyWith(checkpoints)).toMatchObject({
    valid: false,
    entries: 0,
    first_mismatch: { seq: 1, reason: 'foreign' },
  })
  const another = startProcess()
  await expect(another.append(1)).rejects.toMatchObject({ code: 'unavailable' })
  await another.checkpoints.keep({ sweep: true })
  expect(another.conflicts).toEqual(['the service did not write entry 3'])
})

test('no checkpoint is signed of a head that is not the last entry', async () => {
  // The kept checkpoint is right. With it, the check of an export would pass.
  const { checkpoints } = await keptProcess(3)
  await asSuperuser(
    async (client) => void (await client.query(`update chain_head set hash = repeat('1', 64)`)),
  )
  expect(await checkpoints.end(organizationId)).toMatchObject({
    note: null,
    problem: 'the head of the chain is not its entry 3',
  })
})

describe('the heads that a process knows', () => {
  const at = (seq: number, chain = 'a') => ({ seq, hash: `${chain}${seq}` })

  test('entries between two commits of a process raise no alarm: others or a lost commit have added them', () => {
    const heads = new KnownHeads()
    expect(heads.commit('o', at(0), at(3))).toBeNull()
    expect(heads.commit('o', at(7), at(9))).toBeNull()
    expect(heads.of('o')).toEqual([at(3), at(9)])
    expect(heads.commit('o', at(9), at(10))).toBeNull()
    expect(heads.of('o')).toEqual([at(3), at(10)])
  })

  test('a signed head that is newer than the own commit raises no alarm, also if the commit is noted later', () => {
    const heads = new KnownHeads()
    heads.contains('o', [], at(12))
    expect(heads.commit('o', at(8), at(10))).toBeNull()
    expect(heads.commit('o', at(12), at(13))).toBeNull()
  })

  test('a lost head stays the answer after the chain has grown beyond it', () => {
    const heads = new KnownHeads()
    heads.commit('o', at(0), at(10))
    for (const seq of [8, 9, 10, 11, 12])
      expect(heads.commit('o', at(seq - 1, 'b'), at(seq, 'b'))).toEqual(at(10))
  })

  test('a head with another hash is noticed', () => {
    const heads = new KnownHeads()
    heads.commit('o', at(0), at(3))
    expect(heads.commit('o', at(3, 'b'), at(4, 'b'))).toEqual(at(3))
  })

  test('the memory has a limit: for one chain it keeps the first head and the newest ones', () => {
    const heads = new KnownHeads(2)
    for (let seq = 1; seq <= 40; seq += 1) heads.commit('o', at(2 * seq - 1), at(2 * seq))
    expect(heads.of('o')).toHaveLength(16)
    expect([heads.of('o')[0], heads.of('o').at(-1)]).toEqual([at(2), at(80)])
    for (const id of ['p', 'q']) heads.commit(id, at(0), at(1))
    expect([heads.of('o'), heads.of('p'), heads.of('q')]).toEqual([[], [at(1)], [at(1)]])
  })
})

describe('chains in alarm', () => {
  test('are looked at in their turn, also if more are in alarm than fit in one round', () => {
    const alarms = new AuditAlarms({ onAlarm: () => {} })
    for (const id of ['a', 'b', 'c']) alarms.raise(id, 'end', 'cut')
    alarms.raise('d', 'verify', 'changed')
    expect([alarms.wrongEnds(2), alarms.wrongEnds(2), alarms.wrongEnds(9)]).toEqual([
      ['a', 'b'],
      ['c', 'a'],
      ['b', 'c', 'a'],
    ])
  })

  test('have their next log line in time, also after a look', () => {
    const logged: string[] = []
    let now = 0
    const alarms = new AuditAlarms({ onAlarm: (id) => logged.push(id), clock: () => now })
    alarms.raise('a', 'end', 'cut')
    alarms.wrongEnds(1)
    now = 59_999
    alarms.raise('a', 'end', 'cut')
    expect(logged).toEqual(['a'])
    now = 60_000
    alarms.raise('a', 'end', 'cut')
    expect(logged).toEqual(['a', 'a'])
    expect([alarms.any, alarms.count]).toEqual([true, 1])
    alarms.settle('a', 'end')
    expect([alarms.any, alarms.count]).toEqual([false, 0])
  })
})
