import { expect, test } from '@jest/globals'
import { freeBytes } from '../../src/shared/free-bytes.ts'

test('the memory of large bytes is given back at once', () => {
  const bytes = Buffer.alloc(20_000)
  const { buffer } = bytes
  freeBytes(bytes)
  expect([bytes.length, buffer.byteLength]).toEqual([0, 0])
})

test.each([
  ['bytes that share their memory', () => Buffer.alloc(50_000).subarray(0, 40_000)],
  ['few bytes', () => Buffer.alloc(100)],
  ['bytes of two threads', () => Buffer.from(new SharedArrayBuffer(20_000))],
])('%s stay as they are', (_, make) => {
  const bytes = make()
  const { length } = bytes
  freeBytes(bytes)
  expect(bytes).toHaveLength(length)
})
