import { randomBytes } from 'node:crypto'
import { describe, expect, test } from '@jest/globals'
import {
  openNote,
  readVerifierKey,
  signingKey,
  signNote,
  verifierText,
} from '../../../src/governance/audit/signed-note.ts'

/** The example in the documentation of golang.org/x/mod/sumdb/note. */
const go = {
  key: 'PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW',
  text: "If you think cryptography is the answer to your problem,\nthen you don't know what your problem is.\n",
  signature:
    '— PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n',
}

const [present, old] = [signingKey(randomBytes(32)), signingKey(randomBytes(32))]
const [name, text] = ['example.com/log', 'example.com/log\n3\nhash\n']
const keyOf = (key: typeof present, as = name) => readVerifierKey(verifierText(as, key))

describe('a signed note', () => {
  test('of the Go package is accepted with the verifier key of the Go package', () => {
    expect(openNote(`${go.text}\n${go.signature}`, [readVerifierKey(go.key)]).text).toBe(go.text)
  })

  test('is accepted with any of its keys, and names those', () => {
    const note = signNote(text, name, [present, old])
    for (const key of [keyOf(present), keyOf(old)])
      expect(openNote(note, [key])).toEqual({ text, signers: [key] })
  })

  test('keeps empty lines of its text, and ignores signatures of others', () => {
    const note = signNote('a\n\nb\n', name, [present])
    expect(openNote(note + go.signature, [keyOf(present)]).text).toBe('a\n\nb\n')
  })

  const good = signNote(text, name, [present])
  test.each([
    ['another text', good.replace('\n3\n', '\n4\n'), 'the signature is wrong: the note was changed'],
    [
      'a wrong signature beside a right one',
      signNote(text, name, [old]) + good.split('\n\n')[1]?.replace(/.{8}=\n/, 'AAAAAAAA=\n'),
      'the signature is wrong: the note was changed',
    ],
    ['a short signature', `${text}\n— ${name} ${keyOf(present).id.toString('base64')}\n`, 'another length'],
    ['no known key', signNote(text, name, [signingKey(randomBytes(32))]), 'no known key has signed the note'],
    ['the key under another name', signNote(text, 'example.com/other', [present]), 'no known key'],
    ['no signature', `${text}\n`, 'malformed'],
    ['a signature line in another form', `${text}\n- ${name} AAAA\n`, 'malformed'],
    ['no empty line', text, 'the text is not a signed note'],
    ['no line break at the end', good.trimEnd(), 'the text is not a signed note'],
    ['a control character', good.replace('hash', 'ha\rsh'), 'the text is not a signed note'],
    ['many signatures', good + good.split('\n\n')[1]?.repeat(64), 'too many signatures'],
  ])('with %s is refused', (_what, note, reason) => {
    expect(() => openNote(note, [keyOf(present), keyOf(old)])).toThrow(reason)
  })
})

test.each([
  ['an empty text', ''],
  ['another id', go.key.replace('c74f', 'c74e')],
  ['another name', go.key.replace('Peter', 'Paul')],
  ['another algorithm', go.key.replace('+ARpc', '+AhpC')],
  ['a part', go.key.slice(0, -4)],
])('%s is no verifier key', (_what, key) => {
  expect(() => readVerifierKey(key)).toThrow('the verifier key is not complete')
})
