import { afterAll, beforeAll } from '@jest/globals'
import type { BootstrapName } from '../../src/governance/people/bootstrap.ts'
import { startTestServer, type Answer, type TestServer } from './server.ts'

/**
 * Starts a server for the tests of a file, or of a `describe`, and closes it afterwards. Returns functions that send
 * requests as the people of a first start: `as` to any path, `ours` to a path below their organization.
 */
export function useServer(use: (server: TestServer) => void, env: NodeJS.ProcessEnv = {}) {
  let server: TestServer
  beforeAll(async () => {
    server = await startTestServer({ env })
    use(server)
  })
  afterAll(() => server?.close())
  const as = (who: BootstrapName, method: string, path: string, body?: unknown): Promise<Answer> =>
    server.call(server.identities.users[who].api_key, method, path, body)
  return {
    as,
    ours: (who: BootstrapName, method: string, path: string, body?: unknown): Promise<Answer> =>
      as(who, method, `/organizations/${server.identities.organization_id}${path}`, body),
  }
}

/** The status and the error code of a refusal: `404 not_found`. */
export const codeOf = ({ status, body }: Answer): string => `${status} ${body?.error?.code}`

/** The paths that the details of a refusal name. */
export const placesOf = ({ body }: Answer): string[] =>
  body.error.details.map(({ path }: { path: string }) => path)
