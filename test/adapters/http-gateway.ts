import { afterAll, afterEach, beforeAll, beforeEach } from '@jest/globals'
import { httpUpstream, type HttpAsked, type HttpUpstream } from './http-upstream.ts'
import { endGateways, startGateway, type Gateway, type Wire } from './run-mcp.ts'
import { allowed, reply, scriptedService, type ScriptedService } from './scripted-service.ts'

/* A gateway in front of servers that are reached over streamable HTTP. */

export interface HttpServers {
  /** The service. It allows every call, unless a test scripts it. */
  readonly service: ScriptedService
  readonly server: HttpUpstream
  /** The same server with TLS. */
  readonly secure: HttpUpstream
  /** Starts a gateway with the server `web`. `entry` changes its entry. */
  start(entry?: object, env?: NodeJS.ProcessEnv): Promise<Gateway>
  /** The calls that `server` has received. */
  calls(): HttpAsked[]
}

export const isCall = ({ message }: { message: Wire }): boolean => message?.method === 'tools/call'

/** The names of all tools that the gateway offers. */
export const names = async (gateway: Gateway): Promise<string[]> =>
  (await gateway.tools()).map((tool: Wire) => tool.name)

/** Starts the servers for the tests of a file, and ends the gateways after each test. */
export function useHttpServers(use: (started: HttpServers) => void): void {
  let started: HttpServers | undefined
  beforeAll(async () => {
    const service = await scriptedService(() => {})
    const [server, secure] = [await httpUpstream(), await httpUpstream(true)]
    started = {
      service,
      server,
      secure,
      start: (entry = {}, env = {}) =>
        startGateway({
          servers: { web: { type: 'http', url: server.url, ...entry } },
          env: { SERVICE_API_URL: service.url, SERVICE_API_KEY: 'csk_test', ...env },
        }),
      calls: () => server.asked.filter(isCall),
    }
    use(started)
  })
  beforeEach(() => {
    if (started === undefined) return
    const { service, server, secure } = started
    for (const each of [server, secure]) {
      each.asked.length = 0
      each.script = () => false
    }
    service.asked.length = 0
    service.script = (asked, socket) =>
      reply(socket, 200, asked.path.endsWith('/authorize') ? allowed : { ok: true })
  })
  afterEach(endGateways)
  afterAll(() => Promise.all([started?.service.close(), started?.server.close(), started?.secure.close()]))
}
