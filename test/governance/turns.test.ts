import { describe, expect, test } from '@jest/globals'
import { later, turn } from '../../src/governance/turns.ts'

/** Keeps the thread busy, as work does. */
function burn(milliseconds: number): void {
  const end = performance.now() + milliseconds
  while (performance.now() < end);
}

describe('turns', () => {
  test('come in the order they were asked for, whoever asks', async () => {
    const order: number[] = []
    const last = Array.from({ length: 300 }, (_, n) =>
      n % 2 === 0
        ? turn().then(() => order.push(n))
        : new Promise<void>((resolve) => {
            later(() => {
              order.push(n)
              resolve()
            })
          }),
    )
    await Promise.all(last)
    expect(order).toEqual(Array.from({ length: 300 }, (_, n) => n))
  })

  test('let what else waits for the thread pass between them', async () => {
    let passed = 0
    let isOver = false
    const count = (): void => {
      if (isOver) return
      passed += 1
      setImmediate(count)
    }
    setImmediate(count)
    await Promise.all(Array.from({ length: 40 }, () => turn().then(() => burn(0.5))))
    isOver = true
    // Of 20 ms in goes of one: all at once would be one or two.
    expect(passed).toBeGreaterThan(10)
  })

  test('begin when all that follows at once from the one before is done', async () => {
    const order: string[] = []
    const steps = async (name: string): Promise<void> => {
      await turn()
      for (let n = 0; n < 5; n += 1) {
        order.push(name)
        await Promise.resolve()
      }
    }
    await Promise.all(['a', 'b', 'c'].map(steps))
    expect(order.join('')).toBe('aaaaabbbbbccccc')
  })

  test('are there for those that come while others run, and after all have run', async () => {
    const order: string[] = []
    await new Promise<void>((resolve) => {
      later(() => {
        order.push('first')
        later(() => {
          order.push('second')
          resolve()
        })
      })
    })
    await turn()
    expect(order).toEqual(['first', 'second'])
  })
})
