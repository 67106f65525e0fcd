import type pg from 'pg'
import { notFound } from './errors.ts'
import { ChainChecker, type Mismatch, type StoredEntry, type StoredHead } from './verify-entry.ts'

/** Answer of the verify operation (contract section 8). */
export interface Verification {
  readonly valid: boolean
  /** Entries that hold, counted from the first; all of them when the chain is valid. */
  readonly entries: number
  /** Where the chain ends by its head row, as of the snapshot that was verified. */
  readonly head: { readonly seq: number; readonly hash: string }
  readonly first_mismatch: Mismatch | null
  readonly duration_ms: number
}

/** Entries held in memory at a time: two pages. */
const pageSize = 1_000

/**
 * Verifies an organization's chain over this connection, in one read-only snapshot, so that entries appended
 * meanwhile do not show. Memory does not grow with the chain. Fails with `not_found` for an unknown organization.
 */
export async function verifyOver(client: pg.ClientBase, organizationId: string): Promise<Verification> {
  const started = performance.now()
  await client.query('begin isolation level repeatable read read only')
  try {
    const head = await readHead(client, organizationId)
    const checker = new ChainChecker(organizationId)
    const mismatch = (await firstMismatch(client, organizationId, checker)) ?? checker.end(head)
    return {
      valid: mismatch === null,
      entries: checker.entries,
      head: { seq: head.seq, hash: head.hash },
      first_mismatch: mismatch,
      duration_ms: Math.round(performance.now() - started),
    }
  } finally {
    await client.query('rollback')
  }
}

async function firstMismatch(
  client: pg.ClientBase,
  organizationId: string,
  checker: ChainChecker,
): Promise<Mismatch | null> {
  for await (const page of readPages(client, organizationId)) {
    for (const entry of page) {
      const mismatch = checker.next(entry)
      if (mismatch !== null) return mismatch
    }
  }
  return null
}

/** Stored entries in order of `seq`; the next page is on its way while one is looked at. */
export async function* readPages(
  client: pg.ClientBase,
  organizationId: string,
): AsyncGenerator<StoredEntry[]> {
  const read = async (after: number): Promise<StoredEntry[]> =>
    (
      await client.query<StoredEntry>({
        name: 'verify-page',
        text: `select seq, canonical, hash from audit_events
               where organization_id = $1 and seq > $2 order by seq limit ${pageSize}`,
        values: [organizationId, after],
      })
    ).rows
  // From below zero: an entry that was put before the first one shows, too.
  let page = await read(Number.MIN_SAFE_INTEGER)
  while (page.length > 0) {
    const following = read((page.at(-1) as StoredEntry).seq)
    // Whoever stops early never looks at it; its failure is not lost, since the next query fails the same way.
    following.catch(() => undefined)
    yield page
    page = await following
  }
}

async function readHead(client: pg.ClientBase, organizationId: string): Promise<StoredHead> {
  const { rows } = await client.query<StoredHead>(
    'select seq, hash, policy_version from chain_head where organization_id = $1',
    [organizationId],
  )
  if (rows[0] === undefined) throw notFound('organization', organizationId)
  return rows[0]
}
