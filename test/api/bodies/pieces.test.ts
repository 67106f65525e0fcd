import { describe, expect, test } from '@jest/globals'
import {
  boundOf,
  costOf,
  json,
  leastCost,
  megabyte,
  mostTries,
  useMeasuredApi,
  type Cost,
  type MeasuredApi,
} from './measured-api.ts'
import { sendScattered } from './scattered.ts'

/*
 * Node's parser takes seconds of the one thread for a megabyte in chunks of one byte, and each chunk is an object in
 * memory. So a body in too many pieces is refused and its connection closes, whoever reads the body and even if nobody
 * does. The worst forms are measured here too.
 */

let measured: MeasuredApi
useMeasuredApi((started) => (measured = started))
const authorization = (): string => `Bearer ${measured.world.sender.key}`

/** Milliseconds. A body without a limit takes 1,300 or more. */
const mostCpu = 400
/** In bytes. Without a limit an upload takes 860 MiB. */
const mostMemory = 64 * megabyte
const form = { 'content-type': 'multipart/form-data; boundary=x' }
const partOf = (name: string): string =>
  `--x\r\ncontent-disposition: form-data; name="${name}"; filename="a.txt"\r\n\r\n`

test.each<[string, string, () => Record<string, string>, string]>([
  ['an uploaded file', '/files', () => ({ authorization: authorization(), ...form }), partOf('file')],
  ['a JSON body', '/workflows', () => ({ authorization: authorization(), ...json }), '{}'],
  ['the body of a request without a key', '/workflows', () => json, '{}'],
  ['the body of an unknown address', '/nowhere', () => json, '{}'],
  ['a body to the sign-in library', '/api/auth/sign-in/email', () => json, '{}'],
  [
    'a form of the console',
    '/console/sign-in',
    () => ({ origin: measured.api.url, 'content-type': 'application/x-www-form-urlencoded' }),
    'a=',
  ],
])(
  '%s in pieces of one byte is cut off before it costs much time or memory',
  async (_, path, headers, before) => {
    const body = { before, count: 2 * megabyte, after: '\r\n--x--\r\n' }
    let least = { cpu: Infinity, memory: Infinity }
    // The minimum of several tries counts, so that a busy machine does not fail the test.
    for (let tries = 0; tries < mostTries && (least.cpu > mostCpu || least.memory > mostMemory); tries += 1) {
      const began = await measured.api.usage('clean')
      const { isCut } = await sendScattered(measured.api.url, { path, headers: headers() }, body)
      const ended = await measured.api.usage()
      expect(isCut).toBe(true)
      least = {
        cpu: Math.min(least.cpu, ended.cpu - began.cpu),
        memory: Math.min(least.memory, ended.memory - began.memory),
      }
    }
    expect(least.cpu).toBeLessThan(mostCpu)
    expect(least.memory).toBeLessThan(mostMemory)
  },
)

test('a refusal that can be answered is 413', async () => {
  const headers = { authorization: authorization(), ...form }
  const body = { before: partOf('file'), count: 10_200, after: '\r\n--x--\r\n' }
  expect(await sendScattered(measured.api.url, { path: '/files', headers }, body)).toMatchObject({
    status: 413,
  })
})

test('a file in many small pieces arrives', async () => {
  const headers = { authorization: authorization(), ...form }
  const body = { before: partOf('file'), count: 9_000, after: '\r\n--x--\r\n' }
  expect(await sendScattered(measured.api.url, { path: '/files', headers }, body)).toEqual({
    status: 201,
    isCut: false,
  })
})

/** Sends each text and returns those that cost more than a usual one and the bound. */
async function slowOf(
  usual: string,
  worstTexts: Readonly<Record<string, string>>,
  send: (text: string, isAgain?: boolean) => Promise<Cost>,
): Promise<string[]> {
  let base = Infinity
  for (let tries = 0; tries < 3; tries += 1) {
    const { milliseconds, status } = await send(usual)
    base = Math.min(base, milliseconds)
    expect(status).not.toBe(404)
  }
  const found: string[] = []
  for (const [name, text] of Object.entries(worstTexts)) {
    const bound = base + boundOf(Buffer.byteLength(text))
    const { milliseconds, status } = await leastCost(bound, (isAgain) => send(text, isAgain))
    if (milliseconds > bound) found.push(`${name}: ${milliseconds - base} ms, not ${bound - base}`)
    if (status >= 500 || status === 429) found.push(`${name}: answered ${status}`)
  }
  return found
}

describe('the worst forms take no more', () => {
  const part = (head: string, content: string): string =>
    `--x\r\ncontent-disposition: form-data; ${head}\r\n\r\n${content}\r\n`
  const formOf = (content: string, around = ''): string =>
    `${around}${part('name="file"; filename="a.txt"', content)}--x--\r\n`
  const size = 4 * megabyte
  const filled = (text: string): string => text.repeat(size / text.length)

  test('POST /files', async () => {
    const labels = part('name="labels"', 'a,'.repeat(4_000))
    const worstForms = {
      'a file of line ends': formOf(filled('\r\n')),
      'a file of beginnings of boundaries': formOf(filled('\r\n--')),
      'a file of boundaries with another end': formOf(filled('\r\n--y')),
      'a file of hyphens': formOf(filled('-')),
      'a file of commas': formOf(filled(',')),
      'parts without end': `${part('name="labels"', 'a').repeat(20_000)}--x--\r\n`,
      'labels of commas': formOf('hello', labels.repeat(31)),
      'a head of a megabyte': `--x\r\n${'a: b\r\n'.repeat(170_000)}`,
      'a name of a megabyte': formOf('hello').replace('a.txt', 'a'.repeat(megabyte)),
      'a boundary in vain': '--'.repeat(megabyte),
    }
    const send = (text: string, isAgain = false) =>
      costOf(measured, { method: 'POST', path: '/files', body: text, headers: form }, isAgain)
    expect(await slowOf(formOf('hello'), worstForms, send)).toEqual([])
  })

  test('a page of the console', async () => {
    const headers = { origin: measured.api.url, 'content-type': 'application/x-www-form-urlencoded' }
    const most = 63 * 1024
    const worstForms = {
      'many fields': 'a&'.repeat(most / 2),
      'many values of a field': 'email=&'.repeat(most / 7),
      'one long value': `email=${'a'.repeat(most)}`,
      'a value of percent signs': `email=${'%'.repeat(most)}`,
      'a value of encoded bytes': `email=${'%ff'.repeat(most / 3)}`,
      'a value of spaces': `email=${'+'.repeat(most)}&password=${'+'.repeat(500)}`,
    }
    const send = async (text: string, isAgain = false): Promise<Cost> => {
      await measured.server.context.pool.query('delete from auth_rate_limits')
      return costOf(measured, { method: 'POST', path: '/console/sign-in', body: text, headers }, isAgain)
    }
    expect(await slowOf('email=a%40acme.com&password=a+long+password', worstForms, send)).toEqual([])
  })
})
