import { describe, expect, test } from '@jest/globals'
import { countedFromOne, inItemOrder } from '../../../src/console/parts/items.ts'

describe('sentences of the API', () => {
  test.each([
    ['item 0 of step `send` waits for approval', 'item 1 of step `send` waits for approval'],
    [
      '12 items of step `a` wait; item 11 of step `b` waits',
      '12 items of step `a` wait; item 12 of step `b` waits',
    ],
    [
      'step `send` was rejected at item 2 of 6 (counted from 0): `a@b.test` rejected it',
      'step `send` was rejected at item 3 of 6: `a@b.test` rejected it',
    ],
    ['the unknown outcome of item 9 of step `s` is', 'the unknown outcome of item 10 of step `s` is'],
    [
      'step `s` ended the run: item 3 of the list is bad',
      'step `s` ended the run: item 3 of the list is bad',
    ],
    ['step `s` waits (rule `item 0 of step `)', 'step `s` waits (rule `item 0 of step `)'],
  ])('%s', (text, shown) => {
    expect(countedFromOne(text)).toBe(shown)
  })
})

test('items of a step stand in order, at the places of the step', () => {
  const of = (place: string) => {
    const [run_id = '', step_id = '', item] = place.split(' ')
    return { run_id, step_id, item_index: item === undefined ? null : Number(item), place }
  }
  const list = ['r a 4', 'r b', 'r a 3', 'q a 9', 'r a 5', 'q a 8', 'r a 3'].map(of)
  expect(inItemOrder(list).map(({ place }) => place)).toEqual(
    ['r a 3', 'r b', 'r a 3', 'q a 8', 'r a 4', 'q a 9', 'r a 5'], // prettier-ignore
  )
})
