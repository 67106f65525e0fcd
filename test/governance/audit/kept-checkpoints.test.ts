import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import {
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { describe, expect, jest, test } from '@jest/globals'
import { CheckpointFolder } from '../../../src/governance/audit/checkpoint-folder.ts'
import { organizationId, other } from './chain-fixture.ts'
import {
  addOrganization,
  asSuperuser,
  cut,
  eachWithFolder,
  fileName,
  filesOf,
  folderOf,
  key,
  keptProcess,
  pathOf,
  startProcess,
  verifyWith,
  wholeFolder,
} from './checkpoint-fixture.ts'
import { createDatabase, createPool } from '../../../src/db/connect.ts'
import { acceptCheckpoints } from '../../../src/governance/audit/accept-checkpoints.ts'
import { signAgain } from '../../../src/governance/audit/checkpoints.ts'

eachWithFolder()

const lost =
  'AUDIT_CHECKPOINT_DIR has no checkpoint of this audit log, although one was kept before: bring back the folder of the organization, or accept the loss with `npm run accept-checkpoints`'
const unmounted = expect.stringMatching(
  /kept before: check that the disk of AUDIT_CHECKPOINT_DIR is mounted, or accept/,
)
const young = 'org_01J00000000000000000000002'
const elsewhere = () => `${wholeFolder()}-elsewhere`

/** Adds an entry that the service did not write. */
function addForeignEntry(seq: number): Promise<void> {
  return asSuperuser(async (client) => {
    const entry = { organization_id: organizationId, seq, id: 'evt_foreign', event_type: 'rule.created' }
    const values = [JSON.stringify(entry), '0'.repeat(64)]
    await client.query('insert into audit_events (canonical, hash) values ($1, $2)', values)
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

describe('several processes on one folder', () => {
  test('never replace a larger checkpoint by a smaller one', async () => {
    const [a, b] = [startProcess(), startProcess()]
    await a.append(3)
    await b.grow(2)
    await a.checkpoints.keep()
    expect(filesOf()).toEqual([fileName(5)])
    expect([a.conflicts, b.conflicts]).toEqual([[], []])
  })

  test('keep the newest checkpoint while all write at once, and see no conflict', async () => {
    const first = startProcess()
    const processes = [first, startProcess(), startProcess()]
    const seen: number[] = []
    let writing = true
    const reading = (async () => {
      while (writing) seen.push((await first.checkpoints.kept(organizationId))?.seq ?? 0)
    })()
    await Promise.all(
      processes.map(async ({ grow }) => {
        for (let round = 0; round < 15; round += 1) {
          await grow(2)
        }
      }),
    )
    writing = false
    await reading
    expect(seen).toEqual(seen.toSorted((a, b) => a - b))
    expect(filesOf()).toContain(fileName(90))
    for (const { checkpoints, conflicts } of processes) {
      expect(conflicts).toEqual([])
      expect(await checkpoints.kept(organizationId)).toMatchObject({ seq: 90 })
    }
  })
})

describe('after a crash', () => {
  test('a sweep of another process makes the checkpoint, once an hour', async () => {
    await startProcess().append(4)
    let now = 0
    const { checkpoints } = startProcess({ clock: () => now })
    await checkpoints.keep({ sweep: true })
    expect(filesOf()).toEqual([fileName(4)])
    await startProcess().append(1)
    await checkpoints.keep({ sweep: true })
    expect(filesOf()).toEqual([fileName(4)])
    now = 3_600_000
    await checkpoints.keep({ sweep: true })
    expect(filesOf()).toEqual([fileName(5)])
  })

  test('an unfinished file is ignored, and is removed when it is old', async () => {
    const { grow } = await keptProcess(1)
    for (const name of ['old.new', 'young.new']) writeFileSync(join(folderOf(), name), 'countersi')
    utimesSync(join(folderOf(), 'old.new'), 1, 1)
    await grow(1)
    expect(filesOf()).toEqual([fileName(2), 'young.new'])
  })
})

async function addMany(count: number): Promise<string[]> {
  const ids = Array.from({ length: count }, (_, index) => `org_01J000000000000000000000${10 + index}`)
  for (const id of ids) await addOrganization(id)
  return ids
}

test('an outage of the database stops a round after a few chains, and the next round goes on', async () => {
  const ids = await addMany(20)
  const { append, checkpoints } = startProcess()
  for (const id of ids) await append(1, id)
  let tried = 0
  const kept = jest.spyOn(checkpoints, 'kept').mockImplementation(async () => {
    tried += 1
    throw new Error('the database is away')
  })
  await expect(checkpoints.keep()).rejects.toThrow('the database is away')
  expect(tried).toBe(8)
  kept.mockRestore()
  await checkpoints.keep()
  for (const id of ids) expect(filesOf(id)).toEqual([fileName(1)])
})

test('folders that cannot be read do not stop the checkpoints of the other organizations', async () => {
  const ids = await addMany(12)
  const [broken, whole] = [ids.slice(0, 9), ids.slice(9)]
  for (const id of broken) writeFileSync(folderOf(id), 'a file in place of the folder')
  const warn = jest.fn()
  const { append, checkpoints } = startProcess({ log: { warn } as never })
  for (const id of ids) await append(1, id)
  await expect(checkpoints.keep()).rejects.toThrow('ENOTDIR')
  for (const id of whole) expect(filesOf(id)).toEqual([fileName(1)])
  expect(warn.mock.calls).toEqual([[{ failed: 9 }, 'checkpoints of audit logs were not kept']])
  // The next round tries the broken folders again.
  for (const id of broken) rmSync(folderOf(id))
  await checkpoints.keep()
  for (const id of broken) expect(filesOf(id)).toEqual([fileName(1)])
})

describe('the key', () => {
  test('of an earlier time still counts, and the present key signs the note again', async () => {
    const before = startProcess()
    await before.grow(2)
    const after = startProcess({ encryptionKeys: [randomBytes(32), key] })
    expect(await verifyWith(after.checkpoints)).toMatchObject({ valid: true })
    await after.checkpoints.keep({ sweep: true })
    expect(await after.checkpoints.kept(organizationId)).toMatchObject({ seq: 2, isCurrent: true })
    // A process that was not restarted yet has only the old key.
    expect(await verifyWith(before.checkpoints)).toMatchObject({ valid: true })
    await before.grow(1)
    expect([filesOf(), before.conflicts]).toEqual([[fileName(3)], []])
  })

  test('of another installation is refused', async () => {
    await keptProcess(2)
    const stranger = startProcess({ encryptionKeys: [randomBytes(32)] })
    expect(await verifyWith(stranger.checkpoints)).toMatchObject({
      valid: false,
      first_mismatch: { seq: 2, id: null, reason: 'checkpoint', found: 'no known key has signed the note' },
    })
    await stranger.grow(1)
    expect(stranger.conflicts).toEqual([
      'the kept checkpoint of 2 entries cannot be used: no known key has signed the note',
    ])
    expect(filesOf()).toEqual([fileName(2)])
  })
})

describe('a kept file', () => {
  const read = (): string => readFileSync(pathOf(3), 'utf8')
  const write = (text: string, seq = 3): void => writeFileSync(pathOf(seq), text)
  const changed = 'the signature is wrong: the note was changed'
  const changes: readonly (readonly [what: string, change: () => unknown, found: string])[] = [
    ['that was edited', () => write(read().replace('\n3\n', '\n2\n')), changed],
    ['that was cut', () => write(read().slice(0, 40)), 'the text is not a signed note'],
    ['that is empty', () => write(''), 'the text is not a signed note'],
    ['that is much too large', () => write('x'.repeat(100_000)), 'it is too large'],
    ['with another number in its name', () => write(read(), 4), 'it names 3 entries'],
    ['that cannot be read', () => (rmSync(pathOf(3)), mkdirSync(pathOf(3))), 'it is not a file'],
    ['that is a pipe', () => (rmSync(pathOf(3)), execFileSync('mkfifo', [pathOf(3)])), 'it is not a file'],
  ]
  test.each(changes)('%s makes the chain invalid, and stays', async (_what, change, found) => {
    const { checkpoints, conflicts, grow } = await keptProcess(3)
    change()
    expect(await verifyWith(checkpoints)).toMatchObject({
      valid: false,
      first_mismatch: { id: null, reason: 'checkpoint', found },
    })
    const files = filesOf()
    await grow(2)
    expect(conflicts).toEqual([expect.stringContaining(found)])
    expect(filesOf()).toEqual(files)
    expect(await checkpoints.end(organizationId)).toMatchObject({
      note: null,
      problem: expect.stringContaining(found),
    })
  })
})

test('a checkpoint that cannot be written leaves no file', async () => {
  // A checkpoint cannot get the name of a folder that is not empty.
  mkdirSync(join(pathOf(1), 'full'), { recursive: true })
  const folder = new CheckpointFolder(join(folderOf(), '..'))
  await expect(folder.add(organizationId, { seq: 1, text: 'x' }, 0)).rejects.toThrow()
  expect(filesOf()).toEqual([fileName(1)])
})

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
    const { grow } = await withCheckpoints()
    rmSync(folderOf(), { recursive: true })
    await asSuperuser(async (client) => {
      await client.query('delete from checkpoint_folders where organization_id = $1', [organizationId])
    })
    await grow(1)
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
  await second.grow(1)
  expect(second.conflicts).toEqual([unmounted])
  await accept(null, folder)
  await addOrganization(young)
  await startProcess().append(1, young)
  await startProcess().checkpoints.keep({ sweep: true })
  // Both folders have a checkpoint of an organization that was made later.
  await second.checkpoints.keep({ sweep: true })
  expect([filesOf(young), readdirSync(join(folder, young))]).toEqual([[fileName(1)], [fileName(1)]])
  rmSync(folder, { recursive: true })
})

test('a folder with checkpoints of a version without marks is used on', async () => {
  const { conflicts, grow } = await withCheckpoints()
  rmSync(join(wholeFolder(), 'folder-id'), { recursive: true })
  await grow(1)
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
    const unavailable = { code: 'unavailable', message: expect.stringContaining(`(${code})`) }
    await expect(checkpoints.expected(organizationId)).rejects.toMatchObject(unavailable)
    await expect(checkpoints.end(organizationId)).rejects.toMatchObject(unavailable)
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
