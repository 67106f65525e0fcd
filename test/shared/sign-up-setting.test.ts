import { expect, test } from '@jest/globals'
import { isOfDomain } from '../../src/shared/sign-up-setting.ts'

test.each([
  ['ana@acme.com', true],
  ['ana@ACME.com', true],
  ['"ana@elsewhere.test"@acme.com', true],
  ['ana@xn--bcher-kva.example', true],
  ['ana@bücher.example', true],
  ['ana@mail.acme.com', false],
  ['ana@acme.com.evil.test', false],
  ['ana@evilacme.com', false],
  ['ana@acme.com@evil.test', false],
  ['ana@acme.com.', false],
  ['acme.com@evil.test', false],
  ['ana@', false],
  ['', false],
])('whether `%s` is in acme.com or bücher.example: %s', (email, expected) => {
  expect(isOfDomain(email, ['acme.com', 'xn--bcher-kva.example'])).toBe(expected)
})
