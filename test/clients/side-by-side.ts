import { afterAll, beforeAll, test } from '@jest/globals'

/**
 * A `test` function for tests that mostly wait, such as tests of clients. `atATime` bodies run in parallel, started in
 * the order in which they are written. Jest's own test only waits for the end of its body. `before` runs first.
 */
export function sideBySide(
  atATime: number,
  before: () => Promise<void>,
): (name: string, body: () => Promise<void>) => void {
  const waiting: (() => Promise<void>)[] = []
  const busy: Promise<void>[] = []
  const lane = async (): Promise<void> => {
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) await next()
  }
  beforeAll(async () => {
    await before()
    busy.push(...Array.from({ length: atATime }, lane))
  }, 600_000)
  // The bodies of tests that Jest skips run too, so wait for all bodies.
  afterAll(async () => {
    await Promise.all(busy)
  })
  return (name, body) => {
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    // The body may fail long before its Jest test awaits the promise.
    promise.catch(() => {})
    waiting.push(() => body().then(resolve, reject))
    test(name, () => promise)
  }
}
