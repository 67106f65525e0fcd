/*
 * Functions for programs that must not outlive the program that started them. The supervisor starts the API and the
 * worker, and a person or an orchestrator may also start them without it. npm starts `npm start` and `npm test`.
 */

/** The time in which a program can finish its work, in milliseconds. After this time, the program is ended by force. */
export const drainTime = 20_000

/**
 * Ends this process on SIGTERM or when the supervisor has ended. First awaits `onEnd`, which releases resources. After
 * a second signal or after `drainTime`, the process ends at once with exit code 1. Ctrl-C sends SIGINT to the whole
 * process group. If there is a supervisor, SIGINT is ignored, because the supervisor stops the programs in order. If
 * there is no supervisor, SIGINT ends this process like SIGTERM.
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
    // The channel closes when the supervisor has ended, even if the supervisor was killed.
    process.on('disconnect', () => {
      if (!ending) end()
    })
    if (!process.connected) end()
  }
}

/**
 * Tells the supervisor that this process is ready, and on which port it listens. Does nothing if there is no
 * supervisor.
 */
export function signalReady(port?: number): void {
  process.send?.(port === undefined ? { ready: true } : { ready: true, port })
}

/**
 * Calls `onGone` when the parent process has ended, if npm started this process. The parent is npm, or a shell between
 * npm and this process. A signal that ends the parent may not reach this process. So this process must notice the end
 * itself.
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
