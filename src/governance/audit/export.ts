import { sql } from 'kysely'
import type { Db } from '../../db/schema/index.ts'
import { JsonParts } from '../../shared/json-parts.ts'
import { readBounded } from '../page.ts'
import { DomainError } from '../errors.ts'
import type { ChainEnd } from './end-problems.ts'
import { lineOf, type LastLine, type StoredEntry } from './verify-entry.ts'

export interface ExportedEntry extends StoredEntry {
  readonly seq: number
}

/** Entries in one page. An entry takes about 700 bytes. */
const entriesInPage = 250

/** Reads the next page of entries. Their `seq` is above `after`, and at most `last`. */
export async function readEntries(
  db: Db,
  organizationId: string,
  after: number,
  last: number,
): Promise<readonly ExportedEntry[]> {
  return readBounded(db, async (trx) => {
    const { rows } = await sql<ExportedEntry>`
      select seq, canonical, hash from audit_events
      where organization_id = ${organizationId} and seq > ${after} and seq <= ${last}
      order by seq limit ${entriesInPage}`.execute(trx)
    return rows
  })
}

/**
 * Returns the parts of the export of a chain up to `head`, which was read before. Leaves out entries that are appended
 * meanwhile, so the export ends at its checkpoint. If entries are missing in the database, the export goes on with the
 * next entry. The check of the export then names the first missing entry. `read` is called once for each page, after
 * the reader has taken the page before.
 */
export function exportInParts(
  read: (after: number, last: number) => Promise<readonly ExportedEntry[]>,
  { head }: Pick<ChainEnd, 'head'>,
  lastLine: LastLine,
): JsonParts {
  return new JsonParts(async function* () {
    for (let after = 0; after < head.seq;) {
      const entries = await read(after, head.seq)
      const last = entries.at(-1)
      if (last === undefined) break
      yield entries.map((entry) => `${lineOf(entry)}\n`).join('')
      after = last.seq
    }
    yield `${JSON.stringify(lastLine)}\n`
  })
}

/** A process sends at most this many exports of an organization at the same time. */
const mostExports = 2
const retrySeconds = 10

/** Counts the exports that this process sends. */
export class ExportPlaces {
  readonly #taken = new Map<string, number>()

  /** Takes a place, and returns a function that gives the place back. Throws `rate_limited` if no place is free. */
  take(organizationId: string): () => void {
    const taken = this.#taken.get(organizationId) ?? 0
    if (taken >= mostExports)
      throw new DomainError(
        'rate_limited',
        `${mostExports} exports of this audit log are being sent already: wait until one has ended`,
        [],
        retrySeconds,
      )
    this.#taken.set(organizationId, taken + 1)
    return () => {
      const left = (this.#taken.get(organizationId) ?? 1) - 1
      if (left === 0) this.#taken.delete(organizationId)
      else this.#taken.set(organizationId, left)
    }
  }
}
