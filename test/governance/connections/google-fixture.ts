import { afterAll, beforeAll, beforeEach } from '@jest/globals'
import { createToolServices } from '../../../src/activities/tools/services.ts'
import type { ToolName } from '../../../src/catalog/index.ts'
import { connect } from '../../../src/governance/connections/connections.ts'
import { startEmulator, type Emulator } from '../../support/emulators.ts'
import { startScriptedServer, type Scripted, type ScriptedServer } from '../../support/scripted-server.ts'
import { startEngine, type Engine } from '../runs/engine-fixture.ts'

export const ana = 'ana@acme.example'
export const client = { id: 'an-id', secret: 'a-secret-5b2e' }
const publicUrl = 'http://127.0.0.1:9'

export const tokenAnswer = (token: string, more: object = {}): Scripted => ({
  status: 200,
  body: { access_token: token, token_type: 'Bearer', expires_in: 3600, ...more },
})

/** An organization that can connect Google, Google's emulator, and a server that plays Google as a test says. */
export class GoogleStand {
  readonly engine: Engine
  readonly emulator: Emulator
  readonly server: ScriptedServer

  constructor(engine: Engine, emulator: Emulator, server: ScriptedServer) {
    this.engine = engine
    this.emulator = emulator
    this.server = server
  }

  static async start(): Promise<GoogleStand> {
    const [server, emulator] = await Promise.all([
      startScriptedServer(),
      startEmulator('google', {
        users: [{ email: ana, name: 'Ana' }],
        oauth_clients: [
          {
            client_id: client.id,
            client_secret: client.secret,
            name: 'Countersign',
            redirect_uris: [`${publicUrl}/api/v1/connections/callback/google`],
          },
        ],
      }),
    ])
    const engine = await startEngine({
      PUBLIC_URL: publicUrl,
      GOOGLE_CLIENT_ID: client.id,
      GOOGLE_CLIENT_SECRET: client.secret,
      GOOGLE_BASE_URL: emulator.url,
    })
    return new GoogleStand(engine, emulator, server)
  }

  connect(credential: unknown): ReturnType<typeof connect> {
    return connect(
      this.engine.context,
      this.engine.caller('member'),
      { tool: 'docs_read', credential, scope: 'personal', name: undefined },
      new AbortController().signal,
    )
  }

  /** The connection, as a call of the tool gets it. */
  use(tool: ToolName = 'docs_read') {
    const { context, organizationId, caller } = this.engine
    const call = { organizationId, requester: { userId: caller('member').userId } }
    return createToolServices(context).connection(call, tool, 'google')
  }

  async close(): Promise<void> {
    await Promise.all([this.server.close(), this.emulator.close(), this.engine.close()])
  }
}

/** Starts a stand for all tests of a file, and passes it to `use`. Every test begins without a connection. */
export function useGoogle(use: (stand: GoogleStand) => void): void {
  let stand: GoogleStand | undefined
  beforeAll(async () => {
    stand = await GoogleStand.start()
    use(stand)
  })
  beforeEach(async () => {
    if (stand === undefined) return
    await stand.engine.context.db.deleteFrom('connections').execute()
    stand.server.arrived.length = 0
    let count = 0
    stand.server.answer = () => tokenAnswer(`token-${(count += 1)}`)
  })
  afterAll(() => stand?.close())
}
