import { spawn } from 'node:child_process'
import { closeSync, openSync, readFileSync, realpathSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { Connection } from '@temporalio/client'
import { running, type Running } from './child.ts'
import { creatingPrivately, privateFolder, rotateLog, type Log } from './files.ts'
import { forgetProcess, recordProcess, runFolder } from './guard.ts'
import { portLike, rememberPorts } from './last-ports.ts'
import { listens } from './ports.ts'
import { ensureTemporal } from './temporal-binary.ts'
import { readTemporalConfig, temporalArguments, type TemporalConfig } from './temporal-config.ts'

export interface TemporalOptions {
  /** Histories are in `dataDir/temporal.db`, the log in `dataDir/temporal.log`. */
  readonly dataDir: string
  /** 0: that of the last start, or any free port; absent: as temporal-dev.yml says. */
  readonly port?: number
  readonly uiPort?: number
  /** Absent: as temporal-dev.yml says. */
  readonly namespace?: string
  /** false: keep nothing, show nothing, for tests. Default true. */
  readonly durable?: boolean
  /** Over those of temporal-dev.yml, for tests. */
  readonly dynamicConfig?: TemporalConfig['dynamic_config']
  readonly log?: Log
  /** Gives up installing. */
  readonly signal?: AbortSignal
}

export interface TemporalServer extends Running {
  /** `127.0.0.1:PORT` */
  readonly address: string
  readonly namespace: string
  readonly port: number
  readonly uiPort: number
  /** null without a web interface. */
  readonly uiUrl: string | null
}

const startTime = 60_000

/**
 * Starts the Temporal development server on 127.0.0.1 with the settings of temporal-dev.yml, installing the program if
 * need be. Resolves once the namespace answers. Fails, with the end of its log, when it ends instead.
 */
export async function startTemporal(options: TemporalOptions): Promise<TemporalServer> {
  const dataDir = realpathSync(privateFolder(options.dataDir))
  const program = await ensureTemporal(dataDir, options)
  const durable = options.durable ?? true
  const read = readTemporalConfig()
  const config = {
    ...read,
    namespace: options.namespace ?? read.namespace,
    dynamic_config: { ...read.dynamic_config, ...options.dynamicConfig },
  }
  const wanted = { grpc: options.port ?? config.ports.grpc, ui: options.uiPort ?? config.ports.ui }
  const deadline = Date.now() + startTime
  for (let attempt = 1; ; attempt += 1) {
    const port = wanted.grpc === 0 ? await portLike(dataDir, 'temporal') : wanted.grpc
    const uiPort = wanted.ui === 0 ? await portLike(dataDir, 'temporal_ui') : wanted.ui
    const database = durable ? join(dataDir, 'temporal.db') : null
    const started = await launch(
      dataDir,
      program,
      temporalArguments(config, { port, uiPort, database, ui: durable }),
    )
    const address = `127.0.0.1:${port}`
    const failure = await answers(address, config.namespace, started, deadline)
    if (failure === null) {
      rememberPorts(dataDir, { temporal: port, ...(durable ? { temporal_ui: uiPort } : {}) })
      const uiUrl = durable ? `http://127.0.0.1:${uiPort}` : null
      return { ...started, address, namespace: config.namespace, port, uiPort, uiUrl }
    }
    await started.stop()
    const lostPort =
      /address already in use|can't set frontend port/.test(failure) && wanted.grpc * wanted.ui === 0
    if (!lostPort || attempt === 3) {
      throw new Error(`Temporal did not start; the end of \`${join(dataDir, 'temporal.log')}\`:\n${failure}`)
    }
  }
}

type Launched = Running & { readonly said: () => string }

async function launch(dataDir: string, program: string, args: readonly string[]): Promise<Launched> {
  const path = join(dataDir, 'temporal.log')
  rotateLog(path)
  const file = openSync(path, 'a', 0o600)
  const from = statSync(path).size
  // Detached, so that Ctrl-C in a terminal does not stop it under the worker's feet. The option names a file that is
  // not there: it keeps the person's own Temporal settings out, and puts the data folder into the command line of a
  // server that keeps no database, which is how a process is known to be ours (guard.ts).
  const home = runFolder(dataDir)
  // Histories hold ids and names only; still, the database is nobody else's.
  const child = creatingPrivately(() =>
    spawn(program, ['--env-file', join(home, 'temporal.yaml'), ...args], {
      cwd: dataDir,
      detached: true,
      stdio: ['ignore', file, file],
      env: { PATH: process.env['PATH'], HOME: home, XDG_CONFIG_HOME: home, TZ: 'UTC' },
    }),
  )
  closeSync(file)
  if (child.pid !== undefined) recordProcess(dataDir, 'temporal', child.pid)
  const started = await running(child, program, [['SIGTERM', 10_000], ['SIGKILL', 5_000]]) // prettier-ignore
  void started.exited.then(() => forgetProcess(dataDir, 'temporal', child.pid))
  return { ...started, said: () => readFileSync(path).subarray(from).toString('utf8') }
}

/** null once the namespace can be asked for; what the server said when it ended or the deadline passed first. */
async function answers(
  address: string,
  namespace: string,
  server: Launched,
  deadline: number,
): Promise<string | null> {
  let last = ''
  while (!server.gone() && Date.now() < deadline) {
    try {
      // The client waits a second after a refused connection, which is longer than the server takes to start.
      if (!(await listens(address))) throw new Error(`nothing listens at ${address} yet`)
      const connection = await Connection.connect({ address, connectTimeout: 1_000 })
      try {
        await connection.workflowService.describeNamespace({ namespace })
        return null
      } finally {
        await connection.close()
      }
    } catch (error) {
      last = (error as Error).message
      await delay(50)
    }
  }
  return `${server.said().split('\n').slice(-20).join('\n')}\n${last}`.trim()
}
