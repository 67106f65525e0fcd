import type { ServerResponse } from 'node:http'
import { gzipSync } from 'node:zlib'
import type { Fault } from '../../support/fault-proxy.ts'
import type { FaultService } from './service.ts'

/** An answer of a service that is broken or means harm, and the error code of a read that gets this answer. */
interface Hostile {
  readonly name: string
  readonly answer: Fault
  readonly code: keyof NonNullable<FaultService['reads']>['codes']
}

const chunk = Buffer.alloc(65_536, ' ')
const json = { 'content-type': 'application/json' }

/** Sends spaces until all bytes are sent or the caller has gone. */
const flood =
  (bytes: number) =>
  (response: ServerResponse): void => {
    response.writeHead(200, json)
    let left = bytes
    const more = (): void => {
      while (left > 0 && !response.destroyed) {
        left -= chunk.length
        if (!response.write(chunk)) return void response.once('drain', more)
      }
      response.end()
    }
    more()
  }

/** Packed once: this takes longer than a call. */
const pack = () => gzipSync(Buffer.alloc(100_000_000))
let packed: Buffer | undefined

const text = (body: string): Fault => ({ status: 200, body })
const many = (count: number, part: string): Fault => text(`[${Array(count).fill(part).join()}]`)

export const hostileAnswers: readonly Hostile[] = [
  { name: 'a body of 100 MB', answer: flood(100_000_000), code: 'tooLarge' },
  { name: 'a body without an end', answer: flood(Infinity), code: 'tooLarge' },
  {
    name: 'a packed body of 100 KB that unpacks to 100 MB',
    answer: (response) =>
      response.writeHead(200, { ...json, 'content-encoding': 'gzip' }).end((packed ??= pack())),
    code: 'tooLarge',
  },
  { name: 'deep JSON', answer: text('['.repeat(8_000_000)), code: 'tooLarge' },
  { name: 'JSON with a million empty things', answer: many(1_000_000, '{}'), code: 'tooLarge' },
  { name: 'a list of 100,000 wrong things', answer: many(100_000, '1'), code: 'badAnswer' },
  {
    name: 'wrong types',
    answer: text('{"number":"1","id":[],"html_url":7,"items":{},"default_branch":{}}'),
    code: 'badAnswer',
  },
  { name: 'HTML for JSON', answer: text('<!doctype html><p>hello'), code: 'badAnswer' },
  { name: 'a number of a million digits', answer: text('1'.repeat(1_000_000)), code: 'badAnswer' },
  // Some readers of JSON need hours for it.
  { name: 'a million quotes and backslashes', answer: text('"\\'.repeat(500_000)), code: 'badAnswer' },
  {
    name: 'headers of 100 KB',
    answer: (response) => response.writeHead(200, { ...json, 'x-long': 'x'.repeat(100_000) }).end('{}'),
    code: 'unavailable',
  },
]

/** Sends one more byte of the body now and then, until the caller has gone. Then it calls `closed`. */
export const drip =
  (closed: () => void): Fault =>
  (response) => {
    response.writeHead(200, json)
    const timer = setInterval(() => response.write(' '), 50)
    response.once('close', () => {
      clearInterval(timer)
      closed()
    })
  }
