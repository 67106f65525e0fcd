import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll } from '@jest/globals'
import { addPlace } from '../access-matrix/place.ts'
import { World } from '../access-matrix/world.ts'
import { addOrganization } from '../fixtures.ts'
import { startTestServer, type TestServer } from '../server.ts'
import { startMeasured, type MeasuredProgram } from './measured-program.ts'

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
