import { DomainError } from '../errors.ts'
import type { Db } from '../../db/schema/index.ts'
import type { CheckpointKeys } from './checkpoint.ts'
import { WrongFile, type CheckpointFolder } from './checkpoint-folder.ts'
import type { Kept } from './end-problems.ts'
import { WrongNote } from './signed-note.ts'
import { sql } from 'kysely'

/*
 * The database remembers for which organizations a folder has had a checkpoint (docs/decisions/0256). Otherwise an
 * emptied folder, or one whose disk is not mounted, would look new.
 */

/** It names no path. */
const lostSentence = 'AUDIT_CHECKPOINT_DIR has no checkpoint of this audit log, although one was kept before'
const notMounted = 'check that the disk of AUDIT_CHECKPOINT_DIR is mounted'
const accept = 'or accept the loss with `npm run accept-checkpoints`'

/** A process remembers so many organizations whose row exists. */
const mostKnown = 50_000

export class KeptCheckpoints {
  readonly #db: Db
  readonly #folder: CheckpointFolder
  readonly #keys: CheckpointKeys
  readonly #known = new Set<string>()

  constructor(db: Db, folder: CheckpointFolder, keys: CheckpointKeys) {
    this.#keys = keys
    this.#db = db
    this.#folder = folder
  }

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

  /** null if there was none before. Without a mark, it is lost for each organization that had one in any folder. */
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

  /** null for a folder without a mark, if the service has used another folder. */
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

  /** Call this after the file was written. */
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

const foldersInRound = 2_000

/** Only the folder knows of them (docs/decisions/0269). Each call looks at the next ones. Throws `unavailable`. */
export function goneLogs(db: Db, folder: CheckpointFolder): () => Promise<readonly string[]> {
  let lookedTo = ''
  return async () => {
    const all = await folder.organizations()
    const some = all.filter((name) => name > lookedTo).slice(0, foldersInRound)
    const { rows } = await sql<{ name: string }>`
      select name from unnest(${some}::text[]) as name
      where not exists (select from chain_head where organization_id = name and seq > 0)`.execute(db)
    lookedTo = some.length < foldersInRound ? '' : (some.at(-1) ?? '')
    return rows.map(({ name }) => name)
  }
}
