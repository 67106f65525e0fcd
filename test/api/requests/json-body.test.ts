import fc from 'fast-check'
import { once } from 'node:events'
import { createServer, request as httpRequest, type IncomingMessage } from 'node:http'
import { Readable } from 'node:stream'
import { text as textOf } from 'node:stream/consumers'
import { afterAll, afterEach, beforeAll, describe, expect, jest, test } from '@jest/globals'
import {
  mostNames,
  mostValues,
  parseJson,
  readJsonBody,
  flawOf,
  sizeOf,
  syntaxErrorOf,
} from '../../../src/api/json-body.ts'
import { arrived, Collected } from '../../../src/api/body-bytes.ts'
import { ApiError } from '../../../src/api/errors.ts'
import { listen, type TestServer } from '../server.ts'
import { useServer } from '../use-server.ts'
import { sendScattered } from '../bodies/scattered.ts'

const bytes = (text: string): Uint8Array => Buffer.from(text, 'utf8')
const nested = (depth: number): string => `${'['.repeat(depth)}${']'.repeat(depth)}`

describe('parseJson', () => {
  test('reads every JSON value that can be stored, unchanged', () => {
    const isExact = (value: unknown): boolean => {
      let some = true
      JSON.stringify(value, (_key, each: unknown) => {
        if (Number.isInteger(each) && !Number.isSafeInteger(each)) some = false
        return each
      })
      return some
    }
    const exact = fc.jsonValue({ maxDepth: 5 }).filter((value) => {
      const text = JSON.stringify(value)
      const isStorable = !/\\u0000|__proto__|constructor|prototype|\\ud[89a-f]/i.test(text)
      return isStorable && text.isWellFormed() && isExact(value)
    })
    fc.assert(
      fc.property(exact, (value) => {
        expect(parseJson(bytes(JSON.stringify(value)))).toEqual(JSON.parse(JSON.stringify(value)))
      }),
    )
  })

  test('finds a key that an object has twice, wherever it is', () => {
    const key = fc.string().filter((text) => !/^(__proto__|constructor|prototype|0)$|[^ -~]/.test(text))
    const texts = fc.constantFrom('"', '\\"', '}', '{"a":')
    const leaf = fc.oneof(fc.integer(), fc.string(), fc.constant(null), fc.boolean(), texts)
    const { value } = fc.letrec((tie) => ({
      value: fc.oneof(
        { maxDepth: 4 },
        leaf,
        fc.array(tie('value'), { maxLength: 4 }),
        fc.dictionary(key, tie('value'), { maxKeys: 4 }),
      ),
    }))
    fc.assert(
      fc.property(value, fc.array(key, { maxLength: 3 }), key, (inside, above, twice) => {
        expect(flawOf(JSON.stringify(inside, null, 1))).toBeNull()
        const pair = `{${JSON.stringify(twice)}:${JSON.stringify(inside)},${JSON.stringify(twice)}:1}`
        const text = above.reduce(
          (rest, name) => `{${JSON.stringify(name)}:[${JSON.stringify(inside)},${rest}]}`,
          pair,
        )
        expect(flawOf(text)).toEqual({
          kind: 'repeated',
          path: [...above.toReversed().flatMap((name) => [name, 1]), twice],
        })
      }),
    )
  })

  test('a whole number is refused exactly where other parsers would read another number', () => {
    const digits = fc.bigInt({ min: -(2n ** 60n), max: 2n ** 60n })
    const near = fc
      .bigInt({ min: -4n, max: 4n })
      .chain((by) => fc.constantFrom(2n ** 53n + by, -(2n ** 53n) - by))
    const place = fc.constantFrom(...['#', ' # ', '[#]', '[0,#,0]', '{"a":#}', '{"a":{"b":[#]},"c":-0.5E+3}'])
    fc.assert(
      fc.property(fc.oneof(digits, near), place, (number, around) => {
        const isSafe = number >= Number.MIN_SAFE_INTEGER && number <= Number.MAX_SAFE_INTEGER
        expect([number, flawOf(around.replace('#', `${number}`))?.kind]).toEqual([
          number,
          isSafe ? undefined : 'inexact',
        ])
      }),
    )
  })

  test.each([
    ...['9007199254740991', '-9007199254740991', '6.02214076e+23', '9007199254740993.5', '1e300'],
    '0.12345678901234567890',
  ])('%s is read', (number) => {
    expect(parseJson(bytes(`{"a":${number}}`))).toEqual({ a: Number(number) })
  })

  test('a text of many digits is read', () => {
    expect(parseJson(bytes(`{"a":"99999999999999999999"}`))).toEqual({ a: '99999999999999999999' })
  })

  test('a megabyte of keys, or of one string, is searched quickly', () => {
    const keys = Array.from({ length: 80_000 }, (_, index) => `"k${index}":1`).join(',')
    expect(flawOf(`{${keys}}`)).toBeNull()
    expect(flawOf(`["${'\\\\'.repeat(400_000)}"]`)).toBeNull()
  })

  test('values are counted before they are parsed, and text in strings does not count', () => {
    const list = (count: number): string =>
      `[${Array.from({ length: count - 1 }, () => '"a,\\",[{"').join()}]`
    expect(parseJson(bytes(list(1_000)), 1_000)).toHaveLength(999)
    for (const text of [
      list(1_001),
      `{"a":${list(1_000)}}`,
      `[${'[],'.repeat(501)}`,
      `{${'{},'.repeat(1_001)}`,
    ])
      expect(() => parseJson(bytes(text), 1_000)).toThrow(
        expect.objectContaining({ code: 'bad_request', message: expect.stringContaining('1000 values') }),
      )
    const exceeds = (text: string, most: number) => sizeOf(text, most, 64).values > most
    for (const text of ['"', `"${'\\'.repeat(5_000)}`, `"${','.repeat(5_000)}`])
      expect(exceeds(text, 1_000)).toBe(false)
    const counted = fc.jsonValue({ maxDepth: 4 }).map((value) => {
      let values = -1
      JSON.stringify({ value }, (_key, each: unknown) => ((values += 1), each))
      return { text: JSON.stringify(value), values }
    })
    fc.assert(
      fc.property(counted, ({ text, values }) => {
        // An empty list or object counts as two values, because it could contain one.
        expect(exceeds(text, values - 1)).toBe(values > 0)
        expect(exceeds(text, 2 * values)).toBe(false)
      }),
    )
  })

  test('100,000 values are read and one more is not, on every route', () => {
    const zeros = (count: number) => bytes(`[${Array.from({ length: count }, () => '0').join()}]`)
    expect(parseJson(zeros(mostValues - 1))).toHaveLength(99_999)
    expect(() => parseJson(zeros(mostValues))).toThrow('the body has more than 100000 values: send fewer')
  })

  test('10,000 different names are read, also many times over, and one more is not', () => {
    const named = (count: number) =>
      JSON.stringify(Object.fromEntries(Array.from({ length: count }, (_, n) => [`k${n}`, 0])))
    expect(parseJson(bytes(`[${named(mostNames)},${named(mostNames)}]`))).toHaveLength(2)
    for (const text of [named(mostNames + 1), `[${named(mostNames)},{"another":0}]`])
      expect(() => parseJson(bytes(text))).toThrow('the body has more than 10000 different names: send fewer')
  })

  test('a name has at most 1,000 characters, and a longer one is not shown in whole', () => {
    expect(parseJson(bytes(`{"${'k'.repeat(1_000)}":0}`))).toBeDefined()
    const path = `a.0.${'k'.repeat(100)}…`
    const message = expect.stringContaining('has a name of more than 1,000 characters: shorten it')
    expect(() => parseJson(bytes(`{"a":[{"${'k'.repeat(1_001)}":0}]}`))).toThrow(
      expect.objectContaining({ code: 'bad_request', details: [{ path, message }] }),
    )
  })

  test('64 levels are read, 65 are refused, and 500,000 do not end the process', () => {
    expect(parseJson(bytes(nested(64)))).toBeDefined()
    for (const depth of [65, 500_000])
      expect(() => parseJson(bytes(nested(depth)))).toThrow(expect.objectContaining({ code: 'bad_request' }))
  })

  test.each([
    ['no JSON', bytes('{"a":'), ''],
    ['text after it', bytes('{} {}'), ''],
    ['not UTF-8', Buffer.from([0x22, 0xff, 0x22]), ''],
    ['UTF-16', Buffer.from('{}', 'utf16le'), ''],
    ['a NUL in a string', bytes('{"a":{"b":["x","\\u0000"]}}'), 'a.b.1'],
    ['a NUL in a key', bytes('{"a\\u0000":1}'), ''],
    ['half a surrogate pair', bytes('{"a":"\\ud800"}'), 'a'],
    ['a number that is not valid', bytes('{"a":1e999}'), 'a'],
    ['__proto__', bytes('{"a":{"__proto__":{"admin":true}}}'), 'a.__proto__'],
    ['constructor', bytes('{"constructor":1}'), 'constructor'],
    ['prototype', bytes('[{"prototype":1}]'), '0.prototype'],
    ['a key given twice', bytes('{"verdict":"deny","verdict":"allow"}'), 'verdict'],
    ['a key given twice with the same value', bytes('{"a":1, "a" :1}'), 'a'],
    ['a key given twice, once escaped', bytes('{"a":1,"\\u0061":2}'), 'a'],
    ['a key given twice, deeper', bytes('{"x":[1,{"b":[]},{"c":{"d":1,"e":[],"d":2}}]}'), 'x.2.c.d'],
    ['a key with quotes in it, given twice', bytes('{"q\\"{":1,"y":"\\\\","q\\"{":2}'), 'q"{'],
    ['an empty key given twice', bytes('[{"":1,"":2}]'), '0.'],
    ['2^53', bytes('{"a":[1,{"b":9007199254740992}]}'), 'a.1.b'],
    ['-2^53 - 1, which is read as -2^53', bytes('[1.5e3, -9007199254740993 ]'), '1'],
    ['a number of 400 digits', bytes(`{"a":${'9'.repeat(300)}}`), 'a'],
    ['a whole number alone', bytes('12345678901234567890'), ''],
  ])('refuses %s, naming the place', (_, body, path) => {
    try {
      parseJson(body)
      throw new Error('was read')
    } catch (error) {
      expect(error).toMatchObject({ code: 'bad_request' })
      const { details } = error as { details: { path: string }[] }
      if (path !== '') expect(details[0]?.path).toBe(path)
    }
  })
})

describe('readJsonBody', () => {
  let base: string
  const limit = 1000
  const server = createServer((request: IncomingMessage, response) => {
    readJsonBody(request, request.url === '/large' ? 10 * limit + limit : limit).then(
      (value) => response.end(JSON.stringify({ value })),
      (error: { code: string }) => response.end(JSON.stringify({ code: error.code })),
    )
  })
  beforeAll(async () => {
    base = await listen(server)
  })
  afterAll(() => {
    server.closeAllConnections()
    server.close()
  })
  const json = { 'content-type': 'application/json' }
  const send = async (body: string | undefined, headers: Record<string, string> = json) => {
    const response = await fetch(base, { method: 'POST', headers, ...(body === undefined ? {} : { body }) })
    return (await response.json()) as { value?: unknown; code?: string }
  }
  /** Sends a body in these chunks. */
  const sendChunks = async (path: string, first: string, others: Iterable<string>): Promise<unknown> => {
    const request = httpRequest(`${base}${path}`, { method: 'POST', headers: json })
    request.write(first)
    for (const chunk of others) request.write(chunk)
    request.end()
    const [response] = (await once(request, 'response')) as [IncomingMessage]
    return JSON.parse(await textOf(response))
  }

  test.each(['application/json', 'application/json; charset=utf-8', 'Application/JSON;charset="UTF-8"'])(
    '%s is read',
    async (type) => {
      expect(await send('{"a":1}', { 'content-type': type })).toEqual({ value: { a: 1 } })
    },
  )

  test.each([
    ...['text/plain', 'application/json; charset=latin1', 'application/jsonx'],
    ...['multipart/form-data; boundary=x', 'application/x-www-form-urlencoded'],
  ])('%s is not', async (type) => {
    expect(await send('{"a":1}', { 'content-type': type })).toEqual({ code: 'unsupported_media_type' })
  })

  test('an encoded body is refused unread', async () => {
    const headers = { ...json, 'content-encoding': 'gzip' }
    expect(await send('{"a":1}', headers)).toEqual({ code: 'unsupported_media_type' })
  })

  test('a missing body counts as none, whatever its type says', async () => {
    expect(await send(undefined, {})).toEqual({})
    expect(await send(undefined, { 'content-type': 'text/plain' })).toEqual({})
  })

  test('a body in chunks is read, up to 10,000 chunks', async () => {
    const spaces = (count: number) =>
      sendChunks(
        '/large',
        '1',
        Array.from({ length: count }, () => ' '),
      )
    expect(await spaces(9_999)).toEqual({ value: 1 })
    expect(await spaces(10_000)).toEqual({ code: 'too_large' })
  })

  test('a body that was read leaves no listener on its request, so nothing keeps its bytes', async () => {
    const counted = createServer((request, response) => {
      const count = () => request.eventNames().map((name) => request.listenerCount(name))
      const before = count()
      void readJsonBody(request, limit).then(() => response.end(JSON.stringify([before, count()])))
    })
    const address = await listen(counted)
    const answer = await fetch(address, { method: 'POST', headers: json, body: '{"a":1}' })
    const [before, after] = (await answer.json()) as number[][]
    expect(after).toEqual(before)
    counted.closeAllConnections()
    counted.close()
  })

  test('a body of exactly the limit is read, one byte more is not, declared or not', async () => {
    const body = (length: number) => JSON.stringify('x'.repeat(length - 2))
    expect(await send(body(limit))).toHaveProperty('value')
    expect(await send(body(limit + 1))).toEqual({ code: 'too_large' })
    expect(await sendChunks('', body(limit), ['"'])).toEqual({ code: 'too_large' })
  })
})

describe('the place of a syntax error', () => {
  test.each([
    ['', 1, 1, 'a value'],
    ['{"a": }', 1, 7, 'a value'],
    ['{"a": 1,\n "b" 2}', 2, 6, '`:`'],
    ['{\r\n  "a": [1, 2,],\r\n}', 2, 14, 'a value'],
    ['{"a": 1,}', 1, 9, 'a name in double quotes'],
    ["{'a': 1}", 1, 2, 'a name in double quotes or `}`'],
    ['[1 2]', 1, 4, '`,` or `]`'],
    ['{"a": 1 "b"}', 1, 9, '`,` or `}`'],
    ['{"a": abc}', 1, 7, 'a value'],
    ['{"a": nul}', 1, 10, '`null`'],
    ['[01]', 1, 3, '`,` or `]`'],
    ['[1.]', 1, 4, 'a digit'],
    ['[-]', 1, 3, 'a digit'],
    ['[1e+]', 1, 5, 'a digit'],
    ['{} {}', 1, 4, 'the end of the body'],
    ['\n\n\n{"a": "x\ny"}', 4, 9, '`"`, or an escape'],
    ['["\\x"]', 1, 4, 'an escape'],
    ['["\\u00g0"]', 1, 7, 'a hexadecimal digit'],
    ['{"a": "x', 1, 9, '`"`'],
    ['{"a": 1', 1, 8, '`,` or `}`'],
    [']', 1, 1, 'a value'],
    ['[}', 1, 2, 'a value or `]`'],
  ])('%j: line %i, column %i', (text, line, column, expected) => {
    expect(syntaxErrorOf(text)).toMatchObject({ line, column, expected: expect.stringContaining(expected) })
  })

  test('is in the answer, without any part of the body', () => {
    const parse = (text: string) => parseJson(new TextEncoder().encode(text))
    expect(() => parse('{\n  "password": "hunter2"\n  "name": "x"\n}')).toThrow(
      'the body is not JSON: line 3, column 3: expected `,` or `}`',
    )
    expect(() => parse('{"a": [')).toThrow('line 1, column 8: expected a value or `]`, but the body ends')
    expect(() => parseJson(Uint8Array.of(0x22, 0xff, 0x22))).toThrow('the body is not UTF-8')
  })
})

describe('any text', () => {
  const words = ['true', 'null', 'false', '\\u00e9', '"a"', '1']
  const marks = fc.constantFrom(...Array.from('{}[]:,"\\ \n\tu0019.eE+-tfnxé'), ...words)
  const soup = fc.array(marks, { maxLength: 12 }).map((parts) => parts.join(''))
  /** JSON text with one character removed or inserted. */
  const broken = fc
    .tuple(fc.json({ maxDepth: 3 }), fc.nat(), marks, fc.boolean())
    .map(([text, at, mark, isAdded]) => {
      const place = at % (text.length + 1)
      return text.slice(0, place) + (isAdded ? mark : '') + text.slice(isAdded ? place : place + 1)
    })
  const isJson = (text: string): boolean => {
    try {
      JSON.parse(text)
      return true
    } catch {
      return false
    }
  }

  test('has an error exactly if it is not JSON, and no text that begins the same has a later one', () => {
    let found = 0
    fc.assert(
      fc.property(fc.oneof(soup, broken), fc.oneof(soup, fc.constant('')), (text, other) => {
        const error = syntaxErrorOf(text)
        expect(error === null).toBe(isJson(text))
        if (error === null || error.isAtEnd) return
        found += 1
        const lines = text.split('\n')
        const before = lines.slice(0, error.line - 1).reduce((sum, line) => sum + line.length + 1, 0)
        const beginning = text.slice(0, before + error.column)
        expect(isJson(beginning + other)).toBe(false)
        expect(syntaxErrorOf(beginning.slice(0, -1))?.isAtEnd ?? true).toBe(true)
      }),
      { numRuns: 3_000 },
    )
    expect(found).toBeGreaterThan(500)
  })
})

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

let server: TestServer
const { keyOf } = useServer((started) => (server = started))
afterEach(() => void jest.restoreAllMocks())

/** Sends a body in more pieces than one may have. */
const sendPieces = (path: string) => {
  const headers = { authorization: `Bearer ${keyOf('owner')}`, 'content-type': 'application/json' }
  return sendScattered(server.base, { path, headers }, { before: '{}', count: 10_200 })
}

test('the work for a refused body counts for its organization, and the answer waits for the organization’s turn', async () => {
  const { large } = server.context.shares
  const enter = large.enter.bind(large)
  const mayEnter = Promise.withResolvers<void>()
  const asks = Promise.withResolvers<void>()
  const worked: number[] = []
  jest.spyOn(large, 'enter').mockImplementation(async (organizationId) => {
    const permit = await enter(organizationId)
    asks.resolve()
    await mayEnter.promise
    return { ...permit, adds: (milliseconds: number) => void worked.push(milliseconds) }
  })
  let isAnswered = false
  const answer = sendPieces('/api/v1/workflows').finally(() => (isAnswered = true))
  await asks.promise
  expect(isAnswered).toBe(false)
  mayEnter.resolve()
  expect(await answer).toMatchObject({ status: 413 })
  // Each of the 10,001 pieces counts for 0.01 ms.
  expect(worked).toEqual([expect.closeTo(100, 0)])
})

test('a full line changes nothing about the answer', async () => {
  const { large } = server.context.shares
  jest.spyOn(large, 'enter').mockRejectedValue(new Error('too many requests are waiting'))
  expect(await sendPieces('/api/v1/workflows')).toMatchObject({ status: 413 })
})
