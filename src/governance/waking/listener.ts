import pg from 'pg'
import type { Config } from '../../shared/config.ts'
import type { Log } from '../../shared/log.ts'

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

export const notifyChannel = 'countersign_runs'

const firstDelay = 100
const longestDelay = 5_000

/**
 * Opens the connection, and opens it again whenever it is lost. The delay before each new attempt is 0.1 s at first,
 * doubles with each failure, and is at most 5 s. Never throws.
 */
export function openListener(options: ListenerOptions, events: ListenerEvents): Listener {
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
