import canonicalize from 'canonicalize'
import fc from 'fast-check'
import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import type { Client } from '@temporalio/client'
import { msToTs } from '@temporalio/common/lib/time.js'
import { byteCache, counted, heapBytes } from '../../src/shared/byte-cache.ts'
import { canonicalJson, hashOf, sha256 } from '../../src/shared/canonical-json.ts'
import { freeBytes } from '../../src/shared/free-bytes.ts'
import { createJoined } from '../../src/shared/joined.ts'
import type { Log } from '../../src/shared/log.ts'
import { hasSearchAttributes, createTemporalClient } from '../../src/shared/temporal.ts'
import { nextTurn, runInTurn } from '../../src/shared/time-slices.ts'
import { until } from '../stack/until.ts'
import { testTemporal } from '../support/stack.ts'

const mebibyte = 1024 * 1024

test('the kept values stay within the limit of bytes, whatever is added and in whatever order', () => {
  const moves = fc.array(fc.tuple(fc.constantFrom('a', 'b', 'c', 'd', 'e', 'f'), fc.nat(3_000)))
  fc.assert(
    fc.property(moves, (puts) => {
      const recent = byteCache<number>(10_000)
      const weights = new Map<string, number>()
      for (const [key, bytes] of puts) {
        recent.set(key, bytes, counted(bytes))
        weights.set(key, bytes)
        const kept = [...weights].filter(([each]) => recent.get(each) !== undefined)
        for (const [each, weight] of kept) expect(recent.get(each)).toBe(weight)
        expect(recent.size).toBe(kept.length)
        expect(kept.reduce((sum, [, weight]) => sum + weight, 0)).toBeLessThanOrEqual(10_000)
      }
    }),
  )
})

test('the number of values without size is limited by their keys', () => {
  const recent = byteCache<true>(mebibyte)
  for (let index = 0; index < 100_000; index += 1) recent.set(`run_${index}/step`, true, counted(0))
  expect(recent.size).toBeGreaterThan(1_000)
  expect(recent.size).toBeLessThan(3_000)
})

test('drops the least recently used entry first, and never keeps an entry above a quarter of the limit', () => {
  const recent = byteCache<string>(5_000)
  for (const key of ['a', 'b', 'c', 'd']) recent.set(key, key, counted(688))
  expect(recent.get('a')).toBe('a')
  recent.set('e', 'e', counted(688))
  expect(['a', 'b', 'c', 'd', 'e'].filter((key) => recent.get(key) !== undefined)).toEqual(['a', 'c', 'd', 'e']) // prettier-ignore
  recent.set('a', 'large', counted(1_000))
  expect(recent.get('a')).toBeUndefined()
  recent.delete('c')
  expect(recent.size).toBe(2)
})

test('an estimate is not below the real heap, measured in a separate process', async () => {
  const file = fileURLToPath(new URL('heap-estimates.ts', import.meta.url))
  const { stdout } = await promisify(execFile)(process.execPath, ['--expose-gc', file])
  const measured = Object.entries(JSON.parse(stdout) as Record<string, { real: number; estimate: number }>)
  expect(measured).toHaveLength(5)
  for (const [what, { real, estimate }] of measured) {
    expect([what, estimate > real / 2, estimate < real * 4]).toEqual([what, true, true])
    expect(real).toBeGreaterThan(100_000)
  }
})

test('an output nested deeper than the stack is measured too', () => {
  const depth = 200_000
  expect(heapBytes(JSON.parse('['.repeat(depth) + ']'.repeat(depth)))).toBeGreaterThan(depth * 32)
})

describe('canonicalJson', () => {
  test.each([
    // RFC 8785, 3.2.2 to 3.2.4
    [
      {
        numbers: [333333333.33333329, 1e30, 4.5, 2e-3, 0.000000000000000000000000001],
        literals: [null, true, false],
      },
      '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27]}',
    ],
    [
      { string: '\u20ac$\u000F\u000aA\'\u0042\u0022\u005c\\"\/' },
      '{"string":"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}',
    ],
    [
      {
        '\u20ac': 'Euro',
        '\r': 'CR',
        '\ufb33': 'Dalet',
        '1': 'One',
        '\ud83d\ude00': 'Smile',
        '\u0080': 'C',
        ö: 'O',
      },
      '{"\\r":"CR","1":"One","\u0080":"C","ö":"O","€":"Euro","😀":"Smile","\ufb33":"Dalet"}',
    ],
    [-0, '0'],
    [[], '[]'],
  ])('%j', (value, text) => {
    expect(canonicalJson(value)).toBe(text)
  })

  test.each([
    [undefined],
    [Number.NaN],
    [Number.POSITIVE_INFINITY],
    [{ a: Number.NaN }],
    ['\ud800'],
    [{ '\\ud800\udc00\udc00': 1 }],
  ])('refuses %p, which JSON cannot hold', (value) => {
    expect(() => canonicalJson(value)).toThrow()
  })

  test('law: the result is JSON of the same value and does not depend on the order of keys', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        const text = canonicalJson(value)
        expect(JSON.parse(text)).toEqual(JSON.parse(JSON.stringify(value)))
        expect(canonicalJson(JSON.parse(text))).toBe(text)
        expect(canonicalJson(reversed(value))).toBe(text)
      }),
    )
  })
})

test('law: the result equals that of another implementation of RFC 8785, for numbers, texts and keys of every kind', () => {
  const { object } = fc.letrec((tie) => ({
    object: fc.dictionary(fc.string({ unit: 'binary' }), tie('value'), { maxKeys: 40 }),
    value: fc.oneof(
      fc.string({ unit: 'binary' }),
      fc.double({ noNaN: true, noDefaultInfinity: true }),
      fc.maxSafeInteger(),
      fc.constantFrom(null, true, false, {}, [], '\\ud800', '\u2028\u007f', 1e21, -0),
      fc.array(tie('value'), { maxLength: 5 }),
      tie('object'),
    ),
  }))
  fc.assert(
    fc.property(object, (value) => {
      expect(outcome(() => canonicalJson(value))).toBe(outcome(() => canonicalize(value)))
    }),
    { numRuns: 1_000 },
  )
})

/** The result, or `refused`. Both implementations refuse texts with half a surrogate pair. */
function outcome(write: () => unknown): unknown {
  try {
    return write()
  } catch {
    return 'refused'
  }
}

function reversed(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(reversed)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value)
      .reverse()
      .map(([key, each]) => [key, reversed(each)]),
  )
}

test('sha256 is lower-case hex over UTF-8 (FIPS 180-2 and a character of four bytes)', () => {
  expect(sha256('abc')).toBe('ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad')
  expect(sha256('😀')).toBe('f0443a342c5ef54783a111b51ba56c938e474c32324d90c3a60c9c8e3a37e2d9')
})

test('hashOf hashes the canonical form', () => {
  expect(hashOf({ b: 1, a: 2 })).toBe(sha256('{"a":2,"b":1}'))
})

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

test('calls with one key share a read until it begins', async () => {
  const joined = createJoined()
  const mayBegin = Promise.withResolvers<void>()
  let reads = 0
  const read = async (begins: () => void): Promise<number> => {
    await mayBegin.promise
    begins()
    reads += 1
    return reads
  }
  const first = [joined.join('a', read), joined.join('a', read)]
  const other = joined.join('b', async () => 'other')
  mayBegin.resolve()
  expect(await Promise.all([...first, other])).toEqual([1, 1, 'other'])
  expect(await joined.join('a', read)).toBe(2)
})

test('a call during a read gets a read of its own, so that it misses no change', async () => {
  const joined = createJoined()
  const [isReading, mayEnd] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const early = joined.join('a', async (begins) => {
    begins()
    isReading.resolve()
    await mayEnd.promise
    return 'early'
  })
  await isReading.promise
  const late = joined.join('a', async () => 'late')
  mayEnd.resolve()
  expect(await Promise.all([early, late])).toEqual(['early', 'late'])
})

test('all callers get the error of their read, and the next call reads again', async () => {
  const joined = createJoined()
  const fail = async (): Promise<never> => {
    throw new Error('away')
  }
  const both = [joined.join('a', fail), joined.join('a', fail)]
  for (const each of both) await expect(each).rejects.toThrow('away')
  expect(await joined.join('a', async () => 1)).toBe(1)
})

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

describe('search attributes', () => {
  /** Temporal's numbers of value types. */
  const keyword = 2
  const keywordList = 7
  const day = msToTs('1 day')

  let address: string
  const clients: ReturnType<typeof createTemporalClient>[] = []
  beforeAll(async () => {
    address = (await testTemporal()).address
  })
  afterAll(() => Promise.all(clients.map((client) => client.connection.close())))

  /** A client of a new namespace with these attributes. */
  async function clientWith(namespace: string, searchAttributes: Record<string, number>): Promise<Client> {
    const config = { address, namespace, taskQueue: 'q', tls: false, apiKey: null, tlsCertFile: null, tlsKeyFile: null } // prettier-ignore
    const client = createTemporalClient(config)
    clients.push(client)
    const { workflowService, operatorService } = client.connection
    await workflowService.registerNamespace({ namespace, workflowExecutionRetentionPeriod: day })
    await until('the namespace is there', () =>
      operatorService.addSearchAttributes({ namespace, searchAttributes }).then(
        () => true,
        () => false,
      ),
    )
    return client
  }

  test('missing ones are registered', async () => {
    const client = await clientWith('missing', { CountersignState: keyword })
    const warnings: unknown[] = []
    expect(await hasSearchAttributes(client, { warn: (...all: unknown[]) => warnings.push(all) } as unknown as Log)).toBe(true) // prettier-ignore
    expect(warnings).toEqual([])
    const { customAttributes } = await client.connection.operatorService.listSearchAttributes({
      namespace: 'missing',
    })
    expect(customAttributes).toMatchObject({ CountersignWaitingOn: keywordList, CountersignRisk: keyword })
  })

  test('if one has another type, runs go without it, and the log says what to create', async () => {
    const client = await clientWith('wrong', { CountersignWaitingOn: keyword })
    const warnings: string[] = []
    const log = {
      warn: ({ err }: { err: Error }, text: string) => warnings.push(err.message, text),
    } as unknown as Log
    expect(await hasSearchAttributes(client, log)).toBe(false)
    expect(warnings.join(' ')).toMatch(
      /^CountersignWaitingOn: has another type .*CountersignWaitingOn \(KeywordList\)/,
    )
  })
})
