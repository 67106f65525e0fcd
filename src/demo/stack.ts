import { spawn } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, realpathSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { programFile } from '../stack/files.ts'
import { forgetProcess, isOurs, recordedProcesses, recordProcess, startGuard } from '../stack/guard.ts'
import { createClient, type Bootstrap } from './client.ts'

export interface DemoStack {
  readonly bootstrap: Bootstrap
  readonly bootstrapFile: string
  readonly mailDir: string
  readonly isOthers: boolean
  /** The supervisor then starts it again. null if the stack already ran before the demo. */
  readonly killWorker: (() => void) | null
  /** Ends the stack and removes its data, unless it already ran before the demo. */
  close(): Promise<void>
}

/** They would make the demo's own stack use other servers, ports or files. */
const notOurs = [
  ...['DATABASE_URL', 'DATABASE_OWNER_URL', 'DATA_ENCRYPTION_KEY', 'POSTGRES_PORT', 'TEMPORAL_ADDRESS'],
  ...['TEMPORAL_NAMESPACE', 'TEMPORAL_API_KEY', 'SMTP_URL', 'FILE_ROOT', 'PUBLIC_URL', 'TLS_CERT_FILE'],
  ...['TLS_KEY_FILE', 'APP_ENV', 'HOST', 'CONNECTION_HOSTS', 'LLM_PRICES', 'SECRETS_BACKEND'],
]

/** The stack that runs on `DATA_DIR` (default `.data`). */
export async function findStack(env: NodeJS.ProcessEnv): Promise<DemoStack | null> {
  const dataDir = resolve(env['DATA_DIR'] || '.data')
  const bootstrap = readBootstrap(dataDir)
  if (bootstrap === null) return null
  // Another program may use the port now. Only our API accepts this key for this organization.
  const mine = await createClient(bootstrap)
    .ask<unknown>('owner', 'GET', `/organizations/${bootstrap.organization_id}/governance`)
    .catch(() => null)
  if (mine?.status !== 200) return null
  const mailDir = join(dataDir, 'mail')
  const bootstrapFile = bootstrapIn(dataDir)
  return {
    bootstrap,
    bootstrapFile,
    mailDir,
    isOthers: true,
    killWorker: null,
    close: () => Promise.resolve(),
  }
}

/** In a temporary folder. A guard ends it and removes the folder, even if this process is killed. */
export async function startOwnStack(
  env: NodeJS.ProcessEnv,
  show: (line: string) => void,
): Promise<DemoStack> {
  const outer = realpathSync(mkdtempSync(join(tmpdir(), 'countersign-demo-')))
  const guard = startGuard(outer, { remove: true })
  const dataDir = join(outer, 'data')
  mkdirSync(dataDir, { mode: 0o700 })
  try {
    const own = Object.fromEntries(Object.entries(env).filter(([name]) => !notOurs.includes(name)))
    const child = spawn(
      process.execPath,
      [programFile('../programs/main', import.meta.url), '--data-dir', dataDir],
      {
        env: { ...own, PORT: '0', DATA_DIR: dataDir, LOG_LEVEL: env['LOG_LEVEL'] ?? 'warn' },
        stdio: ['ignore', 'pipe', 'inherit'],
      },
    )
    const { pid } = child
    if (pid === undefined) throw new Error('Countersign could not be started')
    recordProcess(outer, 'stack', pid)
    const exited = new Promise<false>((ended) => child.once('close', () => ended(false)))
    const ready = new Promise<true>((isReady) => {
      let text = ''
      child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
        const lines = (text + chunk).split('\n')
        text = lines.pop() ?? ''
        for (const line of lines) {
          if (line.startsWith('ready ')) isReady(true)
          else show(line)
        }
      })
    })
    if (!(await Promise.race([ready, exited]))) throw new Error('Countersign ended before it was ready')
    const bootstrap = readBootstrap(dataDir)
    if (bootstrap === null) throw new Error('Countersign wrote no bootstrap.json')
    return {
      bootstrap,
      bootstrapFile: bootstrapIn(dataDir),
      mailDir: join(dataDir, 'mail'),
      isOthers: false,
      killWorker: () => killWorker(dataDir),
      close: async () => {
        child.kill('SIGTERM')
        await exited
        forgetProcess(outer, 'stack', pid)
        await guard.close()
      },
    }
  } catch (error) {
    await guard.close()
    throw error
  }
}

function killWorker(dataDir: string): void {
  const worker = recordedProcesses(dataDir).find((each) => each.role === 'worker' && isOurs(dataDir, each))
  if (worker === undefined) throw new Error('no worker runs')
  process.kill(worker.pid, 'SIGKILL')
}

const bootstrapIn = (dataDir: string): string => join(dataDir, 'bootstrap.json')

function readBootstrap(dataDir: string): Bootstrap | null {
  const path = bootstrapIn(dataDir)
  if (!existsSync(path)) return null
  const read = JSON.parse(readFileSync(path, 'utf8')) as Bootstrap
  return (read.users as unknown) === undefined ? null : read
}
