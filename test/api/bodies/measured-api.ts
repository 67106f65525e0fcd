import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll } from '@jest/globals'
import { addPlace } from '../access-matrix/place.ts'
import { World } from '../access-matrix/world.ts'
import { addOrganization } from '../fixtures.ts'
import { startTestServer, type TestServer } from '../server.ts'
import { startMeasured, type MeasuredProgram } from './measured-program.ts'

/** Number of tries of which the cheapest counts, so that a garbage collection or a busy machine fails no test. */
export const mostTries = 8
export const megabyte = 1024 * 1024
/**
 * A slow or busy machine takes several times the processor time for the same work. Work that grows faster than its
 * input takes seconds here, so this bound detects it on any machine.
 */
const slowness = 4
/** Milliseconds that a body of so many bytes may cost beyond a usual one. */
export const boundOf = (bytes: number): number => slowness * (50 + (50 * bytes) / megabyte)

export const json = { 'content-type': 'application/json' }

export interface Cost {
  readonly milliseconds: number
  readonly status: number
  readonly answered: number
}

/** An API process whose use of the processor is measured, on the database of a test server. */
export interface MeasuredApi {
  readonly server: TestServer
  readonly api: MeasuredProgram
  readonly world: World
}

/** Starts one for the tests of a file, and gives it to `use`. */
export function useMeasuredApi(use: (started: MeasuredApi) => void): void {
  let server: TestServer | undefined
  let api: MeasuredProgram | undefined
  beforeAll(async () => {
    const key = randomBytes(32).toString('base64')
    server = await startTestServer({ env: { DATA_ENCRYPTION_KEY: key } })
    const { context } = server
    const { id, owner } = await addOrganization(context)
    const world = new World(server, await addPlace(server, id, owner), owner)
    const unlimited = {
      requests_per_minute: 100_000,
      requests_per_day: 10_000_000,
      authorize_per_minute: 1_000_000,
    }
    await context.db
      .updateTable('organizations')
      .set({ quota_overrides: JSON.stringify(unlimited) })
      .execute()
    api = await startMeasured('api', {
      APP_ENV: 'test',
      DATABASE_URL: context.config.database.url,
      DATA_ENCRYPTION_KEY: key,
      LOG_LEVEL: 'silent',
      // No server listens at this address, since runs are not measured here.
      TEMPORAL_ADDRESS: '127.0.0.1:1',
    })
    use({ server, api, world })
  })
  afterAll(async () => {
    await api?.end()
    await server?.close()
  })
}

/** Sends a request and measures its cost. `isAgain` first collects the garbage of earlier requests. */
export async function costOf(
  { api, world }: MeasuredApi,
  request: { method: string; path: string; body: string; headers?: Record<string, string> },
  isAgain = false,
): Promise<Cost> {
  const { method, path, body, headers = json } = request
  const before = await api.cpu(isAgain ? 'clean' : undefined)
  const response = await fetch(`${api.url}${path}`, {
    method,
    headers: { ...('cookie' in headers ? {} : { authorization: `Bearer ${world.sender.key}` }), ...headers },
    body,
    redirect: 'manual',
  })
  const answered = (await response.text()).length
  return { milliseconds: (await api.cpu()) - before, status: response.status, answered }
}

/** The minimum of several tries. Stops as soon as one try is within the bound. */
export async function leastCost(bound: number, send: (isAgain: boolean) => Promise<Cost>): Promise<Cost> {
  let least = await send(false)
  for (let tries = 1; tries < mostTries && least.milliseconds > bound; tries += 1) {
    const again = await send(true)
    if (again.milliseconds < least.milliseconds) least = again
  }
  return least
}
