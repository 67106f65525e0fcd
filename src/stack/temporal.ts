import { spawn } from 'node:child_process'
import { closeSync, readFileSync, realpathSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { Connection } from '@temporalio/client'
import { running, type Running } from './child.ts'
import { creatingPrivately, privateFolder, serverLog, type Log } from './files.ts'
import { forgetProcess, recordProcess, runFolder } from './guard.ts'
import { Patience } from './patience.ts'
import { portLike, rememberPorts } from './last-ports.ts'
import { listens } from './ports.ts'
import { ensureTemporal } from './temporal-binary.ts'
import { readTemporalConfig, temporalArguments, type TemporalConfig } from './temporal-config.ts'

export interface TemporalOptions {
  /** Temporal stores the histories of workflows in `dataDir/temporal.db`. */
  readonly dataDir: string
  /** The folder of `temporal.log`; default: `dataDir`. */
  readonly logFolder?: string | undefined
  /**
   * If this is 0, the server uses the port of the last start, or any free port if that port is not free. If this is
   * undefined, the server uses the port in temporal-dev.yml. The same rules apply to `uiPort`.
   */
  readonly port?: number
  readonly uiPort?: number
  /** undefined means the namespace in temporal-dev.yml. */
  readonly namespace?: string
  /** If this is false, the server has no storage and no web interface. Only tests use false. Default: true. */
  readonly durable?: boolean
  /** Overrides values of `dynamic_config` in temporal-dev.yml. Only tests use this. */
  readonly dynamicConfig?: TemporalConfig['dynamic_config']
  readonly log?: Log
  /** If this signal is aborted, the installation of the program stops. */
  readonly signal?: AbortSignal
}

export interface TemporalServer extends Running {
  /** `127.0.0.1:PORT` */
  readonly address: string
  readonly namespace: string
  readonly port: number
  readonly uiPort: number
  /** Is null if the server has no web interface. */
  readonly uiUrl: string | null
}

/**
 * Starts the Temporal development server on 127.0.0.1 with the settings of temporal-dev.yml. Installs the program if
 * needed. Resolves once the namespace answers. If the server ends, or stands still for a minute and does
 * not answer, throws an error with the end of its log.
 */
export async function startTemporal(options: TemporalOptions): Promise<TemporalServer> {
  const dataDir = realpathSync(privateFolder(options.dataDir))
  const logFolder = options.logFolder ?? dataDir
  const program = await ensureTemporal(dataDir, options)
  const durable = options.durable ?? true
  const read = readTemporalConfig()
  const config = {
    ...read,
    namespace: options.namespace ?? read.namespace,
    dynamic_config: { ...read.dynamic_config, ...options.dynamicConfig },
  }
  const wanted = { grpc: options.port ?? config.ports.grpc, ui: options.uiPort ?? config.ports.ui }
  for (let attempt = 1; ; attempt += 1) {
    const port = wanted.grpc === 0 ? await portLike(dataDir, 'temporal') : wanted.grpc
    const uiPort = wanted.ui === 0 ? await portLike(dataDir, 'temporal_ui') : wanted.ui
    const database = durable ? join(dataDir, 'temporal.db') : null
    const started = await launch(
      dataDir,
      logFolder,
      program,
      temporalArguments(config, { port, uiPort, database, ui: durable }),
    )
    const address = `127.0.0.1:${port}`
    const failure = await answers(address, config.namespace, started, dataDir)
    if (failure === null) {
      rememberPorts(dataDir, { temporal: port, ...(durable ? { temporal_ui: uiPort } : {}) })
      const uiUrl = durable ? `http://127.0.0.1:${uiPort}` : null
      return { ...started, address, namespace: config.namespace, port, uiPort, uiUrl }
    }
    await started.stop()
    const lostPort =
      /address already in use|can't set frontend port/.test(failure) && wanted.grpc * wanted.ui === 0
    if (!lostPort || attempt === 3) {
      throw new Error(
        `Temporal did not start; the end of \`${join(logFolder, 'temporal.log')}\`:\n${failure}`,
      )
    }
  }
}

type Launched = Running & { readonly said: () => string }

async function launch(
  dataDir: string,
  logFolder: string,
  program: string,
  args: readonly string[],
): Promise<Launched> {
  const { path, file, from, stop } = serverLog(logFolder, 'temporal')
  // The process is detached, so that Ctrl-C in a terminal does not stop Temporal before the worker.
  // `--env-file` names a file that does not exist. So Temporal ignores the settings of the person who runs this
  // program. The path of this file contains the data folder, because guard.ts recognizes our processes by this folder
  // in their command lines.
  const home = runFolder(dataDir)
  // Only this account may read Temporal's database, although the histories in it contain only ids and names.
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
  void started.exited.then(() => {
    stop()
    forgetProcess(dataDir, 'temporal', child.pid)
  })
  return { ...started, said: () => readFileSync(path).subarray(from).toString('utf8') }
}

/**
 * Waits for the server. Returns null once the namespace answers. If the server ends or stands still first,
 * returns the last lines that the server has logged, and the last connection error.
 */
async function answers(
  address: string,
  namespace: string,
  server: Launched,
  dataDir: string,
): Promise<string | null> {
  let last = ''
  const patience = new Patience(dataDir, { said: () => server.said().length })
  while (!server.gone() && !patience.isOver()) {
    try {
      // After a refused connection, the Temporal client waits a second. The server needs less time to start, so the
      // port is checked first.
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
