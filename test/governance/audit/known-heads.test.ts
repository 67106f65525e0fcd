import { expect, test } from '@jest/globals'
import { KnownHeads } from '../../../src/governance/audit/known-heads.ts'

const at = (seq: number, chain = 'a') => ({ seq, hash: `${chain}${seq}` })

test('entries between two commits of a process raise no alarm: others or a lost commit have added them', () => {
  const heads = new KnownHeads()
  expect(heads.commit('o', at(0), at(3))).toBeNull()
  expect(heads.commit('o', at(7), at(9))).toBeNull()
  expect(heads.of('o')).toEqual([at(3), at(9)])
  expect(heads.commit('o', at(9), at(10))).toBeNull()
  expect(heads.of('o')).toEqual([at(3), at(10)])
})

test('a signed head that is newer than the own commit raises no alarm, also if the commit is noted later', () => {
  const heads = new KnownHeads()
  heads.contains('o', [], at(12))
  expect(heads.commit('o', at(8), at(10))).toBeNull()
  expect(heads.commit('o', at(12), at(13))).toBeNull()
})

test('a lost head stays the answer after the chain has grown beyond it', () => {
  const heads = new KnownHeads()
  heads.commit('o', at(0), at(10))
  for (const seq of [8, 9, 10, 11, 12])
    expect(heads.commit('o', at(seq - 1, 'b'), at(seq, 'b'))).toEqual(at(10))
})

test('a head with another hash is noticed', () => {
  const heads = new KnownHeads()
  heads.commit('o', at(0), at(3))
  expect(heads.commit('o', at(3, 'b'), at(4, 'b'))).toEqual(at(3))
})

test('the memory has a limit: for one chain it keeps the first head and the newest ones', () => {
  const heads = new KnownHeads(2)
  for (let seq = 1; seq <= 40; seq += 1) heads.commit('o', at(2 * seq - 1), at(2 * seq))
  expect(heads.of('o')).toHaveLength(16)
  expect([heads.of('o')[0], heads.of('o').at(-1)]).toEqual([at(2), at(80)])
  for (const id of ['p', 'q']) heads.commit(id, at(0), at(1))
  expect([heads.of('o'), heads.of('p'), heads.of('q')]).toEqual([[], [at(1)], [at(1)]])
})
