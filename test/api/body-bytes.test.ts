import type { IncomingMessage } from 'node:http'
import { Readable } from 'node:stream'
import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { arrived, Collected } from '../../src/api/body-bytes.ts'
import { ApiError } from '../../src/api/errors.ts'

test('pieces of any size are collected in their order', () => {
  const lengths = fc.oneof(fc.integer({ min: 0, max: 20 }), fc.integer({ min: 4_000, max: 5_000 }))
  fc.assert(
    fc.property(fc.array(lengths, { maxLength: 600 }), (each) => {
      const collected = new Collected()
      const pieces = each.map((length, n) => Buffer.alloc(length, n))
      for (const piece of pieces) collected.add(piece)
      expect(collected.whole().equals(Buffer.concat(pieces))).toBe(true)
    }),
  )
})

test('many small pieces take a few buffers, and large pieces stay as they are', () => {
  const collected = new Collected()
  for (let n = 0; n < 1_000; n += 1) collected.add(Buffer.from('x'))
  const large = Buffer.alloc(100_000, 'y')
  collected.add(large)
  expect(collected.blocks().length).toBeLessThan(300)
  expect(collected.blocks().at(-1)).toBe(large)
})

test('the memory of large pieces can be given back', () => {
  const collected = new Collected()
  const large = Buffer.alloc(100_000)
  collected.add(large)
  collected.free()
  expect([large.length, collected.blocks().length]).toEqual([0, 0])
})

describe('a body that has arrived', () => {
  const limits = { bytes: 10_000, tooLarge: () => new ApiError('too_large', 'too large') }
  const read = async (pieces: readonly Buffer[]) => {
    const admitted: [number, number][] = []
    const request = Readable.from(pieces) as unknown as IncomingMessage
    const body = await arrived(request, async (...each) => void admitted.push(each), limits).then(
      (collected) => collected.whole(),
      (error: ApiError) => `${error.code} after ${error.worked.toFixed(3)} ms`,
    )
    return { body, admitted }
  }

  test('is admitted with the work that its pieces cost', async () => {
    const { body, admitted } = await read([Buffer.from('a'), Buffer.from('b')])
    expect(body.toString()).toBe('ab')
    expect(admitted).toEqual([[expect.closeTo(0.02, 4), 2]])
  })

  test('is not admitted if it is refused, and its error has the work that it cost', async () => {
    const { body, admitted } = await read([Buffer.alloc(6_000), Buffer.alloc(6_000)])
    expect(body).toBe('too_large after 0.043 ms')
    expect(admitted).toEqual([])
  })

  test('gives the error of its admission, and asks for it once', async () => {
    let asked = 0
    const full = async (): Promise<void> => {
      asked += 1
      throw new ApiError('rate_limited', 'full')
    }
    const request = Readable.from([Buffer.from('a')]) as unknown as IncomingMessage
    await expect(arrived(request, full, limits)).rejects.toMatchObject({ code: 'rate_limited' })
    expect(asked).toBe(1)
  })
})
