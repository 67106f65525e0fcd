import { describe, expect, test } from '@jest/globals'
import { box, createLayouts, layoutOf } from '../../src/console/graph.ts'
import { railOf, type GraphStep } from '../../src/console/rail.ts'

const layouts = createLayouts()
const steps = (...dependencies: number[][]): GraphStep[] =>
  dependencies.map((needed, place) => ({ id: `s${place}`, depends_on: needed.map((each) => `s${each}`) }))

describe('the picture of steps', () => {
  test('has a box for each step below those that it waits for, and a line for each dependency', () => {
    const layout = layoutOf(layouts, 'diamond', steps([], [0], [0], [1, 2]))
    expect(layout?.lines.map(({ from, to }) => `${from}-${to}`).sort()).toEqual(['0-1', '0-2', '1-3', '2-3'])
    const [first, left, right, last] = layout?.boxes ?? []
    expect(left?.y).toBe(right?.y)
    expect(left?.y).toBeGreaterThan((first?.y ?? 0) + box.height)
    expect(last?.y).toBeGreaterThan((left?.y ?? 0) + box.height)
    expect(Math.abs((left?.x ?? 0) - (right?.x ?? 0))).toBeGreaterThan(box.width)
    for (const { x, y } of layout?.boxes ?? []) {
      expect(x + box.width).toBeLessThanOrEqual(layout?.width ?? 0)
      expect(y + box.height).toBeLessThanOrEqual(layout?.height ?? 0)
    }
    for (const { path } of layout?.lines ?? []) expect(path).toMatch(/^M[\d.]+ [\d.]+(Q[\d. ]+)*L[\d. ]+$/)
  })

  test('has no line that a longer way implies', () => {
    const lines = layoutOf(layouts, 'implied', steps([], [0], [0, 1], [0, 1, 2], [2, 0]))?.lines ?? []
    expect(lines.map(({ from, to }) => `${from}-${to}`).sort()).toEqual(['0-1', '1-2', '2-3', '2-4'])
  })

  test('goes from left to right where many steps stand beside each other', () => {
    const many = Array.from({ length: 8 }, () => [0])
    const layout = layoutOf(layouts, 'fan', steps([], ...many))
    expect(layout?.boxes[1]?.x).toBeGreaterThan((layout?.boxes[0]?.x ?? 0) + box.width)
    expect(layout?.boxes[1]?.x).toBe(layout?.boxes[8]?.x)
  })

  test('is left out for too many steps, or lines over too many rows', () => {
    const chain = (count: number, ...more: number[]) =>
      steps(
        ...Array.from({ length: count }, (_, place) =>
          [1, ...more].map((back) => place - back).filter((each) => each >= 0),
        ),
      )
    expect(layoutOf(layouts, 'short', chain(60))).not.toBeNull()
    expect(layoutOf(layouts, 'long', chain(61))).toBeNull()
    // Twenty steps without a dependency, each needed late in a chain of forty.
    const late = Array.from({ length: 40 }, (_, row) => [
      ...(row > 0 ? [19 + row] : []),
      ...(row > 19 ? [row - 20] : []),
    ])
    expect(layoutOf(layouts, 'dense', steps(...Array.from({ length: 20 }, () => []), ...late))).toBeNull()
    expect(layoutOf(layouts, 'thousand', chain(1_000, 2, 3))).toBeNull()
  })

  test('is the same for a version that was drawn before', () => {
    const drawn = layoutOf(layouts, 'again', steps([], [0]))
    expect(layoutOf(layouts, 'again', steps([], [0]))).toBe(drawn)
  })
})

describe('the picture for narrow screens', () => {
  /** The ends of a line: the rows of its two steps, and the place of its lane. */
  const ends = (path: string) => {
    const [, from, lane, , to] =
      /^M\d+ (\d+)H(\d+)Q\d+ \d+ \d+ (\d+)V(\d+)Q\d+ (\d+) /.exec(path)?.map(Number) ?? []
    return { from: Math.floor((from ?? NaN) / 64), to: Math.floor((to ?? NaN) / 64), lane: lane ?? NaN }
  }

  test('has each step below those that it waits for, and an arrow between them', () => {
    // The definition names step 2 before step 1, which it waits for.
    const rail = railOf(steps([], [2], [0]))
    expect(rail?.rows).toEqual([0, 2, 1])
    expect(rail?.lines.map(({ from, path }) => [from, ends(path)])).toEqual([
      [0, expect.objectContaining({ from: 0, to: 1 })],
      [2, expect.objectContaining({ from: 1, to: 2 })],
    ])
  })

  test('has lines of different steps in different lanes where they are beside each other', () => {
    const lines =
      railOf(steps([], [], [1], [0], [2, 3]))?.lines.map(({ from, path }) => ({
        step: from,
        ...ends(path),
      })) ?? []
    expect(lines).toHaveLength(4)
    for (const one of lines)
      for (const other of lines)
        if (one.step !== other.step && one.from < other.to && other.from < one.to)
          expect([one, other, one.lane === other.lane]).toEqual([one, other, false])
  })

  test('is left out if too many lines stand beside each other', () => {
    const late = (count: number) =>
      steps(...Array.from({ length: count }, () => []), ...Array.from({ length: count }, (_, at) => [at]))
    expect(railOf(late(8))).not.toBeNull()
    expect(railOf(late(9))).toBeNull()
  })
})
