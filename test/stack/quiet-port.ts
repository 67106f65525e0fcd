import { randomInt } from 'node:crypto'
import { isFree } from '../../src/stack/ports.ts'

/**
 * A free port below those that the system hands out: other tests' sockets do not take it meanwhile, as they may one
 * that was given back.
 */
export async function quietPort(): Promise<number> {
  for (;;) {
    const port = randomInt(12_000, 32_000)
    if (await isFree(port)) return port
  }
}
