import { realpathSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Connection } from '@temporalio/client'
import { parse } from 'yaml'
import { z } from 'zod'
import type { Running } from './child.ts'
import { creatingPrivately, privateFolder, type Log } from './files.ts'
import { runFolder } from './guard.ts'
import { failureOf, startServer } from './server.ts'
import { portLike, rememberPorts, listens } from './ports.ts'
import { ensureTemporal } from './temporal-binary.ts'
import { projectRoot } from '../shared/project-root.ts'

const scalar = z.union([z.string(), z.number(), z.boolean()])
const port = z.number().int().min(0).max(65_535)

/** temporal-dev.yml. An unknown key is an error, because a misspelt setting would have no effect. */
const schema = z.strictObject({
  namespace: z.string().regex(/^[A-Za-z0-9][A-Za-z0-9_.-]{1,254}$/),
  ports: z.strictObject({ grpc: port, ui: port }),
  dynamic_config: z.record(z.string().regex(/^[A-Za-z0-9.]+$/), scalar),
  sqlite_pragmas: z.record(z.string().regex(/^[a-z_]+$/), scalar),
  search_attributes: z.record(
    z.string().regex(/^[A-Za-z][A-Za-z0-9]*$/),
    z.enum(['Text', 'Keyword', 'Int', 'Double', 'Bool', 'Datetime', 'KeywordList']),
  ),
})

type TemporalConfig = z.infer<typeof schema>

export function readTemporalConfig(path = join(projectRoot(), 'temporal-dev.yml')): TemporalConfig {
  const result = schema.safeParse(parse(readFileSync(path, 'utf8')))
  if (result.success) return result.data
  const wrong = result.error.issues.map(({ path: at, message }) => `\`${at.join('.')}\`: ${message}`)
  throw new Error(`\`${path}\` is wrong: ${wrong.join('; ')}`)
}

interface TemporalPorts {
  readonly port: number
  readonly uiPort: number
  /** null: the server stores nothing. */
  readonly database: string | null
  readonly ui?: boolean
}

export function temporalArguments(config: TemporalConfig, ports: TemporalPorts): string[] {
  const each = (
    flag: string,
    values: TemporalConfig['sqlite_pragmas'],
    text: (value: z.infer<typeof scalar>) => string,
  ): string[] => Object.entries(values).flatMap(([name, value]) => [flag, `${name}=${text(value)}`])
  const ui =
    ports.ui === false ? ['--headless'] : ['--ui-port', String(ports.uiPort), '--ui-disable-news-fetch']
  const database = ports.database === null ? [] : ['--db-filename', ports.database]
  const log = ['--log-level', 'warn', '--log-format', 'json']
  return ['server', 'start-dev', '--ip', '127.0.0.1', '--port', String(ports.port)].concat(
    ui,
    database,
    ['--namespace', config.namespace],
    log,
    // The value of a dynamic setting is read as JSON, that of a pragma as plain text.
    each('--dynamic-config-value', config.dynamic_config, (value) => JSON.stringify(value)),
    ports.database === null ? [] : each('--sqlite-pragma', config.sqlite_pragmas, String),
    each('--search-attribute', config.search_attributes, String),
  )
}

export interface TemporalOptions {
  /** Has the histories of workflows in `temporal.db`. */
  readonly dataDir: string
  /** The folder of `temporal.log`; default: `dataDir`. */
  readonly logFolder?: string | undefined
  /** 0: the port of the last start, or any free one. undefined: the port in temporal-dev.yml. So for `uiPort`. */
  readonly port?: number
  readonly uiPort?: number
  /** undefined: the namespace in temporal-dev.yml. */
  readonly namespace?: string
  /** false: no storage and no web interface, for tests. Default: true. */
  readonly durable?: boolean
  /** In place of values in temporal-dev.yml, for tests. */
  readonly dynamicConfig?: TemporalConfig['dynamic_config']
  readonly log?: Log
  readonly signal?: AbortSignal
}

export interface TemporalServer extends Running {
  readonly address: string
  readonly namespace: string
  readonly port: number
  readonly uiPort: number
  /** null if the server has no web interface. */
  readonly uiUrl: string | null
}

/**
 * Starts the Temporal development server on 127.0.0.1 with the settings of temporal-dev.yml, and installs it if needed.
 * Resolves once the namespace answers. Throws the end of its log if it ends, or stands still for a minute.
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
  const home = runFolder(dataDir)
  const env = { PATH: process.env['PATH'], HOME: home, XDG_CONFIG_HOME: home, TZ: 'UTC' }
  for (let attempt = 1; ; attempt += 1) {
    const port = wanted.grpc === 0 ? await portLike(dataDir, 'temporal') : wanted.grpc
    const uiPort = wanted.ui === 0 ? await portLike(dataDir, 'temporal_ui') : wanted.ui
    const database = durable ? join(dataDir, 'temporal.db') : null
    const args = temporalArguments(config, { port, uiPort, database, ui: durable })
    // A file that does not exist, so Temporal ignores the settings of the person who runs this. Its path has the data
    // folder, by which guard.ts knows our processes.
    const command = [program, '--env-file', join(home, 'temporal.yaml'), ...args]
    // Only this account may read the database, although its histories contain only ids and names. The program is
    // spawned before `startServer` waits for anything.
    const started = await creatingPrivately(
      () =>
      startServer({ role: 'temporal', dataDir, logFolder, cwd: dataDir, env }, command, [['SIGTERM', 10_000], ['SIGKILL', 5_000]]), // prettier-ignore
    )
    const address = `127.0.0.1:${port}`
    const failure = await failureOf(started, dataDir, () => ask(address, config.namespace))
    if (failure === null) {
      rememberPorts(dataDir, { temporal: port, ...(durable ? { temporal_ui: uiPort } : {}) })
      const uiUrl = durable ? `http://127.0.0.1:${uiPort}` : null
      return { ...started, address, namespace: config.namespace, port, uiPort, uiUrl }
    }
    await started.stop()
    const lostPort =
      /address already in use|can't set frontend port/.test(failure) && wanted.grpc * wanted.ui === 0
    if (!lostPort || attempt === 3)
      throw new Error(
        `Temporal did not start; the end of \`${join(logFolder, 'temporal.log')}\`:\n${failure}`,
      )
  }
}

async function ask(address: string, namespace: string): Promise<void> {
  // After a refused connection, the client waits a second, which is longer than the server needs.
  if (!(await listens(address))) throw new Error(`nothing listens at ${address} yet`)
  const connection = await Connection.connect({ address, connectTimeout: 1_000 })
  try {
    await connection.workflowService.describeNamespace({ namespace })
  } finally {
    await connection.close()
  }
}
