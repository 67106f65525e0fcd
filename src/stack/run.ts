import { existsSync, readdirSync, realpathSync, writeSync } from 'node:fs'
import { firstSteps } from './first-steps.ts'
import { privateFolder, serverLog, type Log } from './files.ts'
import { endOrphans, type Role } from './guard.ts'
import { startGuard } from './guarded.ts'
import { lockDataFolder } from './lock.ts'
import { watchNpm } from './parent.ts'
import { createSteps } from './progress.ts'
import { readStackSettings } from './settings.ts'
import { startStack, type StackParts } from './start.ts'
import { createSupervisor } from './supervise.ts'

/** The order in which services are stopped. A service is stopped after the services that use it. */
const stopOrder: readonly (readonly Role[])[] = [['api', 'worker'], ['temporal'], ['postgres']]

/**
 * Runs everything for `npm start` until SIGINT, SIGTERM or SIGHUP arrives, or until a service keeps failing. Then stops
 * everything in order. A second signal makes the stop faster. Prints progress, the first steps for the user, and then
 * `ready URL` to standard output. Returns the exit code. It is 0 after a signal. Otherwise it is 1, and the reason is
 * on standard error.
 */
export async function runStack(parts: StackParts, env: NodeJS.ProcessEnv = process.env): Promise<number> {
  const ending = new AbortController()
  const hurry = new AbortController()
  let askedAt = 0
  const onSignal = (): void => {
    // Ctrl-C sends two signals, one from the terminal and one from npm. A signal within 500 ms after the first is the
    // same request, so it does not make the stop faster.
    if (ending.signal.aborted && performance.now() - askedAt > 500) hurry.abort()
    if (!ending.signal.aborted) askedAt = performance.now()
    ending.abort(new Error('asked to stop'))
  }
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, onSignal)
  const npm = watchNpm(env, onSignal)
  // The program that reads our output may exit first, as in `npm start | head`. Later writes then fail without an
  // effect.
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

async function hold(
  parts: StackParts,
  env: NodeJS.ProcessEnv,
  ending: AbortSignal,
  hurry: AbortSignal,
): Promise<void> {
  const settings = readStackSettings(env)
  const isNewFolder = !existsSync(settings.dataDir) || readdirSync(settings.dataDir).length === 0
  const kept = settings.logDir === null ? null : serverLog(settings.logDir, 'supervisor')
  const log: Log = (line) => {
    process.stdout.write(`${line}\n`)
    if (kept === null) return
    const entry = { level: 30, time: Date.now(), process: 'supervisor', msg: line }
    try {
      writeSync(kept.file, `${JSON.stringify(entry)}\n`)
    } catch {
      // Writing fails if the disk is full. The stack then continues without this line in its log.
    }
  }
  const dataDir = realpathSync(privateFolder(settings.dataDir))
  const lock = lockDataFolder(dataDir)
  // On a further machine of an installation, the folder of checkpoints is new because the data folder is new. Somebody
  // who sets AUDIT_CHECKPOINT_DIR may name a disk that is not mounted, so that folder is never marked here.
  if (isNewFolder && !settings.isCheckpointDirNamed) await parts.markCheckpointFolder(settings.checkpointDir)
  await endOrphans(dataDir, { log })
  const guard = startGuard(dataDir)
  const supervisor = createSupervisor<Role>({ log })
  const closers: (() => Promise<void>)[] = []
  const step = createSteps(log)
  try {
    const starting = startStack({ ...parts, settings, dataDir, env, log, step, supervisor, closers, ending })
    // After a stop request, nothing awaits `starting`, so its error is ignored. The processes started so far are known
    // to the supervisor or recorded in the data folder, and are stopped below.
    starting.catch(() => undefined)
    const asked = aborted(ending)
    const url = await Promise.race([starting, asked])
    if (url === undefined) return
    for (const line of firstSteps(settings, dataDir, url)) log(line)
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
