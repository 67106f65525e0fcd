import { realpathSync } from 'node:fs'
import { privateFolder, type Log } from './files.ts'
import { endOrphans, type Role } from './guard.ts'
import { startGuard } from './guarded.ts'
import { lockDataFolder } from './lock.ts'
import { createSteps } from './progress.ts'
import { readStackSettings } from './settings.ts'
import { startStack, type StackParts } from './start.ts'
import { createSupervisor } from './supervise.ts'

/** Stopped one after the other: what uses a service goes before it. */
const stopOrder: readonly (readonly Role[])[] = [['api', 'worker'], ['temporal'], ['postgres']]

/**
 * `npm start`: runs everything until SIGINT, SIGTERM or SIGHUP, or until a part cannot be kept running, then stops
 * everything in order; a second signal hurries. Progress and, at last, `ready URL` go to standard output.
 * Returns the exit code: 0 after a signal, 1 otherwise, with the reason on standard error.
 */
export async function runStack(parts: StackParts, env: NodeJS.ProcessEnv = process.env): Promise<number> {
  const ending = new AbortController()
  const hurry = new AbortController()
  let askedAt = 0
  const onSignal = (): void => {
    // One Ctrl-C reaches us twice, from the terminal and from npm: only a later signal is a second one.
    if (ending.signal.aborted && performance.now() - askedAt > 500) hurry.abort()
    if (!ending.signal.aborted) askedAt = performance.now()
    ending.abort(new Error('asked to stop'))
  }
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, onSignal)
  const npm = watchNpm(env, onSignal)
  // Whoever reads our progress may leave before us (`npm start | head`).
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => undefined)
  try {
    await hold(parts, env, ending.signal, hurry.signal)
    return 0
  } catch (error) {
    if (ending.signal.aborted) return 0
    process.stderr.write(`error: ${(error as Error).message}\n`)
    return 1
  } finally {
    clearInterval(npm)
  }
}

/**
 * Calls `onGone` when we run under npm and npm has ended: it passes a SIGTERM on to the shell between it and us, which
 * dies of it alone, so its end is all that we see of a `kill` of `npm start`.
 */
function watchNpm(env: NodeJS.ProcessEnv, onGone: () => void): NodeJS.Timeout | undefined {
  if (env['npm_lifecycle_event'] === undefined) return undefined
  const parent = process.ppid
  const timer = setInterval(() => {
    if (process.ppid === parent) return
    clearInterval(timer)
    onGone()
  }, 250)
  return timer
}

async function hold(
  parts: StackParts,
  env: NodeJS.ProcessEnv,
  ending: AbortSignal,
  hurry: AbortSignal,
): Promise<void> {
  const log: Log = (line) => void process.stdout.write(`${line}\n`)
  const settings = readStackSettings(env)
  const dataDir = realpathSync(privateFolder(settings.dataDir))
  const lock = lockDataFolder(dataDir)
  await endOrphans(dataDir, { log })
  const guard = startGuard(dataDir)
  const supervisor = createSupervisor<Role>({ log })
  const closers: (() => Promise<void>)[] = []
  const step = createSteps(log)
  try {
    const starting = startStack({ ...parts, settings, dataDir, env, log, step, supervisor, closers, ending })
    // Once asked to stop nobody waits for it any more; what it started meanwhile is in the supervisor or on record.
    starting.catch(() => undefined)
    const asked = aborted(ending)
    const url = await Promise.race([starting, asked])
    if (url === undefined) return
    log(`ready ${url}`)
    const failure = await Promise.race([supervisor.gaveUp, asked])
    if (failure !== undefined) throw failure
  } finally {
    if (!hurry.aborted) log('stopping')
    for (const names of stopOrder) await supervisor.stop(names, hurry)
    for (const close of closers) await close()
    await endOrphans(dataDir, { except: ['guard'] })
    await guard.close()
    lock.release()
  }
}

function aborted(signal: AbortSignal): Promise<undefined> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve(undefined)
    signal.addEventListener('abort', () => resolve(undefined), { once: true })
  })
}
