import { randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { RunStatus } from '../../src/contract/status.ts'
import { patience } from '../stack/until.ts'
import type { Approval, Execution, Receipt, Rule, Run, Verified } from './client-types.ts'

/*
 * A small HTTP client for end-to-end tests. It acts as the people of bootstrap.json. Before every request it reads the
 * service's address again, because a restarted stack may listen on another port. If a crash interrupts a request,
 * `call` repeats the request with the same `Idempotency-Key`, as a careful client does. `call` does not judge answers:
 * it returns a refusal like a success.
 */

export type Person = 'owner' | 'admin' | 'approver' | 'member' | 'viewer'

export interface Bootstrap {
  readonly base_url: string
  readonly database_url: string
  readonly database_admin_url: string
  readonly temporal_address: string
  readonly organization_id: string
  readonly users: Readonly<
    Record<Person, { user_id: string; email: string; password: string; api_key: string }>
  >
}

export interface Answer<T = unknown> {
  readonly status: number
  readonly body: T
  /** The code of the error. Is null for a success. */
  readonly code: string | null
  readonly headers: Headers
}

export interface CallOptions {
  /**
   * The `Idempotency-Key` of the request. By default, each POST gets a new key, so that the POST can be repeated
   * safely.
   */
  readonly key?: string
  readonly signal?: AbortSignal
}

/** Milliseconds between two polls. */
const pause = 100

export class Api {
  readonly #dataDir: string
  readonly #apiKey: string | null
  readonly person: Person

  /** `apiKey` replaces the person's own API key. It is needed for organizations that are not in bootstrap.json. */
  constructor(dataDir: string, person: Person, apiKey: string | null = null) {
    this.#dataDir = dataDir
    this.#apiKey = apiKey
    this.person = person
  }

  get bootstrap(): Bootstrap {
    return JSON.parse(readFileSync(join(this.#dataDir, 'bootstrap.json'), 'utf8')) as Bootstrap
  }

  /** Sends a request once. Throws if no answer comes. */
  async once<T>(method: string, path: string, body?: unknown, options: CallOptions = {}): Promise<Answer<T>> {
    const { base_url: base, users } = this.bootstrap
    const response = await fetch(`${base}/api/v1${path}`, {
      method,
      headers: {
        authorization: `Bearer ${this.#apiKey ?? users[this.person].api_key}`,
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...(options.key === undefined ? {} : { 'idempotency-key': options.key }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      signal: options.signal ?? AbortSignal.timeout(20_000),
    })
    const text = await response.text()
    const parsed = text === '' ? null : (JSON.parse(text) as T & { error?: { code: string } })
    return {
      status: response.status,
      body: parsed as T,
      code: parsed?.error?.code ?? null,
      headers: response.headers,
    }
  }

  /**
   * Sends a request. Sends it again with the same key while the service cannot be reached, answers 503, or is still
   * processing an earlier copy of the request. Throws an error if no other answer comes in time.
   */
  async call<T>(method: string, path: string, body?: unknown, options: CallOptions = {}): Promise<Answer<T>> {
    const key = options.key ?? (method === 'POST' ? randomUUID() : undefined)
    const deadline = Date.now() + patience
    for (;;) {
      let outage: unknown
      try {
        const answer = await this.once<T>(method, path, body, {
          ...options,
          ...(key === undefined ? {} : { key }),
        })
        if (answer.status !== 503 && answer.code !== 'idempotency_in_progress') return answer
        outage = answer.body
      } catch (error) {
        outage = error
      }
      if (Date.now() > deadline) throw new Error(`${method} ${path} was never answered`, { cause: outage })
      await delay(pause)
    }
  }

  /** Returns the body of a success. Any other answer fails the test, and the message shows the whole answer. */
  async good<T>(method: string, path: string, body?: unknown, options: CallOptions = {}): Promise<T> {
    const answer = await this.call<T>(method, path, body, options)
    if (answer.status < 300) return answer.body
    throw new Error(`${method} ${path} as ${this.person}: ${answer.status} ${JSON.stringify(answer.body)}`)
  }

  get #organization(): string {
    return `/organizations/${this.bootstrap.organization_id}`
  }

  settings(change: Record<string, unknown>): Promise<unknown> {
    return this.good('PATCH', `${this.#organization}/governance`, change)
  }
  createRule(rule: Record<string, unknown>): Promise<Rule> {
    return this.good('POST', `${this.#organization}/rules`, rule)
  }
  deleteRule(id: string): Promise<unknown> {
    return this.good('DELETE', `${this.#organization}/rules/${id}`)
  }
  async createWorkflow(name: string, definition: unknown): Promise<string> {
    return (await this.good<{ id: string }>('POST', '/workflows', { name, definition })).id
  }
  /** Starts a run without waiting for its end. */
  async execute(workflowId: string, inputs: unknown, options: CallOptions = {}): Promise<string> {
    const path = `/workflows/${workflowId}/execute?wait=0`
    return (await this.good<Execution>('POST', path, { inputs }, options)).execution_id
  }
  run(id: string): Promise<Run> {
    return this.good('GET', `/runs/${id}`)
  }
  cancel(id: string, options: CallOptions = {}): Promise<Answer<Run>> {
    return this.call('POST', `/runs/${id}/cancel`, {}, options)
  }
  resolve(
    runId: string,
    step: string,
    outcome: 'retry' | 'done' | 'fail',
    options: CallOptions = {},
  ): Promise<Answer<Run>> {
    return this.call('POST', `/runs/${runId}/steps/${step}/resolve`, { outcome }, options)
  }
  approval(id: string): Promise<Approval> {
    return this.good('GET', `/approvals/${id}`)
  }
  async pending(runId: string): Promise<Approval[]> {
    return (await this.good<{ data: Approval[] }>('GET', `/approvals?status=pending&run_id=${runId}`)).data
  }
  decide(
    approvalId: string,
    decision: 'approve' | 'reject',
    options: CallOptions = {},
  ): Promise<Answer<Approval>> {
    return this.call('POST', `/approvals/${approvalId}/${decision}`, {}, options)
  }
  receipt(runId: string): Promise<Receipt> {
    return this.good('GET', `/runs/${runId}/authorization`)
  }
  verify(): Promise<Verified> {
    return this.good('GET', `${this.#organization}/audit-events/verify`)
  }

  /**
   * Waits until `holds` returns true for the run. If this takes too long, throws an error with the run's last state.
   */
  async untilRun(id: string, what: string, holds: (run: Run) => boolean): Promise<Run> {
    const deadline = Date.now() + patience
    for (;;) {
      const run = await this.run(id)
      if (holds(run)) return run
      if (Date.now() > deadline)
        throw new Error(`the run never became ${what}: ${JSON.stringify(run, null, 1)}`)
      await delay(pause)
    }
  }
  untilStatus(id: string, ...statuses: RunStatus[]): Promise<Run> {
    return this.untilRun(id, statuses.join(' or '), (run) => statuses.includes(run.status))
  }
  /** Waits until the run needs an approval. Returns the approval's id. */
  async untilHeld(runId: string, kind: 'run' | 'step'): Promise<string> {
    const held = (run: Run) => run.waiting_for.find((each) => (each.step_id === null) === (kind === 'run'))
    const run = await this.untilRun(runId, `held (${kind})`, (each) => held(each) !== undefined)
    return (held(run) as Run['waiting_for'][number]).approval_id ?? ''
  }
}
