import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { catalog, type ToolName } from '../../../../src/catalog/index.ts'
import { changeQuota } from '../../../../src/governance/limits/quota.ts'
import type { Json } from '../../../../src/policy/types.ts'
import { keptOutput, opOf, useEngine, type Engine } from '../../../governance/runs/engine-fixture.ts'
import { useProxied } from './proxied.ts'
import { readRowsOf } from './reads.ts'
import { once } from './rows.ts'
import { byTitle, services } from './services.ts'

/*
 * Calls that read, through everything. A fault that passes is followed by another attempt, any other one fails the call
 * with its code, and the credential goes to no other host.
 */

/** Tools that ask one of several services, and each service has its own form of answers. */
const testedElsewhere: readonly ToolName[] = ['web_search', 'llm_generate']

let engine: Engine
useEngine((started) => (engine = started))
// The runs of these calls never end, and each run keeps its slot.
beforeAll(() => changeQuota(engine.context, engine.caller('owner'), { concurrent_executions: 10_000 }))

let elsewhere: Server
let arrivedElsewhere = 0
beforeAll(async () => {
  elsewhere = createServer((_, response) => {
    arrivedElsewhere += 1
    response.end('{}')
  })
  await new Promise<void>((resolve) => elsewhere.listen(0, '127.0.0.1', resolve))
})
afterAll(() => new Promise((resolve) => void elsewhere?.close(resolve)))

test('each tool that reads from a service has its faults here, or is tested elsewhere', () => {
  const reading = Object.values(catalog).filter(
    ({ sideEffect, connection }) =>
      sideEffect === 'read' && connection !== 'none' && connection !== 'installation',
  )
  const here = services.flatMap(({ reads }) => Object.keys(reads?.tools ?? {}))
  expect([...here, ...testedElsewhere].toSorted()).toEqual(reading.map(({ name }) => name).toSorted())
})

describe.each(byTitle.filter(([, { reads }]) => Object.keys(reads?.tools ?? {}).length > 0))(
  '%s',
  (_, service) => {
    const proxied = useProxied(service, () => engine)
    const outputs = new Map<ToolName, Json>()
    /** The output of a call without faults. */
    async function outputOf(tool: ToolName): Promise<Json> {
      const known = outputs.get(tool)
      if (known !== undefined) return known
      const call = await proxied.startRead(tool)
      await call.untilOver()
      const output = await keptOutput(engine.context, opOf(call.runId))
      outputs.set(tool, output)
      return output
    }

    describe.each(Object.keys(service.reads?.tools ?? {}) as ToolName[])('%s, if', (tool) => {
      test.each(readRowsOf(service))('$name', async ({ ofReads, error, pause }) => {
        const call = await (error === null
          ? proxied.startRead(tool, await outputOf(tool))
          : proxied.startRead(tool))
        arrivedElsewhere = 0
        proxied.ofReads = ofReads(`http://127.0.0.1:${(elsewhere.address() as AddressInfo).port}/`)
        const ended = await (await call.untilOver()).ended()
        expect(ended).toEqual(error === null ? once : { state: 'failed', made: 0, error })
        if (pause !== undefined) expect(call.pauses).toEqual([pause * 1_000])
        expect(arrivedElsewhere).toBe(0)
      })
    })
  },
)
