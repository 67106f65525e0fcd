import { randomUUID } from 'node:crypto'
import { constants } from 'node:fs'
import { mkdir, open, readdir, rename, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { DomainError } from '../errors.ts'

/** `seq` is the number in the name of the file. */
export interface KeptFile {
  readonly seq: number
  readonly text: string
}

/** The service has not written this file. The message names no path: members of the organization see it. */
export class WrongFile extends Error {
  override readonly name = 'WrongFile'
  readonly seq: number

  constructor(seq: number, reason: string) {
    super(reason)
    this.seq = seq
  }
}

/** The files of one chain fail, and those of others may not. */
export class ChainFailure extends Error {
  override readonly name = 'ChainFailure'
}

export const failureOf =
  (organizationId: string) =>
  (error: unknown): never => {
    if (!(error instanceof DomainError)) throw error
    throw new ChainFailure(`the checkpoint of ${organizationId} was not kept: ${error.message}`)
  }

export const isOfOneChain = (error: unknown): boolean => error instanceof ChainFailure

/** An error of the disk says nothing about the audit log. */
const unreadable = (code: string): DomainError =>
  new DomainError(
    'unavailable',
    `the kept checkpoint cannot be read (${code}), so nothing was compared: try again, or check AUDIT_CHECKPOINT_DIR`,
  )

const codeOf = (error: unknown): string | undefined => (error as NodeJS.ErrnoException).code

const nameOf = (seq: number): string => `${String(seq).padStart(15, '0')}.note`
const notes = /^(\d{15})\.note$/
const unfinished = '.new'
/** An unfinished file that is older than this was left by a crash. */
const leftMilliseconds = 10 * 60_000
const markFolder = 'folder-id'
const organizationFolder = /^[\w-]{1,100}$/
const mark = /^[0-9a-f-]{36}$/
const markText =
  'The name of this file is the id of this folder of checkpoints. Do not remove it: see docs/operations.md.\n'

/**
 * A folder outside the database with a folder for each organization, which has its newest checkpoint and sometimes
 * earlier ones, each named by its `seq`. So several processes may write, and a smaller checkpoint never replaces a
 * larger one.
 *
 * The mark is the file in `folder-id`. Without it, the folder is new, or its disk is not mounted.
 */
export class CheckpointFolder {
  readonly #path: string

  constructor(path: string) {
    this.#path = path
  }

  /** null if the folder has no mark. Throws `unavailable`. */
  async id(): Promise<string | null> {
    return (await this.ids())[0] ?? null
  }

  /** The present one first. Processes that start together can each have made and used a mark. Throws `unavailable`. */
  async ids(): Promise<readonly string[]> {
    return (await namesIn(join(this.#path, markFolder))).filter((name) => mark.test(name)).toSorted()
  }

  async mark(made: string = randomUUID()): Promise<string> {
    const folder = join(this.#path, markFolder)
    await mkdir(folder, { recursive: true, mode: 0o700 })
    await writeFile(join(folder, made), markText, { flag: 'wx', mode: 0o600, flush: true })
    return (await this.id()) ?? made
  }

  /** In the order of their ids. Throws `unavailable`. */
  async organizations(): Promise<readonly string[]> {
    const names = await namesIn(this.#path)
    return names.filter((name) => organizationFolder.test(name) && name !== markFolder).toSorted()
  }

  /** The file with the largest `seq`; null if there is none. Throws WrongFile and `unavailable`. */
  async newest(organizationId: string): Promise<KeptFile | null> {
    const folder = this.#folderOf(organizationId)
    for (let tries = 0; ; tries += 1) {
      const seqs = (await namesIn(folder)).flatMap((name) => seqOf(name) ?? [])
      const seq = Math.max(...seqs)
      if (seq === -Infinity) return null
      try {
        return { seq, text: await textOf(join(folder, nameOf(seq))) }
      } catch (error) {
        const code = codeOf(error)
        if (code === undefined) throw new WrongFile(seq, (error as Error).message)
        // Another process has made a newer file and removed this one.
        if (code !== 'ENOENT' || tries >= 20) throw unreadable(code)
      }
    }
  }

  /**
   * Adds a file, which gets its name when it is complete on the disk. Then removes files up to `checked`, the `seq` of
   * the checkpoint that the caller has compared with the chain, and what crashes have left unfinished.
   */
  async add(organizationId: string, { seq, text }: KeptFile, checked: number): Promise<void> {
    const folder = this.#folderOf(organizationId)
    await mkdir(folder, { recursive: true, mode: 0o700 })
    const making = join(folder, `${randomUUID()}${unfinished}`)
    try {
      const file = await open(making, 'wx', 0o600)
      try {
        await file.writeFile(text)
        await file.sync()
      } finally {
        await file.close()
      }
      await rename(making, join(folder, nameOf(seq)))
    } catch (error) {
      // Otherwise each round on a full disk would leave a file.
      await rm(making, { force: true })
      throw error
    }
    await removeOld(folder, (each) => each <= checked && each !== seq)
  }

  #folderOf(organizationId: string): string {
    if (!organizationFolder.test(organizationId)) throw new Error('the id of an organization is malformed')
    return join(this.#path, organizationId)
  }
}

function seqOf(name: string): number | null {
  const digits = notes.exec(name)?.[1]
  return digits === undefined ? null : Number(digits)
}

async function namesIn(folder: string): Promise<readonly string[]> {
  try {
    return await readdir(folder)
  } catch (error) {
    const code = codeOf(error)
    if (code === 'ENOENT') return []
    throw unreadable(code ?? 'unknown error')
  }
}

async function textOf(path: string): Promise<string> {
  // Without O_NONBLOCK, opening a pipe would wait for its writer.
  const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK)
  try {
    const found = await file.stat()
    if (!found.isFile()) throw new Error('it is not a file')
    if (found.size > 64 * 1024) throw new Error('it is too large')
    return await file.readFile('utf8')
  } finally {
    await file.close()
  }
}

async function removeOld(folder: string, isOld: (seq: number) => boolean): Promise<void> {
  for (const name of await namesIn(folder)) {
    const path = join(folder, name)
    const seq = seqOf(name)
    if (seq === null ? await isLeft(path) : isOld(seq)) await rm(path, { force: true })
  }
}

async function isLeft(path: string): Promise<boolean> {
  if (!path.endsWith(unfinished)) return false
  const { mtimeMs } = await stat(path).catch(() => ({ mtimeMs: Infinity }))
  return Date.now() - mtimeMs > leftMilliseconds
}
