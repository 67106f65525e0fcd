import { afterAll, afterEach, beforeAll, beforeEach } from '@jest/globals'
import { endGateways, odd, startGateway, type Gateway, type GatewayOptions, type Wire } from './run-mcp.ts'
import { allowed, reply, scriptedService, type Script, type ScriptedService } from './scripted-service.ts'

/** Allows every call, and takes every report. */
const allowing: Script = ({ path }, socket) =>
  reply(socket, 200, path.endsWith('/authorize') ? allowed : { ok: true })

/** Starts a service for the tests of a file. Each test begins with this script, and nothing asked. */
export function useService(
  use: (service: ScriptedService) => void,
  script: Script = allowing,
  tls = false,
): void {
  let service: ScriptedService | undefined
  beforeAll(async () => {
    service = await scriptedService(script, tls)
    use(service)
  })
  beforeEach(() => {
    if (service === undefined) return
    service.asked.length = 0
    service.script = script
  })
  afterAll(() => service?.close())
}

export interface Gateways {
  readonly service: ScriptedService
  /** Starts a gateway with these servers in front of the service. By default it has the server `odd`. */
  start(servers?: Readonly<Record<string, unknown>>, more?: GatewayOptions): Promise<Gateway>
  /** What the service was asked to decide. */
  questions(): Wire[]
}

/** The same, with gateways that end after each test. */
export function useGateways(use: (started: Gateways) => void): void {
  useService((service) => {
    const own = { SERVICE_API_URL: service.url, SERVICE_API_KEY: 'csk_test' }
    use({
      service,
      start: (servers = { odd: odd() }, { env, ...more } = {}) =>
        startGateway({ servers, env: { ...own, ...env }, ...more }),
      questions: () =>
        service.asked.filter(({ path }) => path === '/api/v1/authorize').map(({ body }) => JSON.parse(body)),
    })
  })
  afterEach(endGateways)
}

/** Starts one gateway for all tests of a block. */
export function sharedGateway(begin: () => Promise<Gateway>, use: (gateway: Gateway) => void): void {
  let gateway: Gateway | undefined
  beforeAll(async () => {
    gateway = await begin()
    gateway.keep()
    use(gateway)
  })
  afterAll(() => gateway?.close())
}
