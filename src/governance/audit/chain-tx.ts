import type { EngineMessage, Wake } from '../../contract/messages.ts'
import type { AuditEventType } from '../../contract/audit-events.ts'
import { newId } from '../../contract/ids.ts'
import type { EventData, WebhookEvent } from '../../contract/webhook-events.ts'
import { sql, type RawBuilder, type Transaction, type Insertable } from 'kysely'
import {
  insertWebhookEvents,
  insertRunEvents,
  insertMessages,
  appendEntries,
} from '../../db/queries/audit.ts'
import type { GrantedRun } from '../../db/queries/runs.ts'
import type { PipelinedTransaction, Statement } from '../../db/connect.ts'
import type { Database } from '../../db/schema/index.ts'
import type { NoticeKind, NoticesTable } from '../../db/schema/notifications.ts'
import { sealEntry, type AuditDraft, type ChainPosition, type EntryDraft, type SealedEntry } from './entry.ts'
import type { SignEntry } from './entry-macs.ts'
import type { LoadedPolicy } from './policy-cache.ts'

export interface HeadRow extends ChainPosition {
  /** The code of the newest entry. The transaction builds on no other head (lane-transactions.ts). */
  readonly mac: string | null
  readonly policy_version: number
  readonly frozen: string | null
  /** The database's clock, read under the lock. Every expiry is compared with it. */
  readonly now: Date
  readonly stored_bytes: number
  readonly pending_approvals: number
}

/** What an entry takes beside its text: hash, other columns and indexes (`recount_storage`). */
const entryBytes = 192

/** Sends reads of a transaction that may not have the lock yet: PostgreSQL runs them after the lock is taken. */
export interface ChainReader {
  readonly organizationId: string
  send<T>(read: Statement<T>): Promise<readonly T[]>
}

/** Holds the lock on a chain's head. Collects entries, events and messages, which `flush` writes with one statement. */
export class ChainTx implements ChainReader {
  readonly trx: Transaction<Database>
  readonly organizationId: string
  #policy: LoadedPolicy
  readonly now: Date
  /** Approvals and runs that have changed. After the commit, requests that wait for them are woken. */
  readonly touched = new Set<string>()
  /** The runs that got a slot here, for the log. */
  readonly granted: GrantedRun[] = []
  /** If so, it is sent right after the commit. */
  outboxWritten = false
  /** If so, other processes are told sooner than usual (notifier.ts). */
  runEnded = false
  /** If so, later operations wait for the next transaction. */
  isPolicyChanged = false
  readonly #pipe: PipelinedTransaction
  /** For the log and the metrics. */
  readonly drafts: EntryDraft[] = []
  readonly #sign: SignEntry
  readonly #entries: (SealedEntry & { readonly mac: string })[] = []
  readonly base: ChainPosition
  #position: ChainPosition
  #policyVersion: number
  readonly #before: { readonly bytes: number; readonly pending: number }
  /** Bytes that this transaction writes and that no trigger counts. `flush` adds them to the counter. */
  #stored = 0
  /** Bytes that a trigger will count. The counter in `#before` does not have them yet. */
  #expected = 0
  #expectedApprovals = 0
  readonly #events = new Map<string, { type: string; data: Record<string, unknown> }[]>()
  readonly #outbox: EngineMessage[] = []
  readonly #notices = new Map<string, Pick<NoticesTable, 'kind' | 'subject' | 'due_at'>>()
  readonly #published: Insertable<Database['webhook_events']>[] = []

  constructor(
    pipe: PipelinedTransaction,
    organizationId: string,
    head: HeadRow,
    policy: LoadedPolicy,
    sign: SignEntry,
  ) {
    this.#pipe = pipe
    this.#sign = sign
    this.trx = pipe.db
    this.organizationId = organizationId
    this.#policy = policy
    this.now = head.now
    this.base = { seq: head.seq, hash: head.hash }
    this.#position = this.base
    this.#policyVersion = head.policy_version
    this.#before = { bytes: head.stored_bytes, pending: head.pending_approvals }
  }

  get policy(): LoadedPolicy {
    return this.#policy
  }

  /** Ids of groups by their names, which this transaction has made: its later changes may name them. */
  makes(groups: readonly (readonly [string, string])[]): void {
    this.#policy = { ...this.#policy, groups: new Map([...this.#policy.groups, ...groups]) }
  }

  /** Includes what this transaction has added so far. */
  get storedBytes(): number {
    return this.#before.bytes + this.#stored + this.#expected
  }

  get pendingApprovals(): number {
    return this.#before.pending + this.#expectedApprovals
  }

  /** Adds the bytes of decisions and agents' sessions, which no trigger counts (`recount_storage`). */
  stores(bytes: number): void {
    this.#stored += bytes
  }

  /** Adds what a trigger will count, so that later operations of this transaction see it in their limits. */
  expects(added: { readonly bytes?: number; readonly approvals?: number }): void {
    this.#expected += added.bytes ?? 0
    this.#expectedApprovals += added.approvals ?? 0
  }

  /** A failed statement makes the commit fail, so a statement that only writes need not be awaited. */
  send<T>(statement: Statement<T>): Promise<readonly T[]> {
    return this.#pipe.send(statement)
  }

  get head(): ChainPosition {
    return this.#position
  }

  get entries(): number {
    return this.#entries.length
  }

  /** Every operation that changes something appends at least one entry. */
  append<const T extends AuditEventType>(draft: AuditDraft<T>): void {
    const written = { status: 'success', ...draft } as EntryDraft
    const entry = sealEntry(this.organizationId, this.#position, this.#policyVersion, this.now, written)
    this.#position = { seq: entry.seq, hash: entry.hash }
    this.#entries.push({ canonical: entry.canonical, hash: entry.hash, mac: this.#sign(this.#position) })
    this.drafts.push(written)
    this.#stored += Buffer.byteLength(entry.canonical) + entryBytes
  }

  /** Call this after a rule, policy or setting was saved, and before `append`. */
  policyChanged(): void {
    this.#policyVersion += 1
    this.isPolicyChanged = true
  }

  event(runId: string, type: string, data: Record<string, unknown> = {}): void {
    const events = this.#events.get(runId)
    if (events === undefined) this.#events.set(runId, [{ type, data }])
    else events.push({ type, data })
    this.touched.add(runId)
  }

  /** Stores a message for Temporal. It is sent right after the commit, until it is delivered. */
  deliver(kind: EngineMessage['kind'], runId: string, payload: Wake = {}): void {
    this.#outbox.push({ kind, run_id: runId, payload })
    this.outboxWritten = true
  }

  /** A change that may cause messages. `subject` is an approval, a run, a person or a call (`RUN/STEP/ITEM`). */
  notice(kind: NoticeKind, subject: string, dueAt: Date | null = null): void {
    this.#notices.set(`${subject} ${dueAt?.getTime()}`, { kind, subject, due_at: dueAt })
  }

  /** After the commit, by default to all that subscribe. Returns the message's id; null without a webhook. */
  publish(
    type: WebhookEvent,
    data: EventData,
    webhookIds = this.policy.webhooks.filter(({ events }) => events.includes(type)).map(({ id }) => id),
  ): string | null {
    if (webhookIds.length === 0) return null
    const { organizationId: organization_id, now: created_at } = this
    const id = newId('message')
    this.#published.push({
      id,
      organization_id,
      type,
      data: JSON.stringify(data),
      webhook_ids: webhookIds,
      created_at,
    })
    return id
  }

  /** The combiner calls this once, before the commit. Throws if something was changed without an audit entry. */
  flush(): void {
    if (this.#entries.length === 0) {
      const others = [this.#events.size, this.#outbox.length, this.#notices.size, this.#published.length]
      if (others.some((count) => count > 0)) throw new Error('a change has no audit entry')
      return
    }
    const parts: RawBuilder<unknown>[] = [appendEntries(this.#entries)]
    if (this.#events.size > 0) parts.push(...this.#eventParts())
    if (this.#outbox.length > 0) parts.push(insertMessages(this.#outbox))
    if (this.#notices.size > 0)
      parts.push(sql`noticed as (
        insert into notices (organization_id, kind, subject, due_at)
        select ${this.organizationId}, * from json_to_recordset(${JSON.stringify([...this.#notices.values()])}::json)
          as n(kind text, subject text, due_at timestamptz)
      )`)
    if (this.#published.length > 0) parts.push(insertWebhookEvents(this.#published))
    void this.send(sql`
      with ${sql.join(parts)} update chain_head
      set seq = ${this.#position.seq}, hash = ${this.#position.hash}, mac = ${this.#entries.at(-1)?.mac},
          policy_version = ${this.#policyVersion},
          stored_bytes = stored_bytes + ${this.#stored}
      where organization_id = ${this.organizationId}`)
  }

  /** Advances each run's event counter, and inserts its events in order. */
  #eventParts(): RawBuilder<unknown>[] {
    const rows = [...this.#events].flatMap(([runId, events]) =>
      events.map((event, index) => ({ runId, position: index + 1, ...event })),
    )
    return [
      sql`counts as (
        select * from unnest(${[...this.#events.keys()]}::text[],
                             ${[...this.#events.values()].map((events) => events.length)}::int[]) as c(run_id, n)
      )`,
      sql`moved as (
        update runs set event_seq = event_seq + n from counts where id = run_id
        returning id, event_seq - n as base
      )`,
      insertRunEvents(this.now, rows),
    ]
  }
}
