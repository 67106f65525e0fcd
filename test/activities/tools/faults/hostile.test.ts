import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, describe, expect, test } from '@jest/globals'
import { catalog, type ToolName } from '../../../../src/catalog/index.ts'
import { changeQuota } from '../../../../src/governance/limits/quota.ts'
import { useEngine, type Engine } from '../../../governance/runs/engine-fixture.ts'
import { until } from '../../../stack/until.ts'
import { drip, hostileAnswers } from './hostile.ts'
import { useProxied } from './proxied.ts'
import { first, once, unknown } from './rows.ts'
import { byTitle, services } from './services.ts'

/* An answer that is broken or means harm makes only its own call fail. */

/** Tools that ask one of several services, and each service has its own form of answers. */
const testedElsewhere: Readonly<Partial<Record<ToolName, string>>> = {
  web_search: 'test/activities/tools/search/web-search.test.ts',
  llm_generate: 'test/activities/tools/llm/llm-generate.test.ts',
}

let engine: Engine
useEngine((started) => (engine = started))
// The runs of these calls never end, and each run keeps its slot.
beforeAll(() => changeQuota(engine.context, engine.caller('owner'), { concurrent_executions: 10_000 }))

test('each tool of a service has its answers here, or is tested elsewhere', () => {
  const asking = Object.values(catalog).filter(
    ({ hasExecutor, connection, ...tool }) =>
      hasExecutor && ((connection !== 'none' && connection !== 'installation') || 'ownService' in tool),
  )
  const here = services.flatMap(({ tools, reads }) => [tools, reads?.tools ?? {}].flatMap(Object.keys))
  expect([...here, ...Object.keys(testedElsewhere)].toSorted()).toEqual(
    asking.map(({ name }) => name).toSorted(),
  )
})

test.each(Object.entries(testedElsewhere))('%s is tested in a file that exists', (_, file) => {
  expect(existsSync(join(import.meta.dirname, '../../../..', file))).toBe(true)
})

describe.each(byTitle)('%s', (_, service) => {
  const proxied = useProxied(service, () => engine)
  const writes = Object.keys(service.tools) as ToolName[]
  const reads = Object.keys(service.reads?.tools ?? {}) as ToolName[]

  describe.each(writes)('%s, if a write is answered by', (tool) => {
    test.each(hostileAnswers)('$name', async ({ answer }) => {
      const call = await proxied.start(tool)
      proxied.ofWrites = first(answer)
      const ended = await (await call.untilOver()).ended()
      const { repeat = catalog[tool].repeat } = service
      const isAsked = repeat === 'unsafe' || service.tools[tool]?.mayStillAppear === true
      expect(ended).toEqual(isAsked ? unknown(0) : once)
    })
  })

  test.each(writes)('%s reads before its write what is tested here', async (tool) => {
    const call = await proxied.start(tool)
    let count = 0
    proxied.ofReads = () => {
      count += 1
      return 'pass'
    }
    await call.untilOver()
    expect(count).toBe(service.tools[tool]?.readsBefore ?? 0)
  })

  const readFirst = writes.flatMap((tool) =>
    Array.from({ length: service.tools[tool]?.readsBefore ?? 0 }, (__, index) => [tool, index + 1] as const),
  )
  if (readFirst.length > 0)
    describe.each(readFirst)('%s, if its read %d before the write is answered by', (tool, nth) => {
      test.each(hostileAnswers)('$name', async ({ name, answer, code }) => {
        const call = await proxied.start(tool)
        let count = 0
        // An attempt ends with this read.
        proxied.ofReads = () => {
          count += 1
          return count % nth === 0 ? answer : 'pass'
        }
        const ended = await (await call.untilOver()).ended()
        // Google answers an empty object for a spreadsheet without marks, so any object reads like one.
        const isNoMarks = tool === 'sheets_append' && nth === 2 && name === 'wrong types'
        const failed = { state: 'failed', made: 0, error: service.reads?.codes[code] }
        expect(ended).toEqual(isNoMarks ? once : failed)
      })
    })

  // GitHub stands for all services here: their looks read answers with the same code.
  if (service.name === 'github')
    describe.each(writes)('%s, if its answer is lost and each look for it is answered by', (tool) => {
      test.each(hostileAnswers.filter(({ code }) => code !== 'unavailable'))('$name', async ({ answer }) => {
        const call = await proxied.start(tool)
        let writes = 0
        proxied.ofWrites = () => {
          writes += 1
          return 'lose answer'
        }
        proxied.ofLooks = () => answer
        expect(await (await call.untilOver()).ended()).toEqual(unknown(1))
        expect(writes).toBe(1)
      })
    })

  if (reads.length === 0) return

  describe.each(reads)('%s, if it is answered by', (tool) => {
    test.each(hostileAnswers)('$name', async ({ answer, code }) => {
      const call = await proxied.startRead(tool)
      proxied.ofReads = () => answer
      const ended = await (await call.untilOver()).ended()
      expect(ended).toEqual({ state: 'failed', made: 0, error: service.reads?.codes[code] })
    })
  })

  test.each(reads.slice(0, 1))(
    'answers that never end stop no other call, and end with their run: %s',
    async (read) => {
      let closed = 0
      let opened = 0
      proxied.ofReads = () => {
        opened += 1
        return drip(() => (closed += 1))
      }
      const slow = await Promise.all(Array.from({ length: 20 }, () => proxied.startRead(read)))
      const over = slow.map((call) => call.attempt())
      await until('all of them wait', () => opened === slow.length)
      proxied.ofReads = () => 'pass'
      for (const tool of writes)
        expect(await (await (await proxied.start(tool)).untilOver()).ended()).toEqual(once)
      expect(closed).toBe(0)
      for (const call of slow) call.cancel()
      await Promise.all(over)
      await until('no request is left', () => closed === slow.length)
      expect(await slow[0]?.ended()).toEqual({ state: 'cancelled', made: 0 })
    },
  )
})
