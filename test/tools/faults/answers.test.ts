import { existsSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { askAt, credentialAt } from './ask.ts'
import { Call } from './call.ts'
import { drip, hostileAnswers } from './hostile.ts'
import { useProxied } from './proxied.ts'
import { first, once, unknown } from './rows.ts'
import type { FaultService, WritingTool } from './service.ts'
import { byTitle, services } from './services.ts'
import { addOrganization } from '../../api/fixtures.ts'
import { effectOf, type Engine, keptOutput, opOf, useEngine } from '../../governance/runs/engine-fixture.ts'
import { catalog, type ToolName } from '../../../src/tools/index.ts'
import { workflowDefinition } from '../../../src/contract/definition.ts'
import { newId } from '../../../src/contract/ids.ts'
import type { Caller } from '../../../src/governance/access/identity.ts'
import { connect } from '../../../src/governance/connections/connections.ts'
import { changeQuota } from '../../../src/governance/limits/quota.ts'
import { acceptRun } from '../../../src/governance/runs/start/accept.ts'
import { insertWorkflow } from '../../../src/governance/workflows/workflows.ts'
import type { Json, JsonObject } from '../../../src/policy/types.ts'
import { byDepth } from '../../support/depth.ts'
import { until } from '../../stack/until.ts'
import type { Emulator } from '../../support/emulators.ts'
import type { Fault } from '../../support/fault-proxy.ts'

/** A fault of the requests of one call that reads: the code of the failed step, or null if the step completes. */
type ReadRow = readonly [
  name: string,
  error: string | null,
  /** Makes the function that chooses the faults of one new call. `elsewhere`: the address of another host. */
  ofReads: (elsewhere: string) => () => Fault,
  /** Seconds that the service asks to wait. */
  pause?: number,
]
const each = (fault: Fault) => () => (): Fault => fault
const only = (fault: Fault) => () => first(fault)

function readRowsOf({ codes, reads }: FaultService): readonly ReadRow[] {
  const unavailable = reads?.codes.unavailable ?? ''
  const limited = (headers: Record<string, string>): Fault => ({ status: 429, headers })
  const to = (status: number) => (location: string) => () => ({ status, headers: { location } })
  return [
    ['the connection is cut before', null, only('cut')],
    ['the connection is cut before, each time', unavailable, each('cut')],
    ['the answer is lost', null, only('lose answer')],
    ['the answer is lost each time', unavailable, each('lose answer')],
    ['the answer breaks off', null, only('break off')],
    ['429 comes back with a pause', null, only(limited({ 'retry-after': '7' })), 7],
    ['429 comes back without a pause', null, only(limited({}))],
    ['429 comes back each time', codes.rateLimited, each(limited({}))],
    ['502 comes back', null, only({ status: 502 })],
    ['503 comes back each time', unavailable, each({ status: 503 })],
    ['401 comes back each time', 'connection_expired', each({ status: 401 })],
    ['301 leads to another host', codes.redirected, to(301)],
    ['307 leads to another host', codes.redirected, to(307)],
  ]
}

/*
 * Answers of services to calls that go through everything. An answer that is broken or means harm makes only its own
 * call fail. For a call that reads, a fault that passes is followed by another attempt, any other one fails the call
 * with its code, and the credential goes to no other host.
 */

/** Tools that ask one of several services, and each service has its own form of answers. */
const testedElsewhere: Readonly<Partial<Record<ToolName, string>>> = {
  web_search: 'test/tools/web-search.test.ts',
  llm_generate: 'test/tools/language-models.test.ts',
}

let engine: Engine
useEngine((started) => (engine = started))
// The runs of these calls never end, and each run keeps its slot.
beforeAll(() => changeQuota(engine.context, engine.caller('owner'), { concurrent_executions: 10_000 }))

test('each tool of a service has its answers here, or is tested elsewhere', () => {
  const asking = Object.values(catalog).filter(
    ({ connection, ...tool }) =>
      (connection !== 'none' && connection !== 'installation') || 'ownService' in tool,
  )
  const here = services.flatMap(({ tools, reads }) => [tools, reads?.tools ?? {}].flatMap(Object.keys))
  expect([...here, ...Object.keys(testedElsewhere)].toSorted()).toEqual(
    asking.map(({ name }) => name).toSorted(),
  )
})

test.each(Object.entries(testedElsewhere))('%s is tested in a file that exists', (_, file) => {
  expect(existsSync(join(import.meta.dirname, '../../..', file))).toBe(true)
})

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
  expect([...here, ...Object.keys(testedElsewhere)].toSorted()).toEqual(
    reading.map(({ name }) => name).toSorted(),
  )
})

/** The person of the other tests, as a member of another organization. */
let stranger: Caller
beforeAll(async () => {
  const { id } = await addOrganization(engine.context)
  const member = engine.caller('member')
  const membership = { organization_id: id, user_id: member.userId, role: 'admin' as const }
  await engine.context.db.insertInto('memberships').values(membership).execute()
  stranger = { ...member, organizationId: id, role: 'admin' }
})

async function callOfStranger(
  tool: ToolName,
  params: JsonObject,
  made: () => Promise<Json[]> = async () => [],
): Promise<Call> {
  const { context } = engine
  const definition = workflowDefinition.parse({ steps: [{ id: 's', tool, params }] })
  const workflowId = newId('workflow')
  const input = { name: 'w', description: '', definition }
  await context.combiner.run(stranger.organizationId, 'org.change', (tx) =>
    insertWorkflow(tx, stranger, workflowId, input),
  )
  const { runId } = await acceptRun(context, { caller: stranger, workflowId, inputs: {} })
  return new Call({ engine, tool, params, made }, runId)
}

/**
 * The answers for one table of a tool. The first tool of a list, and `npm run test:deep` for every tool, gets all of
 * them. The other tools take turns.
 */
const answersFor = (position: number): typeof hostileAnswers =>
  hostileAnswers.filter((_, at) => byDepth(position === 0 || (at + position) % 4 === 0, true))

describe.each(byTitle)('%s', (_, service) => {
  const proxied = useProxied(service, () => engine)
  const writes = Object.keys(service.tools) as ToolName[]
  const reads = Object.keys(service.reads?.tools ?? {}) as ToolName[]

  describe.each(writes)('%s, if a write is answered by', (tool) => {
    test.each(answersFor(writes.indexOf(tool)))('$name', async ({ answer }) => {
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
      const position = readFirst.findIndex(([name, read]) => name === tool && read === nth)
      test.each(answersFor(position))('$name', async ({ name, answer, code }) => {
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
      const looked = answersFor(writes.indexOf(tool)).filter(({ code }) => code !== 'unavailable')
      test.each(looked)('$name', async ({ answer }) => {
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

  const paramsOf = (tool: ToolName, text: string): JsonObject =>
    service.tools[tool]?.params(text, service.place) ?? service.reads?.tools[tool]?.(service.place) ?? {}
  /** Counts the requests that arrive with the connection of the first organization. */
  function counted(): { arrived: number } {
    const requests = { arrived: 0 }
    const pass = () => {
      requests.arrived += 1
      return 'pass' as const
    }
    proxied.ofWrites = proxied.ofReads = proxied.ofLooks = pass
    return requests
  }

  test.each([...writes, ...reads])('%s uses no connection of another organization', async (tool) => {
    const requests = counted()
    const call = await callOfStranger(tool, paramsOf(tool, 'stranger'))
    const { state, made, error } = await (await call.untilOver()).ended()
    expect({ state, made, ...requests }).toEqual({ state: 'failed', made: 0, arrived: 0 })
    // Without a connection, mails go through the installation's mail server, which does not run here.
    if (tool !== 'mail_send') expect(error).toBe('tool_not_available')
  })

  let own: Emulator | undefined
  afterAll(() => own?.close())
  test.each(writes)('%s uses the connection of its person before that of its organization', async (tool) => {
    const hasOneAddress = service.name === 'jira'
    if (!hasOneAddress) own ??= await service.start()
    // The operator sets the only address of Jira, so both connections lead to the same stand-in.
    const { url } = own ?? proxied
    const text = `t${Math.random().toString(36).slice(2)}`
    const connectAs = async (scope: 'organization' | 'personal', at: string) => {
      const asked = { tool, credential: credentialAt(service, at), scope, name: undefined }
      return connect(engine.context, stranger, asked, new AbortController().signal)
    }
    await connectAs('organization', proxied.url)
    const personal = await connectAs('personal', url)
    const requests = counted()
    const { made } = service.tools[tool] as WritingTool
    const call = await callOfStranger(tool, paramsOf(tool, text), () =>
      made(askAt(service, url), text, service.place, url),
    )
    expect(await (await call.untilOver()).ended()).toEqual(once)
    expect((await effectOf(engine.context, opOf(call.runId)))?.sent_with).toBe(`${personal.id} ${url}`)
    if (!hasOneAddress) expect(requests.arrived).toBe(0)
  })

  if (reads.length === 0) return

  describe.each(reads)('%s, if it is answered by', (tool) => {
    test.each(answersFor(reads.indexOf(tool)))('$name', async ({ answer, code }) => {
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

  describe.each(reads)('%s, if', (tool) => {
    test.each(readRowsOf(service))('%s', async (_name, error, ofReads, pause = 0) => {
      const call = await proxied.startRead(tool, error === null ? await outputOf(tool) : undefined)
      arrivedElsewhere = 0
      proxied.ofReads = ofReads(`http://127.0.0.1:${(elsewhere.address() as AddressInfo).port}/`)
      const ended = await (await call.untilOver()).ended()
      expect(ended).toEqual(error === null ? once : { state: 'failed', made: 0, error })
      if (pause > 0) expect(call.pauses).toEqual([pause * 1_000])
      expect(arrivedElsewhere).toBe(0)
    })
  })
})
