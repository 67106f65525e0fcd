import { isMainThread } from 'node:worker_threads'

/* Jest and its workers load this file first (`--import`). Programs that tests start do not load it. */

const program = process.argv[1] ?? ''
const isWorker = program.endsWith('/tinypool/dist/entry/process.js')
const isJest = isWorker || program.endsWith('/jest/bin/jest.js')
if (isMainThread && isJest) endWithParent()
if (isMainThread && isWorker) keepWorkerData()

/** Ends this process when its parent has ended. Otherwise the workers of a killed `npm test` would go on. */
function endWithParent(): void {
  const parent = process.ppid
  setInterval(() => {
    if (process.ppid !== parent) process.kill(process.pid, 'SIGKILL')
  }, 250).unref()
}

/**
 * Each worker of jest-light-runner 0.8.2 asks once for its data. The answer to the first worker that asks goes to all
 * workers that have got a file, and later questions of these workers get no answer. A worker that had not asked yet would
 * wait for ever. So this function keeps an early answer, and gives it to the worker when it asks.
 */
function keepWorkerData(): void {
  const { send } = process
  if (send === undefined) return
  let early: unknown
  process.on('message', (message: { type?: unknown } | null) => {
    if (message?.type === 'jest-light-runner-worker-data') early = message
  })
  process.send = (message: unknown, ...more: never[]): boolean => {
    if (message !== 'jest-light-runner-get-worker-data' || early === undefined)
      return send.call(process, message, ...more)
    setImmediate(() => process.emit('message', early, undefined))
    return true
  }
}
