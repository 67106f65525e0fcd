import { isMainThread } from 'node:worker_threads'

/*
 * Loaded before Jest and, since they get the same options, before its workers (not before programs that tests start):
 * ends them when their parent has ended. Otherwise a killed `npm test` would leave workers that go on with their files.
 */

const isJest = /\/(jest\/bin\/jest|jest-worker\/build\/processChild)\.js$/.test(process.argv[1] ?? '')
if (isMainThread && isJest) {
  const parent = process.ppid
  setInterval(() => {
    if (process.ppid !== parent) process.kill(process.pid, 'SIGKILL')
  }, 250).unref()
}
