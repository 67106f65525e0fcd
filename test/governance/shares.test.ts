import { describe, expect, test } from '@jest/globals'
import { createEntry, createShares } from '../../src/governance/shares.ts'

/** Whether it resolves without anything else happening. */
async function isIn(entering: Promise<unknown>): Promise<boolean> {
  return Promise.race([entering.then(() => true), new Promise<boolean>((no) => setImmediate(no, false))])
}

describe('shares', () => {
  test('give an organization that is alone many places, and few beside another one', async () => {
    const shares = createShares()
    const first = Array.from({ length: 64 }, () => shares.enter('a', 'small'))
    expect(await Promise.all(first.map(isIn))).not.toContain(false)
    expect(await isIn(shares.enter('a', 'small'))).toBe(false)
    const others = Array.from({ length: 6 }, () => shares.enter('b', 'small'))
    expect(await Promise.all(others.map(isIn))).not.toContain(false)
    expect(await isIn(shares.enter('b', 'small'))).toBe(false)
  })

  test('let the next request in when one is over, in their order', async () => {
    const shares = createShares()
    await shares.enter('b', 'small')
    const leave = await shares.enter('a', 'large')
    const order: number[] = []
    const waiting = [1, 2].map(async (n) => {
      const end = await shares.enter('a', 'large')
      order.push(n)
      return end
    })
    await isIn(waiting[0] as Promise<unknown>)
    expect(order).toEqual([])
    leave()
    leave()
    const second = await (waiting[0] as Promise<() => void>)
    expect(await isIn(waiting[1] as Promise<unknown>)).toBe(false)
    second()
    await waiting[1]
    expect(order).toEqual([1, 2])
  })

  test('are large again once the other organization has sent nothing for ten seconds', async () => {
    let now = 0
    const shares = createShares(() => now)
    await shares.enter('b', 'large')
    await shares.enter('a', 'large')
    expect(await isIn(shares.enter('a', 'large'))).toBe(false)
    now = 10_001
    expect(await isIn(shares.enter('c', 'large'))).toBe(true)
    expect(await isIn(shares.enter('c', 'large'))).toBe(true)
  })

  test('refuse a request when a thousand wait', async () => {
    const shares = createShares()
    const all = Array.from({ length: 1_002 }, () => shares.enter('a', 'large'))
    await Promise.all(all.slice(0, 2))
    await expect(shares.enter('a', 'large')).rejects.toMatchObject({ code: 'rate_limited' })
    expect(await isIn(shares.enter('b', 'large'))).toBe(true)
  })

  test('count a request once, however often it is admitted and ended', async () => {
    const shares = createShares()
    await shares.enter('b', 'large')
    const entry = createEntry(shares, 'a')
    await entry.admit('large')
    await entry.admit('small')
    const next = shares.enter('a', 'large')
    expect(await isIn(next)).toBe(false)
    entry.leave()
    entry.leave()
    expect(await isIn(next)).toBe(true)
    expect(await isIn(shares.enter('a', 'large'))).toBe(false)
  })
})
