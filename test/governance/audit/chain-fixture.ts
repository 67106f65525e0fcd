import pg from 'pg'
import type { Db } from '../../../src/db/schema/index.ts'
import { createDatabase, createPool, createPipeline } from '../../../src/db/connect.ts'
import type { AuditDraft, EntryDraft } from '../../../src/governance/audit/entry.ts'
import type { ChainTx } from '../../../src/governance/audit/chain-tx.ts'
import {
  createCombiner,
  type BatchKind,
  type CombinerOptions,
} from '../../../src/governance/audit/combiner.ts'
import { createEntryMacs } from '../../../src/governance/audit/entry-macs.ts'
import { createKeyring } from '../../../src/governance/sealing/keyring.ts'
import { createLog } from '../../../src/shared/log.ts'
import { Verifier, type Verification } from '../../../src/governance/audit/verify.ts'

export const organizationId = 'org_01J00000000000000000000000'
export const other = 'org_01J00000000000000000000001'
export const userId = 'usr_01J00000000000000000000000'

/** An entry that contains `mark`, so that a test can compare a caller's answer with the caller's entry. */
export function marked(mark: string, metadata: EntryDraft['metadata'] = {}): AuditDraft {
  const draft: EntryDraft = {
    eventType: 'test.append',
    action: 'append',
    status: 'ok',
    actor: { type: 'user', id: userId },
    metadata: { ...metadata, mark },
  }
  return draft as AuditDraft
}

/** Appends one marked entry, and returns its `seq`. */
export const appendMarked: BatchKind<string, null, number> = {
  point: 'effect.decide',
  load: () => Promise.resolve(null),
  apply: (tx, _shared, mark) => appendTo(tx, mark),
  write: () => {},
}

export function appendTo(tx: ChainTx, mark: string): number {
  tx.append(marked(mark))
  return tx.head.seq
}

/** Runs `work` with one connection. */
export async function query<T>(url: string, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({ connectionString: url })
  client.on('error', () => undefined)
  await client.connect()
  try {
    return await work(client)
  } finally {
    await client.end()
  }
}

/** An organization with an empty chain and one owner. */
export function createOrganization(url: string, id = organizationId): Promise<unknown> {
  return query(url, async (client) => {
    await client.query('insert into organizations (id, name) values ($1, $1)', [id])
    await client.query('insert into chain_head (organization_id) values ($1)', [id])
    await client.query('insert into users (id, email) values ($1, $2) on conflict do nothing', [
      userId,
      'o@x.test',
    ])
  })
}

/** The encryption key of all processes, also of those that a test starts. */
export const key = Buffer.alloc(32, 7)
const log = createLog({ level: 'silent', process: 'test', processId: 'test', folder: null })

/** Makes and checks the codes of entries, as a process does. */
export const macsOf = (db: Db, installationKey = key) =>
  createEntryMacs(createKeyring({ db, installationKeys: [installationKey], log }))

/** A combiner with its own pool, as each process has one. */
export function openCombiner(url: string, options: Partial<CombinerOptions> = {}) {
  const pool = createPool({ url, max: 5 })
  const db = createDatabase(pool)
  const macs = macsOf(db)
  const combiner = createCombiner({ pipeline: createPipeline(pool), macs, onCommitted: () => {}, ...options })
  return { combiner, db, close: () => pool.end() }
}

/** Appends `count` entries in order. Their marks are `1`, `2`, and so on. */
export async function appendEntries(
  url: string,
  count: number,
  organization = organizationId,
): Promise<void> {
  const { combiner, close } = openCombiner(url)
  const marks = Array.from({ length: count }, (_, index) => String(index + 1))
  await Promise.all(marks.map((mark) => combiner.join(organization, appendMarked, mark)))
  await close()
}

export interface StoredRow {
  readonly seq: number
  readonly mark: string
  /** The id of the transaction that wrote the entry. */
  readonly xmin: string
}

export function storedRows(url: string, organization = organizationId): Promise<StoredRow[]> {
  return query(
    url,
    async (client) =>
      (
        await client.query<StoredRow>(
          `select seq, metadata ->> 'mark' as mark, xmin::text as xmin
           from audit_events where organization_id = $1 order by seq`,
          [organization],
        )
      ).rows,
  )
}

export const verifier = new Verifier()

export function verify(
  url: string,
  organization = organizationId,
  encryptionKeys: readonly Buffer[] = [key],
): Promise<Verification> {
  return verifier.verify({
    databaseUrl: url,
    appRole: 'countersign_app',
    organizationId: organization,
    encryptionKeys,
  })
}
