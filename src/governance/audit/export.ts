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

/** An entry takes about 700 bytes. */
const entriesInPage = 250

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
 * The export of a chain up to `head`, which was read before: later entries are left out, so it ends at its checkpoint.
 * Goes on behind missing entries, and the check of the export names the first of them. `read` is called for each page,
 * after the reader has taken the page before.
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

/** By one process, for an organization. */
const mostExports = 2

export class ExportPlaces {
  readonly #taken = new Map<string, number>()

  /** Returns a function that gives the place back. Throws `rate_limited` if none is free. */
  take(organizationId: string): () => void {
    const taken = this.#taken.get(organizationId) ?? 0
    if (taken >= mostExports)
      throw new DomainError(
        'rate_limited',
        `${mostExports} exports of this audit log are being sent already: wait until one has ended`,
        [],
        10,
      )
    this.#taken.set(organizationId, taken + 1)
    return () => {
      const left = (this.#taken.get(organizationId) ?? 1) - 1
      if (left === 0) this.#taken.delete(organizationId)
      else this.#taken.set(organizationId, left)
    }
  }
}
