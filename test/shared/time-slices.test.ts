import { describe, expect, test } from '@jest/globals'
import { runInTurn, nextTurn } from '../../src/shared/time-slices.ts'

/** Keeps the thread busy, as work does. */
function burn(milliseconds: number): void {
  const end = performance.now() + milliseconds
  while (performance.now() < end);
}

describe('turns', () => {
  test('come in the order in which they were requested', async () => {
    const order: number[] = []
    const last = Array.from({ length: 300 }, (_, n) =>
      n % 2 === 0
        ? nextTurn().then(() => order.push(n))
        : new Promise<void>((resolve) => {
            runInTurn(() => {
              order.push(n)
              resolve()
            })
          }),
    )
    await Promise.all(last)
    expect(order).toEqual(Array.from({ length: 300 }, (_, n) => n))
  })

  test('let other events of the thread pass between them', async () => {
    let passed = 0
    let isOver = false
    const count = (): void => {
      if (isOver) return
      passed += 1
      setImmediate(count)
    }
    setImmediate(count)
    await Promise.all(Array.from({ length: 40 }, () => nextTurn().then(() => burn(0.5))))
    isOver = true
    // 20 ms of work in slices of 1 ms. Without slices, the count would be one or two.
    expect(passed).toBeGreaterThan(10)
  })

  test('begin when all that follows at once from the one before is done', async () => {
    const order: string[] = []
    const steps = async (name: string): Promise<void> => {
      await nextTurn()
      for (let n = 0; n < 5; n += 1) {
        order.push(name)
        await Promise.resolve()
      }
    }
    await Promise.all(['a', 'b', 'c'].map(steps))
    expect(order.join('')).toBe('aaaaabbbbbccccc')
  })

  test('also work for calls that come while others run, and after all have run', async () => {
    const order: string[] = []
    await new Promise<void>((resolve) => {
      runInTurn(() => {
        order.push('first')
        runInTurn(() => {
          order.push('second')
          resolve()
        })
      })
    })
    await nextTurn()
    expect(order).toEqual(['first', 'second'])
  })
})
