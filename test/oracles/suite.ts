import { beforeAll, expect, test } from '@jest/globals'
import { type Answered, ask, disagreements, type Mix, mixOf, type Oracle, seedFrom } from './agree.ts'
import { byDepth } from '../support/depth.ts'
import { planted } from './planted.ts'

/** Sets of rules, with 10 calls each. */
const sets = byDepth(1000, 2000)
const seed = seedFrom(process.env['ORACLE_SEED'])

/** The tests for every oracle. */
export function oracleSuite(load: () => Promise<Oracle>): void {
  let answered: Answered[]
  beforeAll(async () => {
    answered = ask(await load(), seed, sets)
  })

  test(`agrees on effect, deciding rule and matching rules of ${sets * 10} pairs (seed ${seed})`, () => {
    const found = disagreements(answered)
    expect(found.slice(0, 3)).toEqual([])
    expect(found).toHaveLength(0)
  })

  test('was asked about every operator and verdict', () => expectVariety(mixOf(answered)))

  test.each(Object.entries(planted))('notices when %s', (_, ours) => {
    expect(disagreements(answered.slice(0, 1000), ours).length).toBeGreaterThan(0)
  })
}

/** Agreement would mean little if almost every answer were `no rule matched`. */
function expectVariety({ pairs, verdicts, operators, shadows, several }: Mix): void {
  expect(pairs).toBe(sets * 10)
  for (const verdict of ['allow', 'require_approval', 'deny'])
    expect({ verdict, share: (verdicts[verdict] ?? 0) / pairs >= 0.08 }).toEqual({ verdict, share: true })
  for (const [operator, { matched, not }] of Object.entries(operators))
    expect({ operator, often: matched >= sets / 200 && not >= sets / 20 }).toEqual({ operator, often: true })
  expect(shadows).toBeGreaterThan(sets / 4)
  expect(several).toBeGreaterThan(sets / 2)
}
