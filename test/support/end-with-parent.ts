import { isMainThread } from 'node:worker_threads'

/*
 * Loaded before Jest and, since they get the same options, before its workers (but not before programs that tests
 * start): ends them when their parent has ended. Otherwise the workers of a killed `npm test` would continue with
 * their files.
 */

const isJest = /\/(jest\/bin\/jest|jest-worker\/build\/processChild)\.js$/.test(process.argv[1] ?? '')
if (isMainThread && isJest) {
  const parent = process.ppid
  setInterval(() => {
    if (process.ppid !== parent) process.kill(process.pid, 'SIGKILL')
  }, 250).unref()
}
