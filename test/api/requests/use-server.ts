import { afterAll, beforeAll } from '@jest/globals'
import type { BootstrapName } from '../../../src/governance/people/bootstrap.ts'
import { startTestServer, type TestServer } from '../server.ts'

/** Starts a server for the tests of a file. Returns how the people of its organization send requests to it. */
export function useServer(
  use: (server: TestServer) => unknown,
  options: Parameters<typeof startTestServer>[0] = {},
) {
  let server: TestServer
  beforeAll(async () => {
    server = await startTestServer(options)
    await use(server)
  })
  afterAll(() => server?.close())
  const personOf = (who: BootstrapName) => {
    const { user_id: userId, api_key: key } = server.identities.users[who]
    return { userId, key }
  }
  return {
    personOf,
    keyOf: (who: BootstrapName) => personOf(who).key,
    call: (
      who: BootstrapName,
      method: string,
      path: string,
      body?: unknown,
      headers?: Record<string, string>,
    ) => server.call(personOf(who).key, method, path, body, headers),
  }
}
