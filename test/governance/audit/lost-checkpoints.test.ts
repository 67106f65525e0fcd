import { randomBytes } from 'node:crypto'
import { mkdirSync, readdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, jest, test } from '@jest/globals'
import { createDatabase, createPool } from '../../../src/db/connect.ts'
import { acceptCheckpoints } from '../../../src/governance/audit/accept-checkpoints.ts'
import { signAgain } from '../../../src/governance/audit/sign-again.ts'
import { organizationId } from './chain-fixture.ts'
import {
  addOrganization,
  asSuperuser,
  cut,
  eachWithFolder,
  fileName,
  filesOf,
  folderOf,
  key,
  pathOf,
  startProcess,
  verifyWith,
  wholeFolder,
} from './checkpoint-fixture.ts'

eachWithFolder()

const other = 'org_01J00000000000000000000001'
const lost =
  'AUDIT_CHECKPOINT_DIR has no checkpoint of this audit log, although one was kept before: bring back the folder of the organization, or accept the loss with `npm run accept-checkpoints`'
const unmounted = expect.stringMatching(
  /kept before: check that the disk of AUDIT_CHECKPOINT_DIR is mounted, or accept/,
)
const elsewhere = () => `${wholeFolder()}-elsewhere`

/** Adds an entry that the service did not write. */
function addForeignEntry(seq: number): Promise<void> {
  return asSuperuser(async (client) => {
    await client.query('insert into audit_events (canonical, hash) values ($1, $2)', [
      JSON.stringify({ organization_id: organizationId, seq, id: 'evt_foreign', event_type: 'rule.created' }),
      '0'.repeat(64),
    ])
  })
}

/** Two organizations with kept checkpoints. */
async function withCheckpoints() {
  await addOrganization(other)
  const process = startProcess()
  await process.append(10)
  await process.append(2, other)
  await process.checkpoints.keep()
  return process
}

function accept(organization: string | null, folder: string | null = wholeFolder()) {
  const { combiner, db, checkpoints } = startProcess({ folder })
  const config = { checkpointFolder: folder } as never
  return acceptCheckpoints({ combiner, db, checkpoints, config }, organization)
}

describe('the folder of an organization that is gone', () => {
  test('hides no cut: verification, checkpoint and rounds of every process say so', async () => {
    await withCheckpoints()
    await cut(7)
    rmSync(folderOf(), { recursive: true })
    const { append, checkpoints, conflicts } = startProcess()
    expect(await verifyWith(checkpoints)).toMatchObject({
      valid: false,
      first_mismatch: { id: null, reason: 'checkpoint', found: lost },
    })
    expect(await checkpoints.end(organizationId)).toMatchObject({ note: null, problem: lost })
    await append(1)
    await append(1, other)
    await checkpoints.keep({ sweep: true })
    expect(conflicts).toEqual([lost])
    expect([readdirSync(wholeFolder()).toSorted(), filesOf(other)]).toEqual([
      ['folder-id', other],
      [fileName(3)],
    ])
  })

  test('is made again after an operator has accepted it, and the log says so', async () => {
    const { checkpoints, alarms } = await withCheckpoints()
    renameSync(folderOf(), elsewhere())
    await checkpoints.end(organizationId)
    expect(alarms.count).toBe(1)
    expect(await accept(organizationId)).toMatchObject({ accepted: [organizationId] })
    expect(filesOf()).toEqual([fileName(11)])
    expect(await verifyWith(checkpoints)).toMatchObject({ valid: true, entries: 11 })
    expect(alarms.count).toBe(1)
    await checkpoints.keep({ sweep: true })
    expect(alarms.count).toBe(0)
    expect(await accept(null)).toMatchObject({ accepted: [], is_new_folder: false })
    // The folder is remembered again.
    rmSync(folderOf(), { recursive: true })
    expect(await verifyWith(checkpoints)).toMatchObject({ valid: false })
    rmSync(elsewhere(), { recursive: true })
  })

  test('is remembered again by a running process, also if the acceptance was killed halfway', async () => {
    const { append, checkpoints } = await withCheckpoints()
    rmSync(folderOf(), { recursive: true })
    await asSuperuser(async (client) => {
      await client.query('delete from checkpoint_folders where organization_id = $1', [organizationId])
    })
    await append(1)
    await checkpoints.keep()
    rmSync(folderOf(), { recursive: true })
    expect(await startProcess().checkpoints.end(organizationId)).toMatchObject({ problem: lost })
  })

  test('is missed under each of the marks that processes made at the same time', async () => {
    await withCheckpoints()
    const earlier = '00000000-0000-4000-8000-000000000000'
    writeFileSync(join(wholeFolder(), 'folder-id', earlier), '')
    rmSync(folderOf(), { recursive: true })
    expect(await startProcess().checkpoints.end(organizationId)).toMatchObject({ problem: lost })
    expect(await accept(organizationId)).toEqual({
      accepted: [organizationId],
      refused: [],
      is_new_folder: false,
      folder_id: earlier,
    })
    expect(await startProcess().checkpoints.end(organizationId)).toMatchObject({ problem: null })
  })

  test('is not accepted while the folder has a checkpoint', async () => {
    await withCheckpoints()
    await expect(accept(organizationId)).rejects.toThrow(/move its folder to another place first/)
    await expect(accept('org_none')).rejects.toMatchObject({ code: 'not_found' })
    await expect(accept(organizationId, null)).rejects.toThrow('AUDIT_CHECKPOINT_DIR is not set')
  })
})

test('a file that is no checkpoint is not accepted as a loss, and does not stop the acceptance of others', async () => {
  await withCheckpoints()
  mkdirSync(pathOf(99))
  rmSync(folderOf(other), { recursive: true })
  await expect(accept(organizationId)).rejects.toThrow(/move its folder to another place first/)
  expect(await accept(null)).toMatchObject({ accepted: [other] })
  rmSync(folderOf(), { recursive: true })
  rmSync(folderOf(other), { recursive: true })
  symlinkSync(folderOf(), folderOf())
  const reason = expect.stringContaining('(ELOOP)')
  expect(await accept(null)).toMatchObject({
    accepted: [other],
    refused: [{ organization_id: organizationId, reason }],
  })
})

test('a log with a foreign entry stays in alarm, and does not stop the acceptance of a new folder', async () => {
  await withCheckpoints()
  rmSync(wholeFolder(), { recursive: true })
  await addForeignEntry(11)
  const refused = [{ organization_id: organizationId, reason: expect.stringContaining('did not write') }]
  expect(await accept(null)).toMatchObject({ accepted: [other], refused })
  const { checkpoints } = startProcess()
  expect(await checkpoints.end(other)).toMatchObject({ problem: null })
  expect(await checkpoints.end(organizationId)).toMatchObject({ problem: lost })
  expect(await accept(null)).toMatchObject({ accepted: [], refused })
})

describe('a whole folder that is empty, such as that of a disk that is not mounted', () => {
  const empty = () => {
    rmSync(wholeFolder(), { recursive: true })
    mkdirSync(wholeFolder())
  }

  test.each([
    ['empty', empty],
    ['missing', () => rmSync(wholeFolder(), { recursive: true })],
  ] as const)('(%s) gets no checkpoint, and every log that had one is in alarm', async (_, change) => {
    const { append, checkpoints, conflicts, alarms } = await withCheckpoints()
    change()
    const young = 'org_01J00000000000000000000002'
    await addOrganization(young)
    await append(1)
    await append(1, young)
    await expect(checkpoints.keep({ sweep: true })).rejects.toThrow(
      /is not a folder in which checkpoints were kept before/,
    )
    expect(conflicts).toEqual([unmounted, unmounted])
    expect(alarms.count).toBe(2)
    expect(await verifyWith(checkpoints)).toMatchObject({ valid: false })
    // This log never had a checkpoint, so none is missing.
    expect(await checkpoints.expected(young)).toMatchObject({ kept: null })
    mkdirSync(wholeFolder(), { recursive: true })
    expect(readdirSync(wholeFolder())).toEqual([])
  })

  test('is used after an operator has accepted it', async () => {
    const { checkpoints } = await withCheckpoints()
    empty()
    await expect(accept(organizationId)).rejects.toThrow('the whole folder of checkpoints is new')
    const { accepted, folder_id, is_new_folder } = await accept(null)
    expect([accepted, is_new_folder]).toEqual([[organizationId, other], true])
    expect(readdirSync(join(wholeFolder(), 'folder-id'))).toEqual([folder_id])
    expect([filesOf(), filesOf(other)]).toEqual([[fileName(11)], [fileName(3)]])
    expect(await verifyWith(checkpoints)).toMatchObject({ valid: true })
  })

  test('is made by the first process of an installation, and by several at the same time', async () => {
    rmSync(wholeFolder(), { recursive: true })
    const processes = [startProcess(), startProcess(), startProcess()]
    for (const { append } of processes) await append(1)
    await Promise.all(processes.map(({ checkpoints }) => checkpoints.keep()))
    expect(filesOf()).toContain(fileName(3))
    for (const { checkpoints } of processes)
      expect(await checkpoints.expected(organizationId)).toMatchObject({ kept: { seq: 3 } })
  })
})

test('a round looks at no further chain in alarm while the database is away', async () => {
  const pool = createPool({ url: 'postgresql://127.0.0.1:1/none', max: 1 })
  const { alarms, checkpoints } = startProcess({ db: createDatabase(pool) })
  for (let each = 0; each < 9; each += 1) alarms.raise(`org_${each}`, 'end', 'cut')
  const looked = jest.spyOn(checkpoints, 'end')
  await expect(checkpoints.keep({ sweep: true })).rejects.toThrow()
  expect(looked).toHaveBeenCalledTimes(1)
  await pool.end()
})

test('a second machine has a folder of its own after it was accepted', async () => {
  await withCheckpoints()
  const folder = elsewhere()
  const second = startProcess({ folder })
  await second.append(1)
  await second.checkpoints.keep()
  expect(second.conflicts).toEqual([unmounted])
  await accept(null, folder)
  const young = 'org_01J00000000000000000000002'
  await addOrganization(young)
  await startProcess().append(1, young)
  await startProcess().checkpoints.keep({ sweep: true })
  // Both folders have a checkpoint of an organization that was made later.
  await second.checkpoints.keep({ sweep: true })
  expect([filesOf(young), readdirSync(join(folder, young))]).toEqual([[fileName(1)], [fileName(1)]])
  rmSync(folder, { recursive: true })
})

test('a folder with checkpoints of a version without marks is used on', async () => {
  const { append, checkpoints, conflicts } = await withCheckpoints()
  rmSync(join(wholeFolder(), 'folder-id'), { recursive: true })
  await append(1)
  await checkpoints.keep()
  expect([filesOf(), conflicts]).toEqual([[fileName(11)], []])
  expect(await accept(null)).toMatchObject({ accepted: [], is_new_folder: true })
})

describe('an error of the disk', () => {
  const errors: readonly (readonly [code: string, change: () => void])[] = [
    ['ENOTDIR', () => writeFileSync(folderOf(), 'a file in place of the folder')],
    ['ELOOP', () => symlinkSync(folderOf(), folderOf())],
  ]
  test.each(errors)('(%s) is no statement about the log, and raises no alarm', async (code, change) => {
    const { append, checkpoints, conflicts } = await withCheckpoints()
    rmSync(folderOf(), { recursive: true })
    change()
    for (const look of [checkpoints.expected(organizationId), checkpoints.end(organizationId)])
      await expect(look).rejects.toMatchObject({
        code: 'unavailable',
        message: expect.stringContaining(`(${code})`),
      })
    await append(1)
    await expect(checkpoints.keep()).rejects.toThrow(code)
    expect(conflicts).toEqual([])
  })
})

test('all kept checkpoints are signed again with a new key, except those that the log contradicts', async () => {
  await withCheckpoints()
  const renewed = startProcess({ encryptionKeys: [randomBytes(32), key] })
  expect(await signAgain(renewed)).toEqual({ signed: 2, unsigned: [] })
  await cut(7)
  rmSync(pathOf(10))
  expect(await signAgain(renewed)).toEqual({ signed: 1, unsigned: [organizationId] })
})
