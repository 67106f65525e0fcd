import { expect, test } from '@jest/globals'
import { KeptLanes } from '../../src/governance/kept-lanes.ts'

interface Lane {
  readonly id: string
  idle: boolean
  bytes: number
}

function kept(limits: { count: number; bytes: number }) {
  const lanes = new KeptLanes<Lane>(limits)
  const made: string[] = []
  const use = (id: string): Lane =>
    lanes.of(id, () => {
      made.push(id)
      return { id, idle: true, bytes: 0 }
    })
  return { lanes, made, use }
}

test('there are never more lanes than allowed, and those used longest ago are made anew', () => {
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

test('a lane that grows pushes others out, down to its bytes', () => {
  const { lanes, made, use } = kept({ count: 10, bytes: 100 })
  for (const id of ['a', 'b', 'c']) use(id).bytes = 30
  lanes.trim()
  expect(lanes.size).toBe(3)
  use('c').bytes = 60
  lanes.trim()
  expect(lanes.size).toBe(2)
  use('b')
  use('a')
  expect(made).toEqual(['a', 'b', 'c', 'a'])
})

test('what is under way is not forgotten: an organization has one lane', () => {
  const { lanes, made, use } = kept({ count: 2, bytes: 100 })
  const busy = use('busy')
  busy.idle = false
  busy.bytes = 1_000
  for (const id of ['a', 'b', 'c']) use(id)
  lanes.trim()
  expect(use('busy')).toBe(busy)
  expect(lanes.size).toBe(1)
  busy.idle = true
  lanes.trim()
  expect(lanes.size).toBe(0)
  expect(made).toEqual(['busy', 'a', 'b', 'c'])
})
