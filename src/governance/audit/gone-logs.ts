import { sql } from 'kysely'
import type { Db } from '../../db/schema/index.ts'
import type { CheckpointFolder } from './checkpoint-folder.ts'

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
