import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import type { ToolName } from '../../../../src/catalog/index.ts'
import { workflowDefinition } from '../../../../src/contract/definition.ts'
import { newId } from '../../../../src/contract/ids.ts'
import type { Caller } from '../../../../src/governance/access/identity.ts'
import { connect } from '../../../../src/governance/connections/connections.ts'
import { acceptRun } from '../../../../src/governance/runs/start/accept.ts'
import { insertWorkflow } from '../../../../src/governance/workflows/workflows.ts'
import type { Json, JsonObject } from '../../../../src/policy/types.ts'
import { addOrganization } from '../../../api/fixtures.ts'
import { effectOf, opOf, useEngine, type Engine } from '../../../governance/runs/engine-fixture.ts'
import type { Emulator } from '../../../support/emulators.ts'
import { askAt, credentialAt } from './ask.ts'
import { Call } from './call.ts'
import { useProxied } from './proxied.ts'
import { once } from './rows.ts'
import type { WritingTool } from './service.ts'
import { byTitle } from './services.ts'

/*
 * Two organizations with one person in both. A call uses only connections of its own organization. A connection of the
 * person comes before the organization's connection.
 */

let engine: Engine
useEngine((started) => (engine = started))

/** The person of the other tests, as a member of another organization. */
let elsewhere: Caller
beforeAll(async () => {
  const { id } = await addOrganization(engine.context)
  const member = engine.caller('member')
  const membership = { organization_id: id, user_id: member.userId, role: 'admin' as const }
  await engine.context.db.insertInto('memberships').values(membership).execute()
  elsewhere = { ...member, organizationId: id, role: 'admin' }
})

async function callElsewhere(
  tool: ToolName,
  params: JsonObject,
  made: () => Promise<Json[]> = async () => [],
): Promise<Call> {
  const { context } = engine
  const definition = workflowDefinition.parse({ steps: [{ id: 's', tool, params }] })
  const workflowId = newId('workflow')
  const input = { name: 'w', description: '', definition }
  await context.combiner.run(elsewhere.organizationId, 'org.change', (tx) =>
    insertWorkflow(tx, elsewhere, workflowId, input),
  )
  const { runId } = await acceptRun(context, { caller: elsewhere, workflowId, inputs: {} })
  return new Call({ engine, tool, params, made }, runId)
}

describe.each(byTitle)('%s', (_, service) => {
  const proxied = useProxied(service, () => engine)
  const writes = Object.keys(service.tools) as ToolName[]
  const reads = Object.keys(service.reads?.tools ?? {}) as ToolName[]
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
    const call = await callElsewhere(tool, paramsOf(tool, 'stranger'))
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
      return connect(engine.context, elsewhere, asked, new AbortController().signal)
    }
    await connectAs('organization', proxied.url)
    const personal = await connectAs('personal', url)
    const requests = counted()
    const { made } = service.tools[tool] as WritingTool
    const call = await callElsewhere(tool, paramsOf(tool, text), () =>
      made(askAt(service, url), text, service.place, url),
    )
    expect(await (await call.untilOver()).ended()).toEqual(once)
    expect((await effectOf(engine.context, opOf(call.runId)))?.sent_with).toBe(`${personal.id} ${url}`)
    if (!hasOneAddress) expect(requests.arrived).toBe(0)
  })
})
