import { describe, expect, test } from '@jest/globals'
import { catalog, type ToolName } from '../../src/catalog/index.ts'
import { maxMemoryValueLength } from '../../src/catalog/memory-key.ts'
import { parseParams } from '../../src/contract/tool-params.ts'
import type { JsonObject } from '../../src/policy/types.ts'

const mail = { to: 'me', subject: 's', text: 't' }
const many = (count: number) => Array.from({ length: count }, () => 'a@x.com')

const cases: [ToolName, string, JsonObject, boolean][] = [
  ['file_read', 'a path', { path: 'a/b.md' }, true],
  ['file_read', 'no path', {}, false],
  ['file_read', 'an empty path', { path: '' }, false],
  ['file_read', 'a path that is no text', { path: ['a'] }, false],
  ['file_read', 'a path of 4097 characters', { path: 'a'.repeat(4097) }, false],
  ['memory_get', 'a key', { key: 'q3 / größe' }, true],
  ['memory_get', 'an empty key', { key: '' }, false],
  ['memory_get', 'a key with NUL', { key: 'a\0' }, false],
  ['memory_get', 'a key with a line break at its end', { key: 'a\n' }, false],
  ['memory_get', 'a key of 257 characters', { key: 'a'.repeat(257) }, false],
  ['memory_set', 'any JSON', { key: 'k', value: { a: [null, 1, 'x', true] } }, true],
  ['memory_set', 'null', { key: 'k', value: null }, true],
  ['memory_set', 'no value', { key: 'k' }, false],
  ['memory_set', 'what JSON cannot hold', { key: 'k', value: Number.NaN }, false],
  ['memory_set', 'the largest value', { key: 'k', value: 'x'.repeat(maxMemoryValueLength - 2) }, true],
  ['memory_set', 'a larger value', { key: 'k', value: 'x'.repeat(maxMemoryValueLength - 1) }, false],
  ['mail_send', 'the least', mail, true],
  [
    'mail_send',
    'everything',
    { ...mail, html: '<p>', cc: ['a@x.com', 'b@x.com'], bcc: 'a@x.com; b@x.com' },
    true,
  ],
  ['mail_send', 'no recipient', { ...mail, to: '' }, false],
  ['mail_send', 'an empty list', { ...mail, to: [] }, false],
  ['mail_send', 'a list in a list', { ...mail, to: [['a@x.com']] }, false],
  ['mail_send', 'a hundred recipients', { ...mail, to: many(100) }, true],
  ['mail_send', 'a hundred and one', { ...mail, to: many(101) }, false],
  ['mail_send', 'a recipient that is an object', { ...mail, to: { address: 'a@x.com' } }, false],
  ['mail_send', 'a subject of 998 characters', { ...mail, subject: 's'.repeat(998) }, true],
  ['mail_send', 'a subject of 999', { ...mail, subject: 's'.repeat(999) }, false],
  ['mail_send', 'a text from a file', { ...mail, text: { path: '/etc/passwd' } }, false],
  ['mail_send', 'too much text', { ...mail, text: 'x'.repeat(1_000_001) }, false],
  ['mail_send', 'another sender', { ...mail, from: 'a@x.com' }, false],
  ['mail_send', 'attachments', { ...mail, attachments: [] }, false],
]

describe('parameters', () => {
  test.each(cases)('%s accepts or refuses %s', (name, _, params, taken) => {
    expect(parseParams(catalog[name], params).ok).toBe(taken)
  })
})
