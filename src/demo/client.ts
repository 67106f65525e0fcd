import { setTimeout as delay } from 'node:timers/promises'

/* A small client of the public HTTP API. It sends JSON with `fetch` and an API key. */

export type Person = 'owner' | 'admin' | 'approver' | 'member' | 'viewer'

/** The part of `DATA_DIR/bootstrap.json` that the demo reads. */
export interface Bootstrap {
  readonly base_url: string
  readonly organization_id: string
  readonly users: Readonly<
    Record<
      Person,
      {
        readonly user_id: string
        readonly email: string
        readonly password: string
        readonly api_key: string
      }
    >
  >
}

export interface Answer<T> {
  readonly status: number
  /** The body of the answer, also if the answer is an error. */
  readonly body: T
  /** null if the request succeeded. */
  readonly error: {
    readonly code: string
    readonly message: string
    readonly details: readonly { readonly path: string; readonly message: string }[]
  } | null
}

export interface Client {
  /** Sends one request as this person. Returns the answer, even if the answer is an error. */
  ask<T>(as: Person, method: string, path: string, body?: unknown): Promise<Answer<T>>
  /** Sends one request as this person, and returns only the body of the answer. Throws if the answer is an error. */
  get<T>(as: Person, method: string, path: string, body?: unknown): Promise<T>
}

const answerTime = 60_000

export function createClient(bootstrap: Bootstrap): Client {
  const ask = async <T>(as: Person, method: string, path: string, body?: unknown): Promise<Answer<T>> => {
    const response = await fetch(`${bootstrap.base_url}/api/v1${path}`, {
      method,
      headers: {
        authorization: `Bearer ${bootstrap.users[as].api_key}`,
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(answerTime),
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

/**
 * The longest wait, in milliseconds. Temporal needs 10 seconds to notice that a worker died, and a busy machine needs
 * long to start another worker.
 */
const patience = 180_000

/**
 * Calls `read` again and again, and returns the first value for which `holds` returns true. If there is no such value
 * within `milliseconds` (default: three minutes), throws an error with the last value.
 */
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
