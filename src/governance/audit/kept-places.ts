import { DomainError } from '../errors.ts'
import type { Db } from '../../db/schema/index.ts'
import type { CheckpointKeys } from './checkpoint.ts'
import { WrongFile, type CheckpointFolder } from './checkpoint-folder.ts'
import type { Kept } from './end-problems.ts'
import { WrongNote } from './signed-note.ts'
import { sql } from 'kysely'

/*
 * The database remembers for which organizations a folder has had a checkpoint (docs/decisions/0256). Without this
 * memory, a folder that was emptied, or whose disk is not mounted, would look like a new one.
 */

/** The folder has lost the checkpoint of an organization. The sentence does not name the path. */
const lostSentence = 'AUDIT_CHECKPOINT_DIR has no checkpoint of this audit log, although one was kept before'
const notMounted = 'check that the disk of AUDIT_CHECKPOINT_DIR is mounted'
const accept = 'or accept the loss with `npm run accept-checkpoints`'

/** A process remembers at most this many organizations whose row exists. */
const mostKnown = 50_000

export class KeptPlaces {
  readonly #db: Db
  readonly #folder: CheckpointFolder
  readonly #keys: CheckpointKeys
  /** The organizations whose row exists. */
  readonly #known = new Set<string>()

  constructor(db: Db, folder: CheckpointFolder, keys: CheckpointKeys) {
    this.#keys = keys
    this.#db = db
    this.#folder = folder
  }

  /** Returns the kept checkpoint of a chain, as `Checkpoints.kept` describes. */
  async kept(organizationId: string): Promise<Kept | null> {
    let seq = 0
    try {
      const first = await this.#folder.newest(organizationId)
      const problem = first === null ? await this.#loss(organizationId) : null
      // Another process may have made the first file after it was looked for.
      const file = problem === null ? first : await this.#folder.newest(organizationId)
      if (file === null) return problem === null ? null : { seq, problem }
      seq = file.seq
      const opened = this.#keys.open(organizationId, file.text)
      if (opened.seq !== seq) throw new WrongNote(`it names ${opened.seq} entries`)
      return { seq, hash: opened.hash, note: file.text, isCurrent: opened.isCurrent }
    } catch (error) {
      if (error instanceof WrongNote) return { seq, problem: error.message }
      if (error instanceof WrongFile) return { seq: error.seq, problem: error.message }
      throw error
    }
  }

  /**
   * Returns why it is wrong that the folder has no checkpoint of this organization; null if there was none before. A
   * folder without a mark counts as lost for each organization that has had a checkpoint in any folder.
   */
  async #loss(organizationId: string): Promise<string | null> {
    const ids = await this.#folder.ids()
    const row = await this.#db
      .selectFrom('checkpoint_folders')
      .select('folder_id')
      .where('organization_id', '=', organizationId)
      .$if(ids.length > 0, (query) => query.where('folder_id', 'in', ids))
      .limit(1)
      .executeTakeFirst()
    if (row === undefined) {
      // An operator may have accepted a loss since this process inserted a row.
      this.#known.delete(organizationId)
      return null
    }
    return `${lostSentence}: ${ids.length === 0 ? notMounted : 'bring back the folder of the organization'}, ${accept}`
  }

  /** Marks a new folder. Throws `unavailable` if the service has kept checkpoints, and none of them here. */
  async requireOpen(): Promise<void> {
    if ((await this.#open()) === null)
      throw new DomainError(
        'unavailable',
        `AUDIT_CHECKPOINT_DIR is not a folder in which checkpoints were kept before: ${notMounted}, ${accept}`,
      )
  }

  /** Returns the id of the folder. Returns null for a folder without a mark if the service has used another folder. */
  async #open(): Promise<string | null> {
    const id = await this.#folder.id()
    if (id !== null) return id
    const used = await this.#db
      .selectFrom('checkpoint_folders')
      .select('folder_id')
      .limit(1)
      .executeTakeFirst()
    // Another process may have marked the folder after the mark was looked for.
    return used === undefined ? this.#folder.mark() : this.#folder.id()
  }

  /** Remembers that the folder has a checkpoint of this organization. Call this after the file was written. */
  async remember(organizationId: string): Promise<void> {
    if (this.#known.has(organizationId)) return
    const id = await this.#open()
    if (id === null) return
    await this.#db
      .insertInto('checkpoint_folders')
      .values({ organization_id: organizationId, folder_id: id })
      .onConflict((conflict) => conflict.doNothing())
      .execute()
    if (this.#known.size >= mostKnown) this.#known.clear()
    this.#known.add(organizationId)
  }
}

/** One round compares at most this many folders with the database. */
const foldersInRound = 2_000

/**
 * Finds audit logs that are gone as a whole, together with their organizations. The database then knows nothing of
 * them, but the folder of checkpoints still does (docs/decisions/0269).
 */
export class GoneLogs {
  readonly #db: Db
  readonly #folder: CheckpointFolder
  /** The last organization of the round before. The next round goes on behind it, so each folder has its turn. */
  #lookedTo = ''

  constructor(db: Db, folder: CheckpointFolder) {
    this.#db = db
    this.#folder = folder
  }

  /**
   * Compares the next folders of organizations with the database. Returns the organizations whose audit log has no entry.
   * Throws `unavailable` if the disk fails.
   */
  async next(): Promise<readonly string[]> {
    const all = await this.#folder.organizations()
    const some = all.filter((name) => name > this.#lookedTo).slice(0, foldersInRound)
    const { rows } = await sql<{ name: string }>`
      select name from unnest(${some}::text[]) as name
      where not exists (select from chain_head where organization_id = name and seq > 0)`.execute(this.#db)
    this.#lookedTo = some.length < foldersInRound ? '' : (some.at(-1) ?? '')
    return rows.map(({ name }) => name)
  }
}
