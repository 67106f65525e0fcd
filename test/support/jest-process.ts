import { isMainThread } from 'node:worker_threads'

/*
 * Ends a Jest process when its parent process has ended. Otherwise the workers of a killed `npm test` would continue
 * with their files. This file is loaded before Jest (`--import`). Jest's workers get the same option and load this file
 * too. Programs that tests start do not load it.
 */

const isJest = /\/(jest\/bin\/jest|tinypool\/dist\/entry\/process)\.js$/.test(process.argv[1] ?? '')
if (isMainThread && isJest) {
  const parent = process.ppid
  setInterval(() => {
    if (process.ppid !== parent) process.kill(process.pid, 'SIGKILL')
  }, 250).unref()
}
