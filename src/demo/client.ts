import { setTimeout as delay } from 'node:timers/promises'

/* A small client of the public HTTP API: JSON with an API key. */

export type Person = 'owner' | 'admin' | 'approver' | 'member' | 'viewer'

/** The part of `DATA_DIR/bootstrap.json` that the demo reads. */
export interface Bootstrap {
  readonly base_url: string
  readonly organization_id: string
  readonly users: Readonly<Record<Person, Record<'user_id' | 'email' | 'password' | 'api_key', string>>>
}

interface Answer<T> {
  readonly status: number
  readonly body: T
  /** null if the request succeeded. */
  readonly error: {
    readonly code: string
    readonly message: string
    readonly details: readonly { readonly path: string; readonly message: string }[]
  } | null
}

export interface Client {
  /** Returns the answer, even if it is an error. */
  ask<T>(as: Person, method: string, path: string, body?: unknown): Promise<Answer<T>>
  /** Returns only the body. Throws if the answer is an error. */
  get<T>(as: Person, method: string, path: string, body?: unknown): Promise<T>
}

export function createClient(bootstrap: Bootstrap): Client {
  const ask = async <T>(as: Person, method: string, path: string, body?: unknown): Promise<Answer<T>> => {
    const response = await fetch(`${bootstrap.base_url}/api/v1${path}`, {
      method,
      headers: {
        authorization: `Bearer ${bootstrap.users[as].api_key}`,
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(60_000),
    })
    const text = await response.text()
    const parsed = (text === '' ? null : JSON.parse(text)) as T & { error?: Answer<T>['error'] }
    return { status: response.status, body: parsed, error: parsed?.error ?? null }
  }
  return {
    ask,
    get: async <T>(as: Person, method: string, path: string, body?: unknown): Promise<T> => {
      const answer = await ask<T>(as, method, path, body)
      if (answer.status < 300) return answer.body
      throw new Error(`${method} ${path} as ${as}: ${answer.status} ${answer.error?.message ?? ''}`)
    },
  }
}

/** Milliseconds. Temporal notices after 10 seconds that a worker died, and a busy machine starts slowly. */
const patience = 180_000

/** Reads again until `holds`. Throws the last value after `milliseconds` (default: three minutes). */
export async function until<T>(
  what: string,
  read: () => Promise<T>,
  holds: (value: T) => boolean,
  milliseconds = patience,
): Promise<T> {
  const deadline = Date.now() + milliseconds
  for (;;) {
    const value = await read()
    if (holds(value)) return value
    if (Date.now() > deadline)
      throw new Error(
        `waited ${milliseconds / 60_000} minutes for ${what}, and it is still\n${JSON.stringify(value, null, 2)}`,
      )
    await delay(milliseconds > patience ? 1_000 : 100)
  }
}

/** The fields of a run that a show reads while it follows the run. */
export interface Followed {
  readonly status: string
  readonly status_reason: string
  readonly waiting_for: readonly { readonly approval_id: string | null; readonly step_id: string | null }[]
}

const ended = new Set(['completed', 'failed', 'denied', 'rejected', 'expired', 'cancelled'])

/** Reads a run until it has ended. Calls `decide` once for each approval that it waits for. */
export async function followRun<Run extends Followed>(
  read: () => Promise<Run>,
  decide: (waiting: Run['waiting_for'][number], run: Run) => Promise<void>,
): Promise<Run> {
  const seen = new Set<string | null>()
  const isNew = ({ approval_id }: Followed['waiting_for'][number]) => !seen.has(approval_id)
  for (;;) {
    const run = await until(
      'the run to end or to be held',
      read,
      ({ status, waiting_for }) => ended.has(status) || waiting_for.some(isNew),
    )
    if (ended.has(run.status)) return run
    for (const waiting of run.waiting_for.filter(isNew)) {
      seen.add(waiting.approval_id)
      await decide(waiting, run)
    }
  }
}
