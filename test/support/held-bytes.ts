import { setImmediate as turn } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

/** How many bytes of heap what `make` makes holds, after collections before and with it. */
export async function heldBytes(make: () => unknown): Promise<number> {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as () => void
  const used = async (): Promise<number> => {
    for (let tries = 0; tries < 3; tries += 1) {
      await turn()
      collect()
    }
    return process.memoryUsage().heapUsed
  }
  const before = await used()
  const held = [make()]
  const after = await used()
  // Named once more, so that it lives until here.
  return held.length === 1 ? after - before : 0
}
