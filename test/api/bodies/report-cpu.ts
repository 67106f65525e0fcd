import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

/*
 * Loaded before a program (`--import`) whose processor time a test measures. It answers each message with the processor
 * time that all threads of this process have used, in microseconds, and its resident memory in bytes. `clean` first
 * collects the garbage of earlier requests.
 */

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void

process.on('message', (message) => {
  if (message !== 'cpu' && message !== 'clean') return
  if (message === 'clean') collect()
  const { user, system } = process.cpuUsage()
  process.send?.({ cpu: user + system, memory: process.memoryUsage.rss() })
})
