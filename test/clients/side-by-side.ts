import { afterAll, beforeAll, test } from '@jest/globals'

/**
 * A `test` for tests that mostly wait, as those of clients do: their bodies run `atATime` side by side, in the order in
 * which they are written, and Jest's own test waits for its body's end. `before` runs first.
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
  // Those that Jest was told to leave out run all the same.
  afterAll(async () => {
    await Promise.all(busy)
  })
  return (name, body) => {
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    // It may fail long before its test comes to look.
    promise.catch(() => {})
    waiting.push(() => body().then(resolve, reject))
    test(name, () => promise)
  }
}
