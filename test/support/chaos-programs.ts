import { fork, type ChildProcess } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { readTemporalConfig } from '../../src/stack/temporal.ts'
import { Api, type Bootstrap } from './client.ts'
import type { CrashHome } from './chaos.ts'
import { programEnv } from './program-env.ts'

/** A separate program that uses the PostgreSQL and Temporal of a running stack. It ends with the test process. */
export interface Program {
  readonly child: ChildProcess
  readonly url: string
  /** Sends the signal (default: SIGTERM). Resolves with the exit code or the name of the signal. */
  end(signal?: NodeJS.Signals): Promise<number | string | null>
}

/**
 * Starts only the API (`src/programs/api-server.ts`) or only the worker, as operators do. Resolves when the program is
 * ready.
 */
export async function startProgramOn(home: CrashHome, kind: 'api-server' | 'worker'): Promise<Program> {
  const { database_url: database, temporal_address: temporal }: Bootstrap = home.member.bootstrap
  const secrets = JSON.parse(readFileSync(join(home.stack.dataDir, 'secrets.json'), 'utf8')) as Record<
    string,
    string
  >
  return startProgram(fileURLToPath(new URL(`../../src/programs/${kind}.ts`, import.meta.url)), {
    ...home.environment,
    DATABASE_URL: database,
    TEMPORAL_ADDRESS: temporal,
    TEMPORAL_NAMESPACE: readTemporalConfig().namespace,
    DATA_ENCRYPTION_KEY: secrets['data_encryption_key'],
    FILE_ROOT: 'samples',
  })
}

/**
 * Starts one of our programs from its file. A program that listens gets a free port. Resolves when the program is
 * ready.
 */
export async function startProgram(file: string, env: NodeJS.ProcessEnv): Promise<Program> {
  const child = fork(file, [], { env: { ...programEnv(), ...env, PORT: '0' }, execArgv: [] })
  const exited = new Promise<number | string | null>((resolve) =>
    child.once('exit', (code, signal) => resolve(signal ?? code)),
  )
  const ready = await Promise.race([
    // A worker listens on no port and reports no port.
    new Promise<{ port?: number }>((resolve) =>
      child.once('message', (message) => resolve(message as { port?: number })),
    ),
    exited,
  ])
  if (ready === null || typeof ready !== 'object')
    throw new Error(`\`${file}\` ended before it was ready: ${String(ready)}`)
  return {
    child,
    url: `http://127.0.0.1:${ready.port ?? 0}`,
    end: async (signal = 'SIGTERM') => {
      child.kill(signal)
      return exited
    },
  }
}

/** A client of a person. It sends its requests to the API process at `url`. */
export class ApiAt extends Api {
  readonly #url: string
  constructor(home: CrashHome, person: Api['person'], url: string) {
    super(home.stack.dataDir, person)
    this.#url = url
  }
  override get bootstrap(): Bootstrap {
    return { ...super.bootstrap, base_url: this.#url }
  }
}
