import { expect, test } from '@jest/globals'
import { ActingAccount } from '../../src/activities/acting-account.ts'
import { OtherAccount } from '../../src/activities/tools/executor.ts'

test.each([
  { what: 'is made for the first time', earlier: null, looks: false, name: 'a', isTaken: true },
  { what: 'is made again', earlier: 'a', looks: false, name: 'a', isTaken: true },
  { what: 'is made again with another account', earlier: 'a', looks: false, name: 'b', isTaken: false },
  { what: 'is looked for', earlier: 'a', looks: true, name: 'a', isTaken: true },
  { what: 'is looked for with another account', earlier: 'a', looks: true, name: 'b', isTaken: false },
  { what: 'is looked for after an unknown account', earlier: null, looks: true, name: 'a', isTaken: false },
])('a call that $what: $isTaken', ({ earlier, looks, name, isTaken }) => {
  const account = new ActingAccount(earlier)
  const take = (): void => account.take(name, looks)
  if (isTaken) take()
  else expect(take).toThrow(OtherAccount)
  expect(account.name).toBe(isTaken ? name : null)
})

test('one call never acts with two accounts', () => {
  const account = new ActingAccount(null)
  account.take('a', false)
  account.take('a', true)
  expect(() => account.take('b', false)).toThrow(OtherAccount)
})
