/*
 * For the programs that the supervisor starts (API and worker). If a program is started by hand, `exitWithParent`
 * handles the signals of a terminal or an orchestrator.
 */

/** Milliseconds that a child has to finish its work before it is ended by force. */
export const drainTime = 20_000

/**
 * Ends this process on SIGTERM (also SIGINT if started by hand) or when the supervisor has ended, after `onEnd` has
 * released its resources. A second signal, or the end of `drainTime`, ends it at once with exit code 1. Under a
 * supervisor SIGINT is ignored: Ctrl-C reaches the whole process group, and the supervisor stops the parts in order.
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

/** Tells the supervisor that this process is ready, and its `port`. Does nothing if it was started by hand. */
export function signalReady(port?: number): void {
  process.send?.(port === undefined ? { ready: true } : { ready: true, port })
}
