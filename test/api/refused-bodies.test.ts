import { afterAll, afterEach, beforeAll, expect, jest, test } from '@jest/globals'
import { sendScattered } from './bodies/scattered.ts'
import { startTestServer, type TestServer } from './server.ts'

let server: TestServer
beforeAll(async () => {
  server = await startTestServer()
})
afterEach(() => void jest.restoreAllMocks())
afterAll(() => server.close())

/** Sends a body in more pieces than one may have. */
const sendPieces = (path: string) =>
  sendScattered(
    server.base,
    {
      path,
      headers: {
        authorization: `Bearer ${server.identities.users.owner.api_key}`,
        'content-type': 'application/json',
      },
    },
    { before: '{}', count: 10_200 },
  )

test('the work for a refused body counts for its organization, and the answer waits for the organization’s turn', async () => {
  const { shares } = server.context
  const enter = shares.enter.bind(shares)
  const mayEnter = Promise.withResolvers<void>()
  const asks = Promise.withResolvers<void>()
  const worked: number[] = []
  jest.spyOn(shares, 'enter').mockImplementation(async (organizationId, size) => {
    const place = await enter(organizationId, size)
    if (size !== 'large') return place
    asks.resolve()
    await mayEnter.promise
    return { ...place, adds: (milliseconds: number) => void worked.push(milliseconds) }
  })
  let isAnswered = false
  const answer = sendPieces('/api/v1/workflows').finally(() => (isAnswered = true))
  await asks.promise
  expect(isAnswered).toBe(false)
  mayEnter.resolve()
  expect(await answer).toMatchObject({ status: 413 })
  // Each of the 10,001 pieces counts for 0.01 ms.
  expect(worked).toEqual([expect.closeTo(100, 0)])
})

test('a full line changes nothing about the answer', async () => {
  const { shares } = server.context
  jest.spyOn(shares, 'enter').mockRejectedValue(new Error('too many requests are waiting'))
  expect(await sendPieces('/api/v1/workflows')).toMatchObject({ status: 413 })
})
