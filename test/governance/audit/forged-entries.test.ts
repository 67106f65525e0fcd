import { renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import { canonicalJson, sha256 } from '../../../src/shared/canonical-json.ts'
import { organizationId } from './chain-fixture.ts'
import {
  addOrganization,
  asSuperuser,
  eachWithFolder,
  fileName,
  filesOf,
  folderOf,
  startProcess,
  verifyWith,
  wholeFolder,
} from './checkpoint-fixture.ts'

eachWithFolder()

/** Writes an entry as a superuser after the last one, moves the head, and gives the entry and the head a code. */
const forge = (mac: string): Promise<void> =>
  asSuperuser(async (client) => {
    const { rows } = await client.query(
      'select canonical, hash from audit_events where organization_id = $1 order by seq desc limit 1',
      [organizationId],
    )
    const last = JSON.parse(rows[0].canonical) as { seq: number }
    const canonical = canonicalJson({ ...last, seq: last.seq + 1, prev_hash: rows[0].hash })
    const values = [canonical, sha256(canonical), organizationId]
    await client.query(
      `insert into audit_events (canonical, hash, mac) select $1, $2, (${mac}) where $3 <> ''`,
      values,
    )
    await client.query(
      `update chain_head set (seq, hash, mac) =
         (select seq, hash, mac from audit_events where organization_id = $1 order by seq desc limit 1)
       where organization_id = $1`,
      [organizationId],
    )
  })

describe('an entry that a superuser has appended, with the head moved to it,', () => {
  test.each([
    ['without a code', 'null'],
    [
      'with the code of the entry before',
      `select mac from audit_events where organization_id = '${organizationId}' and seq = 2`,
    ],
    [
      'with the code of an entry at this place in another log',
      `select mac from audit_events where organization_id = 'org_other' and seq = 3`,
    ],
    ['with a key of its own', `repeat('ab', 24)`],
  ])('%s is named, gets no checkpoint, and nothing is built on it', async (_how, mac) => {
    await addOrganization('org_other')
    const { append, checkpoints, conflicts } = startProcess()
    await append(2)
    await append(3, 'org_other')
    await checkpoints.keep()
    await forge(mac)
    expect(await verifyWith(checkpoints)).toMatchObject({
      valid: false,
      entries: 2,
      first_mismatch: { seq: 3, id: expect.stringMatching(/^evt_/), reason: 'foreign' },
    })
    await expect(append(1)).rejects.toMatchObject({ code: 'unavailable' })
    const other = startProcess()
    for (const each of [checkpoints, other.checkpoints]) await each.keep({ sweep: true })
    const problem = 'the service did not write entry 3'
    expect([conflicts, other.conflicts]).toEqual([[problem], [problem]])
    expect(await checkpoints.end(organizationId)).toMatchObject({ problem })
    expect(filesOf()).toEqual([fileName(2)])
  })
})

test('a head without its code is named, and nothing is built on it', async () => {
  const { append, checkpoints } = startProcess()
  await append(2)
  await asSuperuser(async (client) => void (await client.query('update chain_head set mac = null')))
  await expect(append(1)).rejects.toMatchObject({ code: 'unavailable' })
  expect(await verifyWith(checkpoints)).toMatchObject({ first_mismatch: { seq: 2, reason: 'foreign' } })
})

test('a head that was set back to an earlier entry of the service is named, and gets no checkpoint', async () => {
  const { append, checkpoints, conflicts } = startProcess()
  await append(4)
  await asSuperuser(async (client) => {
    await client.query(
      `update chain_head h set (seq, hash, mac) = (e.seq, e.hash, e.mac) from audit_events e
       where e.organization_id = h.organization_id and e.seq = 2 and h.organization_id = $1`,
      [organizationId],
    )
  })
  const problem = 'the chain is cut: this process has committed or signed 4 entries'
  expect(await checkpoints.end(organizationId)).toMatchObject({ problem })
  expect(conflicts).toEqual([problem])
  expect(await verifyWith(checkpoints)).toMatchObject({ first_mismatch: { seq: 4, reason: 'link' } })
})

describe('an organization that a superuser has deleted with its log', () => {
  const remove = (id: string): Promise<void> =>
    asSuperuser(async (client) => {
      await client.query('alter table audit_events disable trigger all')
      for (const table of ['audit_events', 'chain_head', 'checkpoint_folders'])
        await client.query(`delete from ${table} where organization_id = $1`, [id])
      await client.query('delete from organizations where id = $1', [id])
    })

  test('raises an alarm in every process, until its folder is moved away', async () => {
    const { append, checkpoints } = startProcess()
    await append(2)
    await checkpoints.keep()
    await remove(organizationId)
    const { checkpoints: later, alarms, conflicts } = startProcess()
    await later.keep({ sweep: true })
    expect(conflicts).toEqual([expect.stringContaining('no audit log of this organization any more')])
    renameSync(folderOf(), join(wholeFolder(), '..', `${organizationId}-kept`))
    await later.keep({ sweep: true })
    expect(alarms.count).toBe(0)
    rmSync(join(wholeFolder(), '..', `${organizationId}-kept`), { recursive: true })
  })

  test('raises an alarm in the process that has committed its entries, also without a kept checkpoint', async () => {
    const { append, checkpoints, alarms } = startProcess()
    await append(1)
    await remove(organizationId)
    await checkpoints.keep()
    expect(alarms.count).toBe(1)
  })
})

test('a log whose head and entries are gone while the organization stays is named, and gets no checkpoint', async () => {
  const { append, checkpoints, conflicts } = startProcess()
  await append(2)
  await checkpoints.keep()
  await asSuperuser(async (client) => {
    await client.query('alter table audit_events disable trigger all')
    for (const table of ['audit_events', 'chain_head'])
      await client.query(`delete from ${table} where organization_id = $1`, [organizationId])
  })
  for (const each of [checkpoints, startProcess().checkpoints]) {
    expect(await verifyWith(each)).toMatchObject({
      valid: false,
      entries: 0,
      first_mismatch: { seq: 1, reason: 'truncated', found: 'no head' },
    })
    expect(await each.end(organizationId)).toMatchObject({
      note: expect.stringContaining(organizationId),
      problem: expect.stringContaining('no audit log of this organization any more'),
    })
  }
  await checkpoints.keep({ sweep: true })
  expect(conflicts).toHaveLength(1)
  await expect(append(1)).rejects.toMatchObject({ code: 'not_found' })
})
