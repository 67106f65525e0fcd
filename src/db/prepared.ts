import { createHash } from 'node:crypto'
import type { Socket } from 'node:net'
import type pg from 'pg'

/**
 * A SQL text that was seen more than this many times becomes a named statement. On each connection, PostgreSQL parses a
 * named statement only once.
 */
const seenBefore = 2
/**
 * Maximum number of named statements. Without a limit, SQL texts with lists of changing length would get more and more
 * names.
 */
const maxNames = 300
/**
 * The maximum length of a named statement, in characters. A longer SQL text contains a long list. The next list
 * probably has another length, so the same SQL text rarely comes again.
 */
const longestText = 16_000

/**
 * Returns a pool for Kysely that prepares repeated statements. If a pooler does not support prepared statements, set
 * DATABASE_PREPARED_STATEMENTS=false. Example: PgBouncer before version 1.21 in transaction mode.
 */
export function preparing(pool: pg.Pool, options: { prepare?: boolean } = {}): PreparingPool {
  const names = new Map<string, string>()
  const counts = new Map<string, number>()
  const nameOf = (text: string): string | undefined => {
    if (options.prepare === false) return undefined
    if (text.length > longestText) return undefined
    const known = names.get(text)
    if (known !== undefined || names.size >= maxNames || counts.size > 10 * maxNames) return known
    const count = (counts.get(text) ?? 0) + 1
    counts.set(text, count)
    if (count <= seenBefore) return undefined
    counts.delete(text)
    const name = `cs_${createHash('sha256').update(text).digest('hex').slice(0, 32)}`
    names.set(text, name)
    return name
  }
  const wrapped = new WeakMap<pg.PoolClient, PreparingClient>()
  return {
    options: pool.options,
    end: () => pool.end(),
    async connect() {
      const client = await pool.connect()
      let known = wrapped.get(client)
      if (known === undefined) wrapped.set(client, (known = new PreparingClient(client, nameOf)))
      return known
    },
  }
}

export interface PreparingPool {
  readonly options: object
  end(): Promise<void>
  connect(): Promise<PreparingClient>
}

/** The part of a client that Kysely's dialect uses. */
export class PreparingClient {
  readonly #client: pg.PoolClient
  readonly #nameOf: (text: string) => string | undefined
  #isStale = false

  constructor(client: pg.PoolClient, nameOf: (text: string) => string | undefined) {
    this.#client = client
    this.#nameOf = nameOf
  }

  async query(text: string, values: readonly unknown[] = []): Promise<pg.QueryResult> {
    const name = values.length === 0 ? undefined : this.#nameOf(text)
    try {
      return await this.#client.query({ text, values: [...values], ...(name === undefined ? {} : { name }) })
    } catch (error) {
      // A migration changed the result columns of a prepared statement, so this connection must not be used again.
      if (name !== undefined && (error as { code?: unknown }).code === '0A000') this.#isStale = true
      throw error
    }
  }

  /**
   * Collects the statements that are sent in this turn of the event loop, and writes them to the socket together. This
   * saves system calls.
   */
  gather(): void {
    const { stream } = (this.#client as unknown as { connection: { stream: Socket } }).connection
    if (stream.writableCorked > 0) return
    stream.cork()
    process.nextTick(() => stream.uncork())
  }

  release(error?: Error | boolean): void {
    this.#client.release(this.#isStale ? true : error)
  }
}
