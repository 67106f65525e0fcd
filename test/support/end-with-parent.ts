import { isMainThread } from 'node:worker_threads'

/*
 * Loaded before Jest and before its workers, which get the same options; programs that tests start do not load it. Ends
 * the process when its parent has ended. Otherwise the workers of a killed `npm test` would continue with their files.
 */

const isJest = /\/(jest\/bin\/jest|jest-worker\/build\/processChild)\.js$/.test(process.argv[1] ?? '')
if (isMainThread && isJest) {
  const parent = process.ppid
  setInterval(() => {
    if (process.ppid !== parent) process.kill(process.pid, 'SIGKILL')
  }, 250).unref()
}
