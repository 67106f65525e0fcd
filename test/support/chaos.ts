import { randomUUID } from 'node:crypto'
import { writeFileSync, existsSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import pg from 'pg'
import type { CommitPoint } from '../../src/governance/audit/commit-points.ts'
import { patience } from '../stack/until.ts'
import { Api } from './client.ts'
import { startMailSinkProcess, type MailSinkProcess } from './mail-sink-process.ts'
import { stackHome, startStack, type StartedStack } from './start-stack.ts'

/*
 * The crash tests share this file: the governed workflow, a stack with its mail sink, and a switch that kills processes
 * at chosen points.
 */

/**
 * This workflow reads a document, stores it under every key, and mails it. The rule `holdMail` requires an approval for
 * the mail.
 */
const governedWorkflow = {
  inputs: { subject: { type: 'string', required: true }, keys: { type: 'array', required: true } },
  steps: [
    { id: 'read', tool: 'file_read', params: { path: 'reports/q3-summary.md' } },
    {
      id: 'keep',
      tool: 'memory_set',
      for_each: '{{input.keys}}',
      params: { key: '{{item}}', value: '{{steps.read.output.text}}' },
    },
    {
      id: 'send',
      tool: 'mail_send',
      depends_on: ['keep'],
      params: { to: 'ana@acme.test', subject: '{{input.subject}}', text: '{{steps.read.output.text}}' },
    },
  ],
} as const

const holdMail = {
  name: 'Mail waits for a person',
  verdict: 'require_approval',
  tools: ['mail_send'],
}

/**
 * These values are short enough for tests and long enough for a busy machine with two cores. If a live worker were
 * considered dead, its mail would get an unknown outcome, which the tests do not expect.
 */
export const quickEnvironment = {
  HEARTBEAT_TIMEOUT_SECONDS: '5',
  RECONCILE_SECONDS: '2',
  LOG_LEVEL: 'error',
} as const

export interface CrashHome {
  readonly sink: MailSinkProcess
  readonly faults: Faults
  /** Environment of the API and the worker. */
  readonly environment: Readonly<Record<string, string>>
  readonly member: Api
  readonly admin: Api
  readonly approver: Api
  readonly owner: Api
  readonly viewer: Api
  /** The stack that runs now. */
  readonly stack: StartedStack
  /** Starts the stack again on the same data. The stack that ran before must have ended. */
  start(): Promise<void>
  /** Runs a query as superuser, and repeats it while the database cannot be reached. */
  query<T extends pg.QueryResultRow>(sql: string, values?: readonly unknown[]): Promise<T[]>
  close(): Promise<void>
}

/** Starts a stack on new data, and an SMTP sink that outlives the stack. */
export async function crashHome(
  options: { mailLatency?: number; env?: Readonly<Record<string, string>> } = {},
): Promise<CrashHome> {
  const home = stackHome()
  let sink: MailSinkProcess | undefined
  let stack: StartedStack | undefined
  try {
    sink = await startMailSinkProcess(join(home.dataDir, '..', 'sink.log'), options.mailLatency)
    const faults = new Faults(join(home.dataDir, '..', 'fault'), () => (stack as StartedStack).output())
    const settings = {
      ...quickEnvironment,
      SMTP_URL: sink.url,
      COUNTERSIGN_FAULT_FILE: faults.path,
      ...options.env,
    }
    stack = await startStack({ dataDir: home.dataDir, env: settings })
    const person = (name: ConstructorParameters<typeof Api>[1]) => new Api(home.dataDir, name)
    const people = {
      member: person('member'),
      admin: person('admin'),
      approver: person('approver'),
      owner: person('owner'),
      viewer: person('viewer'),
    }
    const started = sink
    return {
      sink,
      faults,
      environment: settings,
      ...people,
      get stack() {
        return stack as StartedStack
      },
      async start() {
        stack = await startStack({ dataDir: home.dataDir, env: settings })
      },
      query: (sql, values) => query(people.member.bootstrap.database_admin_url, sql, values),
      async close() {
        await stack?.stop()
        await started.stop()
        await home.remove()
      },
    }
  } catch (error) {
    await stack?.stop()
    await sink?.stop()
    await home.remove()
    throw error
  }
}

/**
 * Turns approvals on, saves a rule that requires an approval for mail, and creates the governed workflow. Returns the
 * id of the workflow. `settings` and `rule` change fields of the defaults. `definition` replaces the workflow.
 */
export async function govern(
  home: CrashHome,
  over: { settings?: object; rule?: object; definition?: object } = {},
): Promise<string> {
  await home.owner.settings({ approvals_enabled: true, ...over.settings })
  await home.admin.createRule({ ...holdMail, ...over.rule })
  return home.member.createWorkflow('Report', over.definition ?? governedWorkflow)
}

export interface Held {
  readonly subject: string
  readonly runId: string
  readonly approvalId: string
}

/** Starts a run of the governed workflow as the person `by`. Waits until the mail of the run needs an approval. */
export async function heldRun(home: CrashHome, workflowId: string, by: Api = home.member): Promise<Held> {
  const subject = `Report ${randomUUID()}`
  const runId = await by.execute(workflowId, { subject, keys: [subject] })
  return { subject, runId, approvalId: await home.approver.untilHeld(runId, 'step') }
}

async function query<T extends pg.QueryResultRow>(
  url: string,
  sql: string,
  values: readonly unknown[] = [],
): Promise<T[]> {
  const deadline = Date.now() + patience
  for (;;) {
    const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 5_000 })
    client.on('error', () => undefined)
    try {
      await client.connect()
      return (await client.query<T>(sql, [...values])).rows
    } catch (error) {
      if (error instanceof pg.DatabaseError && !/^(57P|08)/.test(error.code ?? '')) throw error
      if (Date.now() > deadline) throw error
      await delay(100)
    } finally {
      await client.end().catch(() => undefined)
    }
  }
}

export type Fault = `${CommitPoint}:${'before' | 'after'}`

/**
 * The fault switch of commit-points.ts. The first process that reaches the chosen point dies there. Only one point is
 * chosen at a time.
 */
export class Faults {
  readonly path: string
  readonly fired: Fault[] = []
  readonly #output: () => string
  /**
   * The length of the supervisor's output when `#settle` last ended. `#isFailing` ignores failures before this
   * position.
   */
  #settledAt = 0

  constructor(path: string, output: () => string) {
    this.path = path
    this.#output = output
  }

  /**
   * Calls `provoke`, and resolves when a process has died at the point `fault`. Throws an error if no process reaches
   * the point.
   */
  async at(fault: Fault, provoke: () => void): Promise<void> {
    if (this.#isFailing()) await this.#settle()
    rmSync(`${this.path}.fired`, { force: true })
    writeFileSync(this.path, fault)
    provoke()
    const deadline = Date.now() + patience
    while (!existsSync(`${this.path}.fired`)) {
      if (Date.now() > deadline) {
        rmSync(this.path, { force: true })
        throw new Error(`no process reached ${fault}; the stack said:\n${this.#output().slice(-4_000)}`)
      }
      await delay(20)
    }
    this.fired.push(fault)
  }

  /**
   * Returns whether the last pause of some part of the stack was 0.8 s or longer. Such a part has failed at least three
   * times in a row, because the first pause is 0.2 s and each failure doubles the pause. At the sixth failure in a row,
   * the supervisor gives up.
   */
  #isFailing(): boolean {
    const pauses = new Map<string, number>()
    const ends = / *(\S+) ended unexpectedly \(.*\): starting it again in ([\d.]+) s/g
    for (const [, name = '', seconds] of this.#output().slice(this.#settledAt).matchAll(ends))
      pauses.set(name, Number(seconds))
    return [...pauses.values()].some((seconds) => seconds >= 0.8)
  }

  /** Waits until all parts have run for two seconds. The supervisor then counts their failures from zero again. */
  async #settle(): Promise<void> {
    const lines = (pattern: RegExp) => this.#output().match(pattern)?.length ?? 0
    let upSince = Infinity
    while (Date.now() - upSince < 2_500 || upSince === Infinity) {
      const isUp = lines(/ ended unexpectedly /g) === lines(/ is up again /g)
      upSince = isUp ? Math.min(upSince, Date.now()) : Infinity
      await delay(50)
    }
    this.#settledAt = this.#output().length
  }
}
