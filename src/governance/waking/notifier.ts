import pg from 'pg'
import type { Config } from '../../shared/config.ts'
import type { Log } from '../../shared/log.ts'

export interface NotifierOptions {
  readonly config: Pick<Config, 'database' | 'processId'>
  readonly pool: pg.Pool
  readonly log: Log
  readonly pollMilliseconds?: number
}

/** Between two NOTIFY statements. `atEnd` if a run has ended. */
const betweenMilliseconds = { usually: 20, atEnd: 4 }
/** PostgreSQL accepts below 8,000 bytes. Ids are ASCII. */
const payloadBytes = 7_500
/** Beyond this, `*` is sent instead of the ids, and every subscriber reads again. */
const mostPayloads = 8
const everything = '*'

/**
 * Wakes those who wait for a change of a run or an approval: of this process at once after a commit, of others by
 * NOTIFY. One statement sends all collected ids, at least 20 ms after the last; 4 ms if a run has ended, because a
 * caller may wait for that. It is not in the transaction of the change, where NOTIFY would make all commits of the
 * database wait for each other.
 *
 * Notifications can be lost, so each process also reads what is awaited once a second. A wake-up only means to read
 * again.
 */
export class Notifier {
  readonly #options: NotifierOptions
  readonly #subscribers = new Map<string, Set<() => void>>()
  /** The event counter of each run and status of each approval in the last poll. */
  readonly #seen = new Map<string, string>()
  readonly #pending = new Set<string>()
  #flushTimer: NodeJS.Timeout | null = null
  #pollTimer: NodeJS.Timeout | null = null
  #polling = false
  #stopListening: (() => Promise<void>) | null = null
  #closed = false
  #sending: Promise<void> = Promise.resolve()
  #sentAt = -Infinity

  constructor(options: NotifierOptions) {
    this.#options = options
  }

  /** `hasEnded`: one of the runs has ended. Never throws and never waits. */
  touch(runIds: ReadonlySet<string>, hasEnded = false): void {
    if (this.#closed || runIds.size === 0) return
    for (const runId of runIds) {
      this.#pending.add(runId)
      this.#wake(runId)
    }
    if (this.#flushTimer !== null && !hasEnded) return
    if (this.#flushTimer !== null) clearTimeout(this.#flushTimer)
    const between = hasEnded ? betweenMilliseconds.atEnd : betweenMilliseconds.usually
    this.#flushTimer = setTimeout(
      () => this.#flush(),
      Math.max(0, this.#sentAt + between - performance.now()),
    )
  }

  /** Returns a function that ends the subscription. Subscribe before you read, so that you miss no change. */
  subscribe(runId: string, wake: () => void): () => void {
    const wakes = this.#subscribers.get(runId) ?? new Set()
    this.#subscribers.set(runId, wakes.add(wake))
    this.#start()
    return () => {
      wakes.delete(wake)
      if (wakes.size > 0 || this.#subscribers.get(runId) !== wakes) return
      this.#subscribers.delete(runId)
      this.#seen.delete(runId)
      if (this.#subscribers.size === 0) this.#stopPolling()
    }
  }

  async close(): Promise<void> {
    this.#closed = true
    this.#stopPolling()
    if (this.#flushTimer !== null) {
      clearTimeout(this.#flushTimer)
      // Otherwise others would notice the changes only when they poll.
      this.#flush()
    }
    await this.#sending
    await this.#stopListening?.()
  }

  #start(): void {
    if (this.#closed) return
    this.#stopListening ??= listen(
      this.#options,
      (payload) => this.#received(payload),
      () => this.#wakeAll(),
    )
    this.#pollTimer ??= setInterval(() => void this.#poll(), this.#options.pollMilliseconds ?? 1_000).unref()
  }

  #stopPolling(): void {
    if (this.#pollTimer !== null) clearInterval(this.#pollTimer)
    this.#pollTimer = null
  }

  #received(payload: string): void {
    const [origin, ids = ''] = payload.split(':', 2)
    if (origin === this.#options.config.processId) return
    if (ids === everything) this.#wakeAll()
    else for (const runId of ids.split(',')) this.#wake(runId)
  }

  #wakeAll(): void {
    for (const runId of Array.from(this.#subscribers.keys())) this.#wake(runId)
  }

  #wake(runId: string): void {
    // A copy, because a woken subscriber may change the set.
    for (const wake of Array.from(this.#subscribers.get(runId) ?? [])) {
      try {
        wake()
      } catch (error) {
        this.#options.log.error({ err: error, run_id: runId }, 'a subscriber failed')
      }
    }
  }

  #flush(): void {
    this.#flushTimer = null
    this.#sentAt = performance.now()
    const before = this.#sending
    this.#sending = this.#send().then(() => before)
  }

  async #send(): Promise<void> {
    const payloads = payloadsOf(this.#options.config.processId, [...this.#pending])
    this.#pending.clear()
    try {
      // It stores nothing, so its commit need not wait for the disk.
      await this.#options.pool.query(
        `select pg_notify($1, payload), set_config('synchronous_commit', 'off', true) from unnest($2::text[]) as p(payload)`,
        [notifyChannel, payloads],
      )
    } catch (error) {
      this.#options.log.debug({ err: error }, 'a notification was not sent; polling covers it')
    }
  }

  async #poll(): Promise<void> {
    if (this.#polling || this.#subscribers.size === 0) return
    this.#polling = true
    try {
      const { rows } = await this.#options.pool.query<{ id: string; mark: string }>(
        `select id, event_seq::text as mark from runs where id = any($1::text[])
         union all select id, status from approvals where id = any($1::text[])`,
        [[...this.#subscribers.keys()]],
      )
      for (const { id, mark } of rows) {
        if (this.#seen.get(id) === mark || !this.#subscribers.has(id)) continue
        this.#seen.set(id, mark)
        this.#wake(id)
      }
    } catch (error) {
      this.#options.log.debug({ err: error }, 'the poll of waiting runs failed; it goes on')
    } finally {
      this.#polling = false
    }
  }
}

/** `origin:id,id,...`, or only `origin:*` if it were too many. */
export function payloadsOf(origin: string, runIds: readonly string[]): string[] {
  const payloads: string[] = []
  let current = ''
  for (const runId of runIds) {
    if (current !== '' && origin.length + current.length + runId.length + 2 > payloadBytes) {
      payloads.push(`${origin}:${current}`)
      current = ''
    }
    current = current === '' ? runId : `${current},${runId}`
  }
  if (current !== '') payloads.push(`${origin}:${current}`)
  return payloads.length > mostPayloads ? [`${origin}:${everything}`] : payloads
}

const notifyChannel = 'countersign_runs'

const firstDelay = 100

/**
 * Opens the connection for NOTIFY, again whenever it is lost: after 0.1 s, doubled with each failure, at most 5 s. What
 * was sent before `onOpen` may be lost. Never throws. Returns the function that closes the connection.
 */
function listen(
  { config, log }: NotifierOptions,
  onMessage: (payload: string) => void,
  onOpen: () => void,
): () => Promise<void> {
  let closed = false
  let delay = firstDelay
  let timer: NodeJS.Timeout | null = null
  let client: pg.Client | null = null
  let opening: Promise<void> = Promise.resolve()

  const lost = (gone: pg.Client, reason: string): void => {
    if (closed || client !== gone) return
    client = null
    log.debug({ reason }, 'the listening connection was lost')
    gone.end().catch(() => {})
    timer = setTimeout(open, delay)
    timer.unref()
    delay = Math.min(delay * 2, 5_000)
  }

  const connect = async (): Promise<void> => {
    const mine = new pg.Client({
      connectionString: config.database.url,
      options: `-c role=${config.database.appRole}`,
      application_name: 'countersign-listen',
      keepAlive: true,
      connectionTimeoutMillis: 5_000,
    })
    client = mine
    mine.on('error', (error) => lost(mine, error.message))
    mine.on('end', () => lost(mine, 'ended'))
    mine.on('notification', (message) => onMessage(message.payload ?? ''))
    try {
      await mine.connect()
      await mine.query(`listen ${notifyChannel}`)
      delay = firstDelay
      if (!closed) onOpen()
    } catch (error) {
      lost(mine, (error as Error).message)
    }
  }
  const open = (): void => {
    timer = null
    opening = connect()
  }

  open()
  return async () => {
    closed = true
    if (timer !== null) clearTimeout(timer)
    await opening
    await client?.end().catch(() => {})
  }
}
