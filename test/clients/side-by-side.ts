import { afterAll, beforeAll, test } from '@jest/globals'

/**
 * A `test` for tests that mostly wait, such as those of clients. Their bodies run `atATime` in parallel, in the order
 * in which they are written, and Jest's own test waits for its body's end. `before` runs first.
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
  // Bodies of tests that Jest skips run too.
  afterAll(async () => {
    await Promise.all(busy)
  })
  return (name, body) => {
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    // It may fail long before its test awaits it.
    promise.catch(() => {})
    waiting.push(() => body().then(resolve, reject))
    test(name, () => promise)
  }
}
