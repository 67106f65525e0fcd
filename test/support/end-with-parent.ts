import { isMainThread } from 'node:worker_threads'

/*
 * This file is loaded before Jest and before its workers, which get the same options. Programs that tests start do not
 * load it. It ends the process when the parent process has ended. Otherwise the workers of a killed `npm test` would
 * continue with their files.
 */

const isJest = /\/(jest\/bin\/jest|jest-worker\/build\/processChild)\.js$/.test(process.argv[1] ?? '')
if (isMainThread && isJest) {
  const parent = process.ppid
  setInterval(() => {
    if (process.ppid !== parent) process.kill(process.pid, 'SIGKILL')
  }, 250).unref()
}
