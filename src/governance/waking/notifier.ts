import pg from 'pg'
import type { Config } from '../../shared/config.ts'
import type { Log } from '../../shared/log.ts'

/**
 * Wakes the subscribers that wait for a change of a run or an approval, in every process.
 *
 * After a commit, `touch` wakes the subscribers of this process at once. It wakes the subscribers of other processes
 * with NOTIFY. The ids are collected, and one statement sends all of them. The pause between two statements is at least
 * 20 ms. If a run has ended, the pause is only 4 ms, because a caller may wait for the end of the run. The statement is
 * not in the transaction of the change, because NOTIFY in that transaction would make all commits of the database wait
 * for each other. Notifications can be lost. So each process also reads the state of all awaited runs and approvals
 * once a second. A wake-up only means that the subscriber must read again.
 */
export interface Notifier {
  /**
   * Wakes all subscribers of these runs and approvals, in all processes. `hasEnded` is true if one of the runs has
   * ended. Never throws and never waits.
   */
  touch(runIds: ReadonlySet<string>, hasEnded?: boolean): void
  /**
   * Calls `wake` whenever the run or approval may have changed. Returns a function that ends the subscription.
   * Subscribe before you read the run or approval, so that you miss no change.
   */
  subscribe(runId: string, wake: () => void): () => void
  close(): Promise<void>
}

export interface NotifierOptions {
  readonly config: Pick<Config, 'database' | 'processId'>
  readonly pool: pg.Pool
  readonly log: Log
  readonly pollMilliseconds?: number
}

/** The shortest time between two NOTIFY statements, in milliseconds. `atEnd` applies if a run has ended. */
const betweenMilliseconds = { usually: 20, atEnd: 4 }
/** PostgreSQL accepts payloads below 8,000 bytes. Ids are ASCII, so each character is one byte. */
const payloadBytes = 7_500
/** If the ids need more payloads than this, `*` is sent instead of the ids, and every subscriber reads again. */
const mostPayloads = 8
const everything = '*'

export function createNotifier(options: NotifierOptions): Notifier {
  return new PostgresNotifier(options)
}

class PostgresNotifier implements Notifier {
  readonly #options: NotifierOptions
  readonly #subscribers = new Map<string, Set<() => void>>()
  /** The event counter of each run, and the status of each approval, in the last poll. */
  readonly #seen = new Map<string, string>()
  readonly #pending = new Set<string>()
  #flushTimer: NodeJS.Timeout | null = null
  #pollTimer: NodeJS.Timeout | null = null
  #polling = false
  #listener: Listener | null = null
  #closed = false
  #sending: Promise<void> = Promise.resolve()
  #sentAt = -Infinity

  constructor(options: NotifierOptions) {
    this.#options = options
  }

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
      // Sends the collected ids before stopping. Otherwise other processes would notice the changes only when they
      // poll.
      this.#flush()
    }
    await this.#sending
    await this.#listener?.close()
  }

  #start(): void {
    if (this.#closed) return
    this.#listener ??= openListener(this.#options, {
      onMessage: (payload) => this.#received(payload),
      onOpen: () => this.#wakeAll(),
    })
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
    // Iterates over a copy, because a woken subscriber may change the set.
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
      // The statement stores nothing, so its commit need not wait for the disk.
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

/**
 * Splits the ids into payloads `origin:id,id,...` that are short enough for NOTIFY. If this makes too many payloads,
 * returns only `origin:*`.
 */
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

/** The database connection on which this process receives notifications (LISTEN). */
export interface Listener {
  close(): Promise<void>
}

export interface ListenerOptions {
  readonly config: Pick<Config, 'database'>
  readonly log: Log
}

export interface ListenerEvents {
  onMessage(payload: string): void
  /**
   * Is called each time the connection opens. Notifications that were sent before the connection opened may be lost.
   */
  onOpen(): void
}

const notifyChannel = 'countersign_runs'

const firstDelay = 100
const longestDelay = 5_000

/**
 * Opens the connection, and opens it again whenever it is lost. The delay before each new attempt is 0.1 s at first,
 * doubles with each failure, and is at most 5 s. Never throws.
 */
function openListener(options: ListenerOptions, events: ListenerEvents): Listener {
  let closed = false
  let delay = firstDelay
  let timer: NodeJS.Timeout | null = null
  let client: pg.Client | null = null
  let opening: Promise<void> = Promise.resolve()

  const lost = (gone: pg.Client, reason: string): void => {
    if (closed || client !== gone) return
    client = null
    options.log.debug({ reason }, 'the listening connection was lost')
    gone.end().catch(() => {})
    timer = setTimeout(open, delay)
    timer.unref()
    delay = Math.min(delay * 2, longestDelay)
  }

  const connect = async (): Promise<void> => {
    const mine = new pg.Client({
      connectionString: options.config.database.url,
      options: `-c role=${options.config.database.appRole}`,
      application_name: 'countersign-listen',
      keepAlive: true,
      connectionTimeoutMillis: 5_000,
    })
    client = mine
    mine.on('error', (error) => lost(mine, error.message))
    mine.on('end', () => lost(mine, 'ended'))
    mine.on('notification', (message) => events.onMessage(message.payload ?? ''))
    try {
      await mine.connect()
      await mine.query(`listen ${notifyChannel}`)
      delay = firstDelay
      if (!closed) events.onOpen()
    } catch (error) {
      lost(mine, (error as Error).message)
    }
  }
  const open = (): void => {
    timer = null
    opening = connect()
  }

  open()
  return {
    async close() {
      closed = true
      if (timer !== null) clearTimeout(timer)
      await opening
      await client?.end().catch(() => {})
    },
  }
}
