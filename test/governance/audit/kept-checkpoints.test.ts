import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdirSync, readFileSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, jest, test } from '@jest/globals'
import { CheckpointFolder } from '../../../src/governance/audit/checkpoint-folder.ts'
import { organizationId } from './chain-fixture.ts'
import {
  addOrganization,
  eachWithFolder,
  fileName,
  filesOf,
  folderOf,
  key,
  pathOf,
  startProcess,
  verifyWith,
} from './checkpoint-fixture.ts'

eachWithFolder()

describe('several processes on one folder', () => {
  test('never replace a larger checkpoint by a smaller one', async () => {
    const [a, b] = [startProcess(), startProcess()]
    await a.append(3)
    await b.append(2)
    await b.checkpoints.keep()
    await a.checkpoints.keep()
    expect(filesOf()).toEqual([fileName(5)])
    expect([a.conflicts, b.conflicts]).toEqual([[], []])
  })

  test('keep the newest checkpoint while all write at once, and see no conflict', async () => {
    const processes = [startProcess(), startProcess(), startProcess()]
    const seen: number[] = []
    let writing = true
    const reading = (async () => {
      while (writing)
        seen.push((await (processes[0] as (typeof processes)[0]).checkpoints.kept(organizationId))?.seq ?? 0)
    })()
    await Promise.all(
      processes.map(async ({ append, checkpoints }) => {
        for (let round = 0; round < 15; round += 1) {
          await append(2)
          await checkpoints.keep()
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
    const { append, checkpoints } = startProcess()
    await append(1)
    await checkpoints.keep()
    for (const name of ['old.new', 'young.new']) writeFileSync(join(folderOf(), name), 'countersi')
    utimesSync(join(folderOf(), 'old.new'), 1, 1)
    await append(1)
    await checkpoints.keep()
    expect(filesOf()).toEqual([fileName(2), 'young.new'])
  })
})

test('a checkpoint that could not be kept is kept in the next round', async () => {
  writeFileSync(folderOf(), 'a file in place of the folder')
  const { append, checkpoints } = startProcess()
  await append(2)
  await expect(checkpoints.keep()).rejects.toThrow('ENOTDIR')
  rmSync(folderOf())
  await checkpoints.keep()
  expect(filesOf()).toEqual([fileName(2)])
})

test('an outage of the database stops a round after a few chains, and the next round goes on', async () => {
  const ids = Array.from({ length: 20 }, (_, index) => `org_01J000000000000000000000${10 + index}`)
  for (const id of ids) await addOrganization(id)
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
  const ids = Array.from({ length: 12 }, (_, index) => `org_01J000000000000000000000${10 + index}`)
  for (const id of ids) await addOrganization(id)
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
    await before.append(2)
    await before.checkpoints.keep()
    const after = startProcess({ encryptionKeys: [randomBytes(32), key] })
    expect(await verifyWith(after.checkpoints)).toMatchObject({ valid: true })
    await after.checkpoints.keep({ sweep: true })
    expect(await after.checkpoints.kept(organizationId)).toMatchObject({ seq: 2, isCurrent: true })
    // A process that was not restarted yet has only the old key.
    expect(await verifyWith(before.checkpoints)).toMatchObject({ valid: true })
    await before.append(1)
    await before.checkpoints.keep()
    expect([filesOf(), before.conflicts]).toEqual([[fileName(3)], []])
  })

  test('of another installation is refused', async () => {
    const { append, checkpoints } = startProcess()
    await append(2)
    await checkpoints.keep()
    const stranger = startProcess({ encryptionKeys: [randomBytes(32)] })
    expect(await verifyWith(stranger.checkpoints)).toMatchObject({
      valid: false,
      first_mismatch: { seq: 2, id: null, reason: 'checkpoint', found: 'no known key has signed the note' },
    })
    await stranger.append(1)
    await stranger.checkpoints.keep()
    expect(stranger.conflicts).toEqual([
      'the kept checkpoint of 2 entries cannot be used: no known key has signed the note',
    ])
    expect(filesOf()).toEqual([fileName(2)])
  })
})

describe('a kept file', () => {
  const changes: readonly (readonly [what: string, change: () => void, found: string])[] = [
    [
      'that was edited',
      () => writeFileSync(pathOf(3), readFileSync(pathOf(3), 'utf8').replace('\n3\n', '\n2\n')),
      'the signature is wrong: the note was changed',
    ],
    [
      'that was cut',
      () => writeFileSync(pathOf(3), readFileSync(pathOf(3), 'utf8').slice(0, 40)),
      'the text is not a signed note',
    ],
    ['that is empty', () => writeFileSync(pathOf(3), ''), 'the text is not a signed note'],
    ['that is much too large', () => writeFileSync(pathOf(3), 'x'.repeat(100_000)), 'it is too large'],
    [
      'with another number in its name',
      () => writeFileSync(pathOf(4), readFileSync(pathOf(3), 'utf8')),
      'it names 3 entries',
    ],
    [
      'that cannot be read',
      () => {
        rmSync(pathOf(3))
        mkdirSync(pathOf(3))
      },
      'it is not a file',
    ],
  ]
  test.each(changes)('%s makes the chain invalid, and stays', async (_what, change, found) => {
    const { append, checkpoints, conflicts } = startProcess()
    await append(3)
    await checkpoints.keep()
    change()
    expect(await verifyWith(checkpoints)).toMatchObject({
      valid: false,
      first_mismatch: { id: null, reason: 'checkpoint', found },
    })
    const files = filesOf()
    await append(2)
    await checkpoints.keep()
    expect(conflicts).toEqual([expect.stringContaining(found)])
    expect(filesOf()).toEqual(files)
    expect(await checkpoints.end(organizationId)).toMatchObject({
      note: null,
      problem: expect.stringContaining(found),
    })
  })
})

test('a pipe with the name of a checkpoint does not stop the process', async () => {
  const { append, checkpoints, conflicts } = startProcess()
  await append(1)
  mkdirSync(folderOf())
  execFileSync('mkfifo', [pathOf(1)])
  await checkpoints.keep()
  expect(conflicts).toEqual([expect.stringContaining('it is not a file')])
})

test('a checkpoint that cannot be written leaves no file', async () => {
  // A checkpoint cannot get the name of a folder that is not empty.
  mkdirSync(join(pathOf(1), 'full'), { recursive: true })
  const folder = new CheckpointFolder(join(folderOf(), '..'))
  await expect(folder.add(organizationId, { seq: 1, text: 'x' }, 0)).rejects.toThrow()
  expect(filesOf()).toEqual([fileName(1)])
})
