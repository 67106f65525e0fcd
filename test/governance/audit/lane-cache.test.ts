import { expect, test } from '@jest/globals'
import { LaneCache } from '../../../src/governance/audit/lane-cache.ts'

interface Lane {
  readonly id: string
  idle: boolean
  bytes: number
}

function kept(limits: { count: number; bytes: number }) {
  const lanes = new LaneCache<Lane>(limits)
  const made: string[] = []
  const use = (id: string): Lane =>
    lanes.laneOf(id, () => {
      made.push(id)
      return { id, idle: true, bytes: 0 }
    })
  return { lanes, made, use }
}

test('the number of lanes stays within the limit, and dropped lanes are made again', () => {
  const { lanes, made, use } = kept({ count: 3, bytes: 100 })
  for (const id of ['a', 'b', 'c']) use(id)
  use('a')
  for (let index = 0; index < 1_000; index += 1) {
    use(`o${index}`)
    use('a')
    expect(lanes.size).toBe(3)
  }
  expect(made.filter((id) => id === 'a')).toHaveLength(1)
  use('b')
  expect(made.filter((id) => id === 'b')).toHaveLength(2)
})

test('the largest lanes are dropped first, even if smaller ones are older', () => {
  const { lanes, made, use } = kept({ count: 10, bytes: 100 })
  for (const id of ['a', 'b', 'c']) use(id).bytes = 30
  lanes.trim()
  expect(lanes.size).toBe(3)
  use('c').bytes = 60
  lanes.trim()
  expect(lanes.size).toBe(2)
  for (const id of ['a', 'b']) use(id)
  expect(made).toEqual(['a', 'b', 'c'])
})

test('among lanes of one size, the least recently used one is dropped', () => {
  const { lanes, made, use } = kept({ count: 10, bytes: 100 })
  for (const id of ['a', 'b', 'c']) use(id).bytes = 30
  use('a')
  use('d').bytes = 30
  lanes.trim()
  for (const id of ['a', 'c', 'd']) use(id)
  expect(made).toEqual(['a', 'b', 'c', 'd'])
})

test('a busy lane that is too large is dropped once it is idle, and no other', () => {
  const { lanes, made, use } = kept({ count: 10, bytes: 100 })
  for (const id of ['a', 'b']) use(id).bytes = 30
  const large = use('large')
  large.idle = false
  large.bytes = 90
  for (let round = 0; round < 3; round += 1) lanes.trim()
  expect(lanes.size).toBe(3)
  large.idle = true
  lanes.becameIdle(large)
  expect(lanes.size).toBe(2)
  for (const id of ['a', 'b']) use(id)
  expect(made).toEqual(['a', 'b', 'large'])
})

test('a busy lane is never dropped: an organization has one lane', () => {
  const { lanes, made, use } = kept({ count: 2, bytes: 100 })
  const busy = use('busy')
  busy.idle = false
  busy.bytes = 1_000
  for (const id of ['a', 'b', 'c']) use(id)
  lanes.trim()
  expect(use('busy')).toBe(busy)
  expect(lanes.size).toBe(2)
  busy.idle = true
  lanes.becameIdle(busy)
  expect(lanes.size).toBe(1)
  expect(made).toEqual(['busy', 'a', 'b', 'c'])
})
