import { afterAll, beforeAll } from '@jest/globals'
import type { Services } from '../../src/api/route.ts'
import type { BootstrapName } from '../../src/governance/people/bootstrap.ts'
import { startTestServer, type Answer, type TestServer } from './server.ts'

/**
 * Starts a server for the tests of a file, or of a `describe`, and closes it afterwards. Returns functions that send
 * requests as the people of a first start: `as` to any path, `ours` to a path below their organization.
 */
export function useServer(
  use: (server: TestServer) => unknown,
  env: NodeJS.ProcessEnv = {},
  services: Partial<Services> = {},
) {
  let server: TestServer
  beforeAll(async () => {
    server = await startTestServer({ env, services })
    await use(server)
  })
  afterAll(() => server?.close())
  const personOf = (who: BootstrapName) => {
    const { user_id: userId, api_key: key } = server.identities.users[who]
    return { userId, key }
  }
  const as = (
    who: BootstrapName,
    method: string,
    path: string,
    body?: unknown,
    headers?: Record<string, string>,
  ): Promise<Answer> => server.call(personOf(who).key, method, path, body, headers)
  return {
    as,
    ours: (who: BootstrapName, method: string, path: string, body?: unknown): Promise<Answer> =>
      as(who, method, `/organizations/${server.identities.organization_id}${path}`, body),
    personOf,
    keyOf: (who: BootstrapName) => personOf(who).key,
  }
}

/** The status and the error code of a refusal: `404 not_found`. */
export const codeOf = ({ status, body }: Answer): string => `${status} ${body?.error?.code}`

/** The paths that the details of a refusal name. */
export const placesOf = ({ body }: Answer): string[] =>
  body.error.details.map(({ path }: { path: string }) => path)
