import { beforeAll, describe, expect, test } from '@jest/globals'
import type { ToolName } from '../../../../src/catalog/index.ts'
import { changeQuota } from '../../../../src/governance/limits/quota.ts'
import { SecretsUnavailable } from '../../../../src/governance/sealing/secrets-backend.ts'
import { useEngine, type Engine } from '../../../governance/runs/engine-fixture.ts'
import { github } from './github.ts'
import { useProxied, type Proxied } from './proxied.ts'
import { drip } from './hostile.ts'
import { once } from './rows.ts'
import type { FaultService } from './service.ts'
import { services, titled } from './services.ts'

/* A call that ends before its point of no return has sent nothing that has an effect. */

let engine: Engine
useEngine((started) => (engine = started))
beforeAll(() => changeQuota(engine.context, engine.caller('owner'), { concurrent_executions: 10_000 }))

/** Counts the requests of a call, by kind. */
function counted(proxied: Proxied, read: Proxied['ofReads'] = () => 'pass') {
  const asked = { reads: 0, writes: 0 }
  proxied.ofReads = () => {
    asked.reads += 1
    return read()
  }
  proxied.ofWrites = () => {
    asked.writes += 1
    return 'pass'
  }
  return asked
}

/** The tools of a service that read something before they write. */
const reading = ({ tools }: FaultService): ToolName[] =>
  (Object.keys(tools) as ToolName[]).filter((tool) => (tools[tool]?.readsBefore ?? 0) > 0)
const ofReading = services.filter((service) => reading(service).length > 0)

describe.each(titled(ofReading))('%s', (_, service) => {
  const proxied = useProxied(service, () => engine)

  test.each(reading(service))('%s that is cancelled while it reads sends nothing', async (tool) => {
    const call = await proxied.start(tool)
    const waits = Promise.withResolvers<void>()
    const asked = counted(proxied, () => {
      waits.resolve()
      return drip(() => {})
    })
    const attempt = call.attempt()
    await waits.promise
    call.cancel()
    expect(await attempt).toBe('over')
    expect(await call.ended()).toEqual({ state: 'cancelled', made: 0 })
    expect(asked).toEqual({ reads: 1, writes: 0 })
  })
})

describe('while the backend of secrets is away', () => {
  const proxied = useProxied(github, () => engine)
  test('a call asks its service nothing, and a later attempt makes it', async () => {
    const call = await proxied.start('github_comment')
    const asked = counted(proxied)
    const kept = engine.context.secrets
    const read = () => Promise.reject(new SecretsUnavailable('away'))
    try {
      Object.assign(engine.context, { secrets: { ...kept, read } })
      expect(await call.attempt()).toBe('again')
      expect(asked).toEqual({ reads: 0, writes: 0 })
    } finally {
      Object.assign(engine.context, { secrets: kept })
    }
    expect(await call.attempt()).toBe('over')
    expect(await call.ended()).toEqual(once)
    expect(asked.writes).toBe(1)
  })
})
