import pg from 'pg'
import { notFound } from '../errors.ts'
import { chainStart, type ChainPosition } from './entry.ts'
import type { Expected, Kept } from './end-problems.ts'
import { entrySigner, keyIdOfMac, type SignEntry } from './entry-macs.ts'
import { openDataKeys } from '../sealing/keyring.ts'
import { ChainChecker, type CheckCode, type Mismatch, type StoredHead } from './verify-entry.ts'

export interface VerifyRequest {
  readonly databaseUrl: string
  readonly appRole: string
  readonly organizationId: string
  /** They open the data keys from which the codes of entries come. */
  readonly encryptionKeys: readonly Uint8Array[]
  /** Read before this request was made. */
  readonly expected?: Expected
}

export interface Verification {
  readonly valid: boolean
  /** Valid entries before the first mismatch, or all. */
  readonly entries: number
  /** From `chain_head`, in the same snapshot as the entries. */
  readonly head: { readonly seq: number; readonly hash: string }
  readonly first_mismatch: Mismatch | null
  readonly duration_ms: number
}

/**
 * Verifies a chain and who wrote its entries, and compares it with `expected`. Reads from one snapshot, in constant
 * memory. Throws `not_found`. The caller must close the connection: the transaction stays open, and after a mismatch
 * the query still runs.
 */
export async function verifyOver(
  client: pg.ClientBase,
  {
    organizationId,
    encryptionKeys,
    expected,
  }: Pick<VerifyRequest, 'organizationId' | 'encryptionKeys' | 'expected'>,
): Promise<Verification> {
  const { kept, known } = expected ?? { kept: null, known: [] }
  const started = performance.now()
  await client.query('begin isolation level repeatable read read only')
  const head = await readHead(client, organizationId)
  const checker = new ChainChecker(organizationId, await codesOf(client, organizationId, encryptionKeys))
  const wrong = (await firstMismatch(client, organizationId, checker)) ?? checker.end(head)
  const beside =
    wrong === null && head !== null
      ? ((kept === null ? null : await againstKept(client, organizationId, kept, head)) ??
        (await againstKnown(client, organizationId, known, head)))
      : null
  const mismatch = wrong ?? beside
  return {
    valid: mismatch === null,
    // If `beside` says that entry 5 differs from the kept checkpoint, at most 4 entries are valid.
    entries: beside === null ? checker.entries : Math.min(checker.entries, Math.max(beside.seq - 1, 0)),
    head: { seq: head?.seq ?? chainStart.seq, hash: head?.hash ?? chainStart.hash },
    first_mismatch: mismatch,
    duration_ms: Math.round(performance.now() - started),
  }
}

/** For a chain without another mismatch. */
async function againstKept(
  client: pg.ClientBase,
  organizationId: string,
  kept: Kept,
  head: StoredHead,
): Promise<Mismatch | null> {
  if ('problem' in kept)
    return differs(head.seq, null, 'a kept checkpoint that this service has signed', kept.problem)
  if (kept.seq > head.seq)
    return differs(head.seq + 1, null, `${kept.seq} entries, by the kept checkpoint`, `${head.seq} entries`)
  return entryDiffers(client, organizationId, kept)
}

async function againstKnown(
  client: pg.ClientBase,
  organizationId: string,
  known: readonly ChainPosition[],
  head: StoredHead,
): Promise<Mismatch | null> {
  const last = known.at(-1)
  if (last !== undefined && last.seq > head.seq)
    return differs(
      head.seq + 1,
      null,
      `${last.seq} entries, which this process has committed or signed`,
      `${head.seq} entries`,
    )
  for (const each of known) {
    const mismatch = await entryDiffers(client, organizationId, each)
    if (mismatch !== null) return mismatch
  }
  return null
}

function differs(seq: number, id: string | null, expected: string, found: string): Mismatch {
  return { seq, id, reason: 'checkpoint', expected, found }
}

async function entryDiffers(
  client: pg.ClientBase,
  organizationId: string,
  { seq, hash }: ChainPosition,
): Promise<Mismatch | null> {
  if (seq === 0) return null
  const { rows } = await client.query<{ id: string; hash: string }>(
    'select id, hash from audit_events where organization_id = $1 and seq = $2',
    [organizationId, seq],
  )
  const entry = rows[0]
  return entry?.hash === hash ? null : differs(seq, entry?.id ?? null, hash, entry?.hash ?? 'no entry')
}

async function firstMismatch(
  client: pg.ClientBase,
  organizationId: string,
  checker: ChainChecker,
): Promise<Mismatch | null> {
  await readInOrder(client)
  return new Promise((resolve, reject) => {
    const stored = streamEntries(organizationId)
    let mismatch: Mismatch | null = null
    stored.on('row', (row: readonly [canonical: string, hash: string, mac: string | null]) => {
      if (mismatch !== null) return
      mismatch = checker.next({ canonical: row[0], hash: row[1] }, row[2])
      if (mismatch !== null) resolve(mismatch)
    })
    stored.on('end', () => resolve(mismatch))
    stored.on('error', reject)
    client.query(stored)
  })
}

/** An index scan sends its first rows at once and buffers nothing. A sort would buffer the whole chain. */
async function readInOrder(client: pg.ClientBase): Promise<void> {
  for (const way of ['enable_sort', 'enable_seqscan', 'enable_bitmapscan', 'jit'])
    await client.query(`set local ${way} = off`)
}

/** While a row is checked, TCP backpressure makes the server wait. */
function streamEntries(organizationId: string): pg.Query {
  const config: pg.QueryArrayConfig = {
    rowMode: 'array',
    text: 'select canonical, hash, mac from audit_events where organization_id = $1 order by seq',
    values: [organizationId],
  }
  return new pg.Query(config)
}

/** Reads the data keys from the same snapshot. */
async function codesOf(
  client: pg.ClientBase,
  organizationId: string,
  encryptionKeys: VerifyRequest['encryptionKeys'],
): Promise<CheckCode> {
  const { rows } = await client.query<{ id: string; wrapped: Buffer }>('select id, wrapped from data_keys')
  const keys = openDataKeys(encryptionKeys, rows)
  const signers = new Map<string | null, SignEntry>(
    keys.map((key) => [key.id, entrySigner(key, organizationId)]),
  )
  return (entry, mac) => mac !== null && signers.get(keyIdOfMac(mac))?.(entry) === mac
}

/** null if the organization has no head. Throws `not_found`. */
async function readHead(client: pg.ClientBase, organizationId: string): Promise<StoredHead | null> {
  const { rows } = await client.query<{
    seq: string | null
    hash: string
    mac: string | null
    policy_version: string
  }>(
    `select seq, hash, mac, policy_version
     from organizations left join chain_head on organization_id = id where id = $1`,
    [organizationId],
  )
  const head = rows[0]
  if (head === undefined) throw notFound('organization', organizationId)
  if (head.seq === null) return null
  return {
    seq: Number(head.seq),
    hash: head.hash,
    mac: head.mac,
    policy_version: Number(head.policy_version),
  }
}
