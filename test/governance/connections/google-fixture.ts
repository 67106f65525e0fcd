import { generateKeyPairSync, type KeyObject } from 'node:crypto'
import { afterAll, beforeAll, beforeEach } from '@jest/globals'
import { createToolServices } from '../../../src/activities/tools/services.ts'
import type { ToolName } from '../../../src/catalog/index.ts'
import { connect } from '../../../src/governance/connections/connections.ts'
import { startEmulator, type Emulator } from '../../support/emulators.ts'
import { startScriptedServer, type Scripted, type ScriptedServer } from '../../support/scripted-server.ts'
import { startEngine, type Engine } from '../runs/engine-fixture.ts'

export const email = 'bot@acme.iam.gserviceaccount.com'
export const ana = 'ana@acme.example'
export const client = { id: 'an-id', secret: 'a-secret-5b2e' }
const publicUrl = 'http://127.0.0.1:9'

/** An engine whose Google is the emulator, and a server in place of Google for single answers. */
export interface GoogleWorld {
  readonly engine: Engine
  readonly server: ScriptedServer
  readonly emulator: Emulator
  /** The private key of a service account, and its public key. */
  readonly pem: string
  readonly publicKey: KeyObject
}

/**
 * Starts the world for all tests of a file. Before each test, nothing is connected, and the server answers each request
 * with a new token.
 */
export function useGoogle(use: (world: GoogleWorld) => void): void {
  let world: Partial<GoogleWorld> = {}
  beforeAll(async () => {
    const pair = generateKeyPairSync('rsa', { modulusLength: 2048 })
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
    world = { server, emulator }
    const engine = await startEngine({
      PUBLIC_URL: publicUrl,
      GOOGLE_CLIENT_ID: client.id,
      GOOGLE_CLIENT_SECRET: client.secret,
      GOOGLE_BASE_URL: emulator.url,
    })
    const pem = pair.privateKey.export({ type: 'pkcs8', format: 'pem' }) as string
    const whole = { engine, server, emulator, pem, publicKey: pair.publicKey }
    world = whole
    use(whole)
  })
  afterAll(() => Promise.all([world.server?.close(), world.emulator?.close(), world.engine?.close()]))
  beforeEach(async () => {
    const { engine, server } = world as GoogleWorld
    await engine.context.db.deleteFrom('connections').execute()
    server.arrived.length = 0
    let count = 0
    server.answer = () => tokenAnswer(`token-${(count += 1)}`)
  })
}

export const tokenAnswer = (token: string, more: object = {}): Scripted => ({
  status: 200,
  body: { access_token: token, token_type: 'Bearer', expires_in: 3600, ...more },
})

/** Connects Google for an admin with this credential: not every server here is Google's own. */
export const connectWith = ({ engine }: GoogleWorld, credential: unknown) =>
  connect(
    engine.context,
    engine.caller('admin'),
    { tool: 'docs_read', credential, scope: 'personal', name: undefined },
    new AbortController().signal,
  )

/** The connection that a call of the admin's run uses. */
export const connectionFor = ({ engine }: GoogleWorld, tool: ToolName = 'docs_read') =>
  createToolServices(engine.context).connection(
    { organizationId: engine.organizationId, requester: { userId: engine.caller('admin').userId } },
    tool,
    'google',
  )
