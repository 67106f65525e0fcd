import { expect, test } from '@jest/globals'
import { maxOutputLength, refusalOfSize } from '../../src/activities/ended.ts'
import { mostHeapBytes, mostValues } from '../../src/shared/json-size.ts'

const mebibyte = 1024 ** 2
const refusalOf = (output: string): string | null => {
  const refusal = refusalOfSize(output)
  if (refusal === null) return null
  expect(refusal.result).toMatchObject({ state: 'failed', error: { code: 'output_too_large' } })
  return (refusal.result as { error: { message: string } }).error.message
}
/** JSON of a long text and 190,000 numbers. */
const outputOf = (first: string): string => `["${first}${'x'.repeat(26 * mebibyte)}"${',0'.repeat(190_000)}]`

test('an output is refused by its bytes in memory, which are two for each character beyond Latin', () => {
  expect(refusalOf(outputOf('a'))).toBe(null)
  const tooLarge = outputOf('\u0100')
  expect(tooLarge.length).toBeLessThan(maxOutputLength)
  expect(refusalOf(tooLarge)).toContain(`more than ${mostHeapBytes / mebibyte} MiB in memory`)
})

test('an output is refused by its values, also if they are small', () => {
  const values = (count: number): string => `[${'0,'.repeat(count - 2)}0]`
  expect(refusalOf(values(mostValues))).toBe(null)
  expect(refusalOf(values(mostValues + 1))).toContain(`more than ${mostValues} values`)
})

test('an output is refused by its characters', () => {
  expect(refusalOf(`"${'x'.repeat(maxOutputLength - 2)}"`)).toBe(null)
  expect(refusalOf(`"${'x'.repeat(maxOutputLength - 1)}"`)).toBe('the output is larger than 32 MiB')
})
