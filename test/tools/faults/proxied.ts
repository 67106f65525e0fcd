import { afterAll, beforeAll, beforeEach } from '@jest/globals'
import type { ToolName } from '../../../src/tools/index.ts'
import { connect as connectService } from '../../../src/governance/connections/connections.ts'
import type { Json } from '../../../src/policy/types.ts'
import type { Engine } from '../../governance/runs/engine-fixture.ts'
import { emulatorToken, type Emulator } from '../../support/emulators.ts'
import { startFaultProxy, type Fault, type FaultProxy } from '../../support/fault-proxy.ts'
import { askAt, credentialAt } from './ask.ts'
import { bodies, Call } from './call.ts'
import type { Live } from './live.ts'
import type { Ask, FaultService, WritingTool } from './service.ts'

/** A service behind a proxy, connected for the organization whose calls are made. */
export interface Proxied {
  /** The address of the proxy. */
  readonly url: string
  /** The fault of each write. */
  ofWrites: () => Fault | Promise<Fault>
  /** The fault of each later request that is not itself a write, such as a look for the call. */
  ofLooks: () => Fault
  /** The fault of each request before the first write, such as every request of a reading tool. */
  ofReads: () => Fault
  /** Starts a call of a tool that writes. */
  start(tool: ToolName): Promise<Call>
  /** `output`: the output that the call must have if it completes. */
  startRead(tool: ToolName, output?: Json): Promise<Call>
  /** Replaces the connection by another one to the same service. */
  reconnect(): Promise<void>
}

/**
 * Starts the service for the tests of one `describe`, or uses the real one. Before each test, all faults are removed.
 */
export function useProxied(service: FaultService, engineOf: () => Engine, live: Live | null = null): Proxied {
  const { token, place } = live ?? { token: emulatorToken, place: service.place }
  const credentialFor = (url: string): object =>
    live === null ? credentialAt(service, url) : { token, base_url: url }
  let emulator: Emulator
  let proxy: FaultProxy
  const ask: Ask = (...asked) => askAt(service, emulator.url, credentialFor(emulator.url), token)(...asked)
  const proxied: Proxied = {
    get url() {
      return proxy.url
    },
    ofWrites: () => 'pass',
    ofLooks: () => 'pass',
    ofReads: () => 'pass',
    start(tool) {
      const { params, made } = service.tools[tool] as WritingTool
      const text = `t${Math.random().toString(36).slice(2)}`
      return Call.start({
        engine: engineOf(),
        listDelay: live?.listDelay,
        tool,
        params: params(text, place),
        made: () => made(ask, text, place, proxy.url),
      })
    },
    reconnect: () => connect(engineOf(), service, credentialFor(proxy.url)),
    startRead(tool, output) {
      const params = service.reads?.tools[tool]?.(place) ?? {}
      const made = async () => (output === undefined ? [] : [output])
      return Call.start({ engine: engineOf(), tool, params, made })
    },
  }
  beforeAll(async () => {
    emulator = live === null ? await service.start() : { url: live.url, close: () => Promise.resolve() }
    proxy = await startFaultProxy(emulator.url)
  })
  beforeEach(async () => {
    proxy.choose = () => 'pass'
    // The operator sets the address of Jira, so the credential does not contain it.
    Object.assign(engineOf().context.config.connections, { trackerBaseUrl: proxy.url })
    // The previous test may have expired the connection.
    await engineOf().context.db.deleteFrom('connections').execute()
    await proxied.reconnect()
    proxied.ofWrites = proxied.ofLooks = proxied.ofReads = () => 'pass'
    let hasWritten = false
    proxy.choose = (method, path) => {
      // Google's authorization server is a service of its own.
      if (path === '/token' || path.startsWith('/.well-known/')) return 'pass'
      if (!service.isWrite(method, path)) return hasWritten ? proxied.ofLooks() : proxied.ofReads()
      hasWritten = true
      return proxied.ofWrites()
    }
  })
  afterAll(() => Promise.all([proxy?.close(), emulator?.close()]))
  return proxied
}

/** Makes an attempt that is cancelled while its write is on its way. Then `fault` happens to the write. */
export async function cancelInFlight(proxied: Proxied, call: Call, fault: Fault): Promise<'again' | 'over'> {
  const arrived = Promise.withResolvers<void>()
  const cancelled = Promise.withResolvers<Fault>()
  proxied.ofWrites = () => {
    arrived.resolve()
    return cancelled.promise
  }
  const attempt = call.attempt()
  await arrived.promise
  call.cancel()
  cancelled.resolve(fault)
  return attempt
}

/** Makes an attempt whose worker seems to die after its write. Returns a function with which the worker goes on. */
export async function seemDead(proxied: Proxied, call: Call, tool: ToolName, fault: Fault) {
  const dead = Promise.withResolvers<void>()
  const sent = Promise.withResolvers<void>()
  proxied.ofWrites = () => fault
  const stuck = call.attempt(async (decided) => {
    try {
      return await bodies[tool]!(decided)
    } finally {
      sent.resolve()
      await dead.promise
    }
  })
  await sent.promise
  proxied.ofWrites = () => 'pass'
  return async (): Promise<void> => {
    dead.resolve()
    await stuck
  }
}

async function connect(
  { context, caller }: Engine,
  service: FaultService,
  credential: object,
): Promise<void> {
  const [tool = ''] = Object.keys(service.tools)
  const asked = { tool, credential, scope: 'organization', name: undefined } as const
  await connectService(context, caller('admin'), asked, new AbortController().signal)
}
