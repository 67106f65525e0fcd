/*
 * For the programs that the supervisor starts (src/api-server.ts, src/worker.ts). Started by hand they have no
 * supervisor; both functions then do the same for a terminal's or an orchestrator's signals.
 */

/** How long a child may take to finish what it has under way before it is ended, in milliseconds. */
export const drainTime = 20_000

/**
 * Ends this process once it is told to (SIGTERM; SIGINT when started by hand) or once the supervisor is gone, after
 * `onEnd` has let go of what it holds. A second signal, or `drainTime` passing, ends it at once with exit code 1.
 * Under a supervisor SIGINT is ignored: Ctrl-C reaches the whole process group, and the supervisor orders the stops.
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
    // The channel must not keep a finished process alive, but its end must be noticed.
    process.on('disconnect', () => {
      if (!ending) end()
    })
    if (!process.connected) end()
  }
}

/** Tells the supervisor that this process answers; `port` where it listens. Does nothing when started by hand. */
export function signalReady(port?: number): void {
  process.send?.(port === undefined ? { ready: true } : { ready: true, port })
}
