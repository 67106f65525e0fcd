import { expect, test } from '@jest/globals'
import { createTestDatabase } from '../../support/stack.ts'
import { createOrganization, storedRows, verify } from './chain-fixture.ts'
import { runCombinerProcess } from './combiner-child.ts'

test('many callers in several processes share one gapless chain, and every answer is its entry', async () => {
  const database = await createTestDatabase()
  await createOrganization(database.adminUrl)
  const ends = await Promise.all(
    ['a', 'b', 'c'].map((prefix) => runCombinerProcess([database.appUrl, prefix, '24', '25'])),
  )
  expect(ends.map(({ code, stderr }) => ({ code, stderr }))).toEqual(
    ends.map(() => ({ code: 0, stderr: '' })),
  )
  const rows = await storedRows(database.appUrl)
  expect(rows.map((row) => row.seq)).toEqual(Array.from({ length: 3 * 24 * 25 }, (_, index) => index + 1))
  const answered = ends.flatMap((end) => end.answered)
  expect(answered.sort()).toEqual(rows.map((row) => `${row.seq} ${row.mark}`).sort())
  expect(await verify(database.appUrl)).toMatchObject({ valid: true, entries: rows.length })
  await database.drop()
})
