import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import { createTestDatabase, type TestDatabase } from '../../support/stack.ts'
import {
  appendMarked,
  createOrganization,
  openCombiner,
  organizationId,
  storedRows,
  verify,
} from './chain-fixture.ts'
import { patience } from '../../stack/until.ts'
import { CommitProxy } from '../tcp-proxy.ts'

let database: TestDatabase
let proxy: CommitProxy
let url: string
let open: ReturnType<typeof openCombiner>

beforeEach(async () => {
  database = await createTestDatabase()
  await createOrganization(database.adminUrl)
  proxy = new CommitProxy(database.appUrl)
  url = await proxy.listen()
  // Enough time to find out whether a lost commit succeeded, even on a slow machine.
  open = openCombiner(url, { settleMilliseconds: patience })
})
afterEach(async () => {
  await open.close()
  await proxy.close()
  await database.drop()
})

const marks = Array.from({ length: 20 }, (_, index) => `m${index}`)
const places = marks.map((_, index) => index + 1)
const appendAll = ({ combiner } = open): Promise<PromiseSettledResult<number>[]> =>
  Promise.allSettled(marks.map((mark) => combiner.join(organizationId, appendMarked, mark)))

describe('the connection is lost at the commit', () => {
  test('before the server got it: nothing was saved, the callers get an error, and the next call succeeds', async () => {
    proxy.cuts.push('before')
    for (const answer of await appendAll())
      expect(answer).toMatchObject({
        reason: { code: 'unavailable', message: expect.stringContaining('nothing was decided') },
      })
    expect(await storedRows(database.appUrl)).toEqual([])
    expect(await open.combiner.join(organizationId, appendMarked, 'next')).toBe(1)
  })

  test('after the server committed: every caller gets the committed answer, once', async () => {
    proxy.cuts.push('after')
    expect(await appendAll()).toEqual(places.map((value) => ({ status: 'fulfilled', value })))
    expect((await storedRows(database.appUrl)).map((row) => row.mark)).toEqual(marks)
    expect(await open.combiner.join(organizationId, appendMarked, 'next')).toBe(21)
  })

  test('during the commit: the callers get the true outcome', async () => {
    proxy.cuts.push('meanwhile')
    const answers = await appendAll()
    const stored = (await storedRows(database.appUrl)).map((row) => row.mark)
    expect(new Set(answers.map((answer) => answer.status)).size).toBe(1)
    expect(stored).toEqual(answers[0]?.status === 'fulfilled' ? marks : [])
  })

  test('the outcome is found even if others have appended since', async () => {
    const other = openCombiner(database.appUrl)
    proxy.cuts.push('after')
    const [answers] = await Promise.all([
      appendAll(),
      Promise.all(marks.map((mark) => other.combiner.join(organizationId, appendMarked, `other ${mark}`))),
    ])
    expect(answers.map((answer) => answer.status)).toEqual(marks.map(() => 'fulfilled'))
    expect(await storedRows(database.appUrl)).toHaveLength(40)
    expect(await verify(database.appUrl)).toMatchObject({ valid: true, entries: 40 })
    await other.close()
  })

  test('and the database stays away: the callers learn that the outcome is unknown, and nothing runs again', async () => {
    const impatient = openCombiner(url, { settleMilliseconds: 1_000 })
    proxy.cuts.push('after')
    proxy.staysDown = true
    for (const answer of await appendAll(impatient))
      expect(answer).toMatchObject({
        reason: { code: 'unavailable', message: expect.stringContaining('unknown whether this was saved') },
      })
    expect((await storedRows(database.appUrl)).map((row) => row.mark)).toEqual(marks)
    await impatient.close()
  })
})
