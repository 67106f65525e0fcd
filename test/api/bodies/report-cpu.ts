import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

/*
 * Loaded before a program (`--import`) whose processor time a test measures. It answers each message with the microseconds that
 * this process has used, all of its threads together; `clean` first collects what earlier requests have left.
 */

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void

process.on('message', (message) => {
  if (message !== 'cpu' && message !== 'clean') return
  if (message === 'clean') collect()
  const { user, system } = process.cpuUsage()
  process.send?.({ cpu: user + system })
})
