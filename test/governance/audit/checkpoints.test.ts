import { readFileSync, utimesSync } from 'node:fs'
import { describe, expect, jest, test } from '@jest/globals'
import { sha256 } from '../../../src/shared/canonical-json.ts'
import { organizationId } from './chain-fixture.ts'
import {
  addOrganization,
  asSuperuser,
  cut,
  eachWithFolder,
  fileName,
  filesOf,
  pathOf,
  startProcess,
  verifyWith,
} from './checkpoint-fixture.ts'

eachWithFolder()

describe('a kept checkpoint', () => {
  test('is that of the newest entry, and replaces earlier ones', async () => {
    const { append, checkpoints, conflicts } = startProcess()
    expect(await checkpoints.kept(organizationId)).toBeNull()
    await append(3)
    await checkpoints.keep()
    await append(2)
    await checkpoints.keep()
    expect(filesOf()).toEqual([fileName(5)])
    expect(readFileSync(pathOf(5), 'utf8')).toBe((await checkpoints.end(organizationId)).note)
    expect(await verifyWith(checkpoints)).toMatchObject({ valid: true, entries: 5, first_mismatch: null })
    expect(conflicts).toEqual([])
  })

  test('is not written again while the chain does not grow', async () => {
    const { append, checkpoints } = startProcess()
    await append(1)
    await checkpoints.keep()
    utimesSync(pathOf(1), 1, 1)
    await checkpoints.keep({ sweep: true })
    expect(filesOf()).toEqual([fileName(1)])
    expect(await verifyWith(checkpoints)).toMatchObject({ valid: true })
  })

  test('has one file for each organization', async () => {
    const other = 'org_01J00000000000000000000001'
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
    const { append, checkpoints, conflicts } = startProcess()
    await append(10)
    await checkpoints.keep()
    await asSuperuser(async (client) => {
      await client.query('alter table audit_events disable trigger all')
      await client.query('delete from audit_events where seq > 7')
    })
    await checkpoints.keep({ sweep: true })
    expect(conflicts).toEqual(['the chain is cut: its kept checkpoint has 10 entries'])
  })

  const shorter = {
    seq: 8,
    id: null,
    reason: 'checkpoint',
    expected: '10 entries, by the kept checkpoint',
    found: '7 entries',
  }

  test('is noticed by verification, and by the next checkpoint, which is not made', async () => {
    const { append, checkpoints } = startProcess()
    await append(10)
    await checkpoints.keep()
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
      problem: 'the chain is cut: its kept checkpoint has 10 entries',
    })
    const other = startProcess()
    await other.append(1)
    await other.checkpoints.keep()
    expect(other.conflicts).toEqual(['the chain is cut: its kept checkpoint has 10 entries'])
    expect(filesOf()).toEqual([fileName(10)])
  })

  test('is noticed also after the chain has grown beyond the checkpoint', async () => {
    const { append, checkpoints } = startProcess()
    await append(10)
    await checkpoints.keep()
    const hash = (await checkpoints.end(organizationId)).head.hash
    await cut(7)
    const other = startProcess()
    await other.append(5)
    await other.checkpoints.keep()
    expect(other.conflicts).toEqual(['entry 10 is not the entry of the kept checkpoint'])
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
    const { append, checkpoints } = startProcess()
    await append(10)
    await checkpoints.keep()
    await cut(7)
    const another = startProcess()
    await another.checkpoints.keep({ sweep: true })
    expect(another.conflicts).toEqual(['the chain is cut: its kept checkpoint has 10 entries'])
  })
})

describe('a superuser who cuts entries that have no kept checkpoint yet', () => {
  const lost = ['the chain is cut: this process has committed or signed 10 entries']

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
    expect(conflicts).toEqual(lost)
    await checkpoints.keep()
    expect(await checkpoints.kept(organizationId)).toMatchObject({ seq: 10, hash })
    expect(filesOf()).toEqual([fileName(10)])
  })

  test('is noticed if another process has appended since, and nothing contradictory is signed', async () => {
    const [own, other] = [startProcess(), startProcess()]
    await own.append(10)
    await cut(7)
    await other.append(5)
    await own.append(1)
    expect(await own.checkpoints.end(organizationId)).toMatchObject({
      note: null,
      problem: 'entry 10 is not the entry that this process has committed or signed',
    })
    await own.checkpoints.keep()
    expect(own.conflicts).toEqual(['entry 10 is not the entry that this process has committed or signed'])
  })

  test('is noticed if only the last entry is another one', async () => {
    const { append, conflicts } = startProcess()
    await append(10)
    await cut(9)
    await startProcess().append(1)
    await append(1)
    expect(conflicts).toEqual(['entry 10 is not the entry that this process has committed or signed'])
  })

  test('is noticed after a checkpoint was signed for a reader', async () => {
    await startProcess().append(10)
    const { checkpoints } = startProcess()
    expect(await checkpoints.end(organizationId)).toMatchObject({ problem: null })
    await cut(7)
    expect(await checkpoints.end(organizationId)).toMatchObject({ note: null, problem: lost[0] })
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
  const { append, checkpoints } = startProcess()
  await append(3)
  await checkpoints.keep()
  await asSuperuser(async (client) => {
    await client.query('alter table audit_events disable trigger all')
    let prev = '0'.repeat(64)
    for (let seq = 1; seq <= 3; seq += 1) {
      const { rows } = await client.query('select canonical from audit_events where seq = $1', [seq])
      const canonical = rows[0].canonical
        .replace('"ok"', '"no"')
        .replace(/"prev_hash":"\w{64}"/, `"prev_hash":"${prev}"`)
      prev = sha256(canonical)
      await client.query('update audit_events set canonical = $2, hash = $3 where seq = $1', [
        seq,
        canonical,
        prev,
      ])
    }
    await client.query('update chain_head set hash = $1', [prev])
  })
  expect(await verifyWith(checkpoints)).toMatchObject({
    valid: false,
    entries: 0,
    first_mismatch: { seq: 1, reason: 'foreign' },
  })
  const other = startProcess()
  await expect(other.append(1)).rejects.toMatchObject({ code: 'unavailable' })
  await other.checkpoints.keep({ sweep: true })
  expect(other.conflicts).toEqual(['the service did not write entry 3'])
})

test('no checkpoint is signed of a head that is not the last entry', async () => {
  const { append, checkpoints } = startProcess()
  await append(3)
  // The kept checkpoint is right. With it, the check of an export would pass.
  await checkpoints.keep()
  await asSuperuser(
    async (client) => void (await client.query(`update chain_head set hash = repeat('1', 64)`)),
  )
  expect(await checkpoints.end(organizationId)).toMatchObject({
    note: null,
    problem: 'the head of the chain is not its entry 3',
  })
})
