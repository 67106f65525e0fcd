import { expect, test } from '@jest/globals'
import { AuditAlarms } from '../../../src/governance/audit/alarms.ts'

test('each chain in alarm is looked at in its turn, also if more are in alarm than fit in one round', () => {
  const alarms = new AuditAlarms({ onAlarm: () => {} })
  for (const id of ['a', 'b', 'c']) alarms.raise(id, 'end', 'cut')
  alarms.raise('d', 'verify', 'changed')
  expect([alarms.wrongEnds(2), alarms.wrongEnds(2), alarms.wrongEnds(9)]).toEqual([
    ['a', 'b'],
    ['c', 'a'],
    ['b', 'c', 'a'],
  ])
})

test('a look at a chain does not make the next log line come later', () => {
  const logged: string[] = []
  let now = 0
  const alarms = new AuditAlarms({ onAlarm: (id) => logged.push(id), clock: () => now })
  alarms.raise('a', 'end', 'cut')
  alarms.wrongEnds(1)
  now = 59_999
  alarms.raise('a', 'end', 'cut')
  expect(logged).toEqual(['a'])
  now = 60_000
  alarms.raise('a', 'end', 'cut')
  expect(logged).toEqual(['a', 'a'])
  expect([alarms.any, alarms.count]).toEqual([true, 1])
  alarms.settle('a', 'end')
  expect([alarms.any, alarms.count]).toEqual([false, 0])
})
