import { expect, test } from '@jest/globals'
import { createUploads, inTurn, reserveMemory } from '../../../src/governance/files/uploads.ts'

const mebibyte = 1024 ** 2
const never = new AbortController().signal

/** Simulated work that continues until the test ends it. */
function work() {
  const end = Promise.withResolvers<void>()
  let isRunning = false
  return {
    run: () => {
      isRunning = true
      return end.promise
    },
    isRunning: () => isRunning,
    end: end.resolve,
  }
}
const settled = () => new Promise((resolve) => setImmediate(resolve))

test('an organization with many uploads reads two files at once, and leaves the other two places to others', async () => {
  const uploads = createUploads()
  const greedy = Array.from({ length: 10 }, work)
  const small = work()
  const all = greedy.map(({ run }) => inTurn(uploads, 'org_a', never, run))
  await settled()
  expect(greedy.map(({ isRunning }) => isRunning()).filter(Boolean)).toHaveLength(2)
  all.push(inTurn(uploads, 'org_b', never, small.run))
  await settled()
  expect(small.isRunning()).toBe(true)
  for (const each of [...greedy, small]) each.end()
  await Promise.all(all)
})

test('files of one organization reserve half of the memory, and another one gets its own at once', async () => {
  const uploads = createUploads()
  const size = 25 * mebibyte
  const held = await Promise.all([1, 2].map(() => reserveMemory(uploads, 'org_a', size, never)))
  let isAdmitted = false
  const third = reserveMemory(uploads, 'org_a', size, never).then((permit) => {
    isAdmitted = true
    return permit
  })
  const other = await Promise.all([1, 2].map(() => reserveMemory(uploads, 'org_b', size, never)))
  await settled()
  expect(isAdmitted).toBe(false)
  held[0]?.release()
  ;(await third).release()
  for (const each of [held[1], ...other]) each?.release()
})

test('an upload that is given up waits no more, and leaves its place', async () => {
  const uploads = createUploads()
  const busy = [work(), work()]
  const running = busy.map(({ run }) => inTurn(uploads, 'org_a', never, run))
  const gone = new AbortController()
  const waiting = inTurn(uploads, 'org_a', gone.signal, async () => 'read')
  gone.abort()
  await expect(waiting).rejects.toMatchObject({ code: 'unavailable' })
  for (const each of busy) each.end()
  await Promise.all(running)
  expect(await inTurn(uploads, 'org_a', never, async () => 'read')).toBe('read')
})

test('a file that cannot be read frees its place', async () => {
  const uploads = createUploads()
  for (let each = 0; each < 5; each += 1)
    await expect(inTurn(uploads, 'org_a', never, () => Promise.reject(new Error('damaged')))).rejects.toThrow(
      'damaged',
    )
  expect(await inTurn(uploads, 'org_a', never, async () => 'read')).toBe('read')
})
