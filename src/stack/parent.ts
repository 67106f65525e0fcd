/* For programs that must not outlive the one that started them: a supervisor, a person, an orchestrator, or npm. */

/** Milliseconds for a program to finish its work, before it is ended by force. */
export const drainTime = 20_000

/**
 * Ends this process on SIGTERM, or when the supervisor has ended, after `onEnd` has released resources. After a second
 * signal or `drainTime`, it ends at once with exit code 1. Ctrl-C sends SIGINT to the whole process group: a supervisor
 * stops its programs in order, so they ignore it.
 */
export function exitWithParent(onEnd: () => Promise<void> | void): void {
  let ending = false
  const end = (): void => {
    if (ending) process.exit(1)
    ending = true
    setTimeout(() => process.exit(1), drainTime).unref()
    Promise.resolve()
      .then(onEnd)
      .then(
        () => process.exit(0),
        (error: unknown) => {
          console.error(error)
          process.exit(1)
        },
      )
  }
  const supervised = process.channel !== undefined && process.channel !== null
  process.on('SIGTERM', end)
  process.on('SIGINT', supervised ? () => undefined : end)
  if (supervised) {
    // Also if the supervisor was killed.
    process.on('disconnect', () => {
      if (!ending) end()
    })
    if (!process.connected) end()
  }
}

/** Tells a supervisor, if there is one, that this process is ready, and on which port it listens. */
export function signalReady(port?: number): void {
  process.send?.(port === undefined ? { ready: true } : { ready: true, port })
}

/**
 * Calls `onGone` when the parent (npm, or a shell between npm and this process) has ended, if npm started this process:
 * a signal that ends the parent may not reach it.
 */
export function watchNpm(env: NodeJS.ProcessEnv, onGone: () => void): NodeJS.Timeout | undefined {
  if (env['npm_lifecycle_event'] === undefined) return undefined
  const parent = process.ppid
  const timer = setInterval(() => {
    if (process.ppid === parent) return
    clearInterval(timer)
    onGone()
  }, 250)
  return timer
}
