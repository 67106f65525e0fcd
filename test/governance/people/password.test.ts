import { scryptSync } from 'node:crypto'
import { expect, test } from '@jest/globals'
import { hashPassword, newPassword } from '../../../src/governance/people/password.ts'

test('a password is stored as salt and scrypt key, in the form of the sign-in library', async () => {
  const password = newPassword()
  expect(password).toMatch(/^[A-Za-z0-9_-]{24}$/)
  const [salt = '', key] = (await hashPassword(password)).split(':')
  expect(salt).toMatch(/^[0-9a-f]{32}$/)
  const derived = scryptSync(password, salt, 64, { N: 16384, r: 16, p: 1, maxmem: 2 ** 26 })
  expect(key).toBe(derived.toString('hex'))
})

test('equal text in different Unicode forms has the same hash', async () => {
  const [salt = '', key] = (await hashPassword('pa\u0301ss')).split(':')
  expect(key).toBe(
    scryptSync('p\u00e1ss', salt, 64, { N: 16384, r: 16, p: 1, maxmem: 2 ** 26 }).toString('hex'),
  )
})
