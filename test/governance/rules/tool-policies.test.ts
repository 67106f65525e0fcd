import { afterEach, beforeAll, describe, expect, test } from '@jest/globals'
import { getTool, catalog } from '../../../src/tools/index.ts'
import type { ToolDeclaration } from '../../../src/tools/kit/tool.ts'
import {
  changeToolPolicy,
  deleteToolPolicy,
  mostToolPolicies,
} from '../../../src/governance/rules/tool-policies.ts'
import { workflowDefinition } from '../../../src/contract/definition.ts'
import type { DomainError } from '../../../src/governance/errors.ts'
import { acceptRun } from '../../../src/governance/runs/start/accept.ts'
import { previewRun } from '../../../src/governance/runs/start/preview.ts'
import { createWorkflow } from '../../../src/governance/workflows/workflows.ts'
import { limitNames, type LimitName, type Restrictions } from '../../../src/policy/tool-limits.ts'
import type { JsonObject } from '../../../src/policy/types.ts'
import {
  holdRule,
  oneStep,
  opOf,
  outcomeOf,
  outputOf,
  useEngine,
  type Engine,
  type ResolvedCall,
} from '../runs/engine-fixture.ts'
import { create, save, forget, forgetAll } from './policy-calls.ts'
import { policySnapshot } from '../../../src/governance/audit/combiner.ts'
import {
  createRoleOverride,
  deleteRoleOverride,
  mostRoleOverrides,
} from '../../../src/governance/rules/role-overrides.ts'
import { callsOf, services } from '../../tools/faults/services.ts'

let engine: Engine
useEngine((started) => (engine = started))
afterEach(() => forgetAll(engine))

const change = (tool: string, patch: object) =>
  changeToolPolicy(engine.context, engine.caller('owner'), tool, patch)

/** For every limit of a policy, a value. */
const values: Record<LimitName, Restrictions[LimitName]> = {
  read_only: true,
  allowed_domains: ['acme.com'],
  allowed_repos: ['acme/app'],
  allowed_channels: ['#general'],
  max_message_length: 5,
  max_response_size_kb: 1,
}

/** For every tool of the catalogue, a call that breaks these limits. */
const params: Record<string, JsonObject> = {
  ...Object.fromEntries(services.flatMap((service) => callsOf(service, 'too long'))),
  mail_send: { to: 'bo@evil.test', subject: 's', text: 'too long' },
  calendar_create_event: { title: 't', attendees: 'bo@evil.test', description: 'too long' },
  memory_set: { key: 'k', value: 1 },
  memory_get: { key: 'k' },
  file_read: { path: 'p' },
  web_search: { query: 'q' },
  llm_generate: { prompt: 'p' },
}

const every = Object.values(catalog).flatMap((tool: ToolDeclaration) =>
  limitNames.map((name) => [tool.name, name, Object.hasOwn(tool.constraints, name)] as const),
)

/** The outcome of a call whose output has this many characters. */
const recordLong = (op: ResolvedCall, attempt: number, length: number) => {
  const done = outcomeOf(op, attempt, 'completed')
  const result = { ...done.result, output: outputOf(op.key, 'x'.repeat(length)) } as typeof done.result
  return engine.record({ ...done, result })
}

/** The result of a call that exceeds a limit. */
function changed(tool: string, name: LimitName): string {
  if (name === 'max_response_size_kb') return 'failed'
  const readings: string[] = Object.values(getTool(tool)?.constraints[name] ?? {})
  return readings.includes('audience') ? 'the service is asked who reads there' : 'denied'
}

describe('a limit of a tool policy', () => {
  let runId: string
  beforeAll(async () => {
    runId = await engine.run(oneStep)
  })

  test.each(every.filter(([, , takes]) => takes))(
    '%s: %s changes the result of a call',
    async (tool, name) => {
      const outcome = async () => {
        const id = await engine.run(oneStep)
        const op = opOf(id, {
          tool: { ...(getTool(tool) as ToolDeclaration), connection: 'none' },
          params: params[tool] ?? {},
        })
        const verdict = await engine.decide(op)
        if (!verdict.go) return verdict.state
        if (verdict.audience.length > 0) return 'the service is asked who reads there'
        return recordLong(op, verdict.attempt, 1024)
      }
      expect(await outcome()).toBe('completed')
      await save(engine, tool, { [name]: values[name] })
      expect(await outcome()).toBe(changed(tool, name))
    },
  )

  test.each(every.filter(([, , takes]) => !takes))(
    '%s: %s is refused, and the message names the tools that support it',
    async (tool, name) => {
      const takers = every.filter(([, each, takes]) => each === name && takes).map(([each]) => `\`${each}\``)
      const refusal = {
        code: 'validation_error',
        details: [{ path: `restrictions.${name}`, message: expect.stringContaining(takers.join(', ')) }],
      }
      await expect(save(engine, tool, { [name]: values[name] })).rejects.toMatchObject(refusal)
      await create(engine, { tool_name: tool, allowed: true })
      const changed = change(tool, { restrictions: { [name]: values[name] } })
      await expect(changed).rejects.toMatchObject(refusal)
    },
  )

  test('agents’ tools support `read_only` only', async () => {
    await save(engine, 'Bash', { read_only: true })
    await forgetAll(engine)
    for (const name of limitNames.filter((each) => each !== 'read_only'))
      await expect(save(engine, 'Bash', { [name]: values[name] })).rejects.toMatchObject({
        code: 'validation_error',
      })
  })

  test('is checked at every attempt, and an output above it is not stored', async () => {
    const tool = getTool('memory_get') as ToolDeclaration
    const op = opOf(runId, { tool, params: { key: 'k' } })
    const attempt = await engine.go(op)
    await save(engine, 'memory_get', { max_response_size_kb: 1 })
    expect(await recordLong(op, attempt, 2_000)).toBe('failed')
    const effect = await engine.effectOf(op)
    const error = { code: 'response_too_large', fault: 'policy', retryable: false }
    expect(effect).toMatchObject({ output_sealed: null, error })
    expect(effect?.error?.message).toContain('takes 2 KiB, and a tool policy allows 1')
    expect((await engine.runOf(runId)).stored_bytes).toBeLessThan(1_000)
  })
})

describe('plan, preview and run give one call the same verdict', () => {
  const acme = { allowed_domains: ['acme.com'], max_message_length: 5 }
  const acmeRepos = { allowed_repos: ['acme/app', 'labs/*'] }
  const channels = { allowed_channels: ['#a'] }
  const mail = { to: 'a@acme.com', subject: 's', text: 'short' }
  const rows: [string, string, Restrictions, JsonObject, boolean][] = [
    ['a mail inside', 'mail_send', acme, mail, false],
    ['a mail outside', 'mail_send', acme, { ...mail, to: 'a@evil.test' }, true],
    ['a copy outside', 'mail_send', acme, { ...mail, cc: 'A <a@acme.com>, b@evil.test' }, true],
    ['a look-alike', 'mail_send', acme, { ...mail, to: 'a@аcme.com' }, true],
    ['a long text', 'mail_send', acme, { ...mail, text: 'longer' }, true],
    ['a write that may only read', 'memory_set', { read_only: true }, { key: 'k', value: 1 }, true],
    ['a file of an allowed repository', 'github_get_file', acmeRepos, { repo: 'acme/app', path: 'a' }, false],
    ['a file of another repository', 'github_get_file', acmeRepos, { repo: 'evil/app', path: 'a' }, true],
    ['a path that climbs', 'github_get_file', acmeRepos, { repo: 'acme/app', path: 'a/../../x' }, true],
    ['a search of an allowed owner', 'github_search_code', acmeRepos, { query: 'parse org:labs' }, false],
    ['a search that names none', 'github_search_code', acmeRepos, { query: 'parse' }, true],
    ['a message to an allowed channel', 'slack_send_message', channels, { channel: '#a', text: 't' }, false],
    ['a message to another channel', 'slack_send_message', channels, { channel: '#b', text: 't' }, true],
    ['a read without limits on parameters', 'memory_get', { max_response_size_kb: 1 }, { key: 'k' }, false],
  ]
  const verdicts = async (tool: string, params: JsonObject) => {
    const { context } = engine
    const definition = workflowDefinition.parse({ steps: [{ id: 's', tool, params }] })
    const plain = { name: 'w', description: '', definition }
    const { id: workflowId } = await createWorkflow(context, engine.caller('member'), plain)
    const request = { caller: engine.caller('member'), workflowId, inputs: {} }
    const planned = await previewRun(context, request)
    // If the parameters are inputs, the preview of a definition knows no values before the run.
    const hidden = Object.fromEntries(Object.keys(params).map((name) => [name, `{{input.${name}}}`]))
    const inputs = Object.fromEntries(Object.keys(params).map((name) => [name, { type: 'string' }]))
    const open = workflowDefinition.parse({ inputs, steps: [{ id: 's', tool, params: hidden }] })
    const unknown = await previewRun(context, { ...request, inputs: undefined, definition: open })
    const accepted = await acceptRun(context, request).then(
      () => 'allow',
      (error: DomainError) => (error.code === 'run_denied' ? 'deny' : error.code),
    )
    // No service is connected here, and the policies decide before that.
    const declared = { ...(getTool(tool) as ToolDeclaration), connection: 'none' } as const
    const op = opOf(await engine.run(oneStep), { tool: declared, params })
    const decided = await engine.decide(op)
    return {
      preview: planned.verdict,
      isExecutable: planned.executable,
      isCertain: planned.steps[0]?.certainty === 'definite',
      accepted,
      run: decided.go ? 'allow' : decided.state === 'denied' ? 'deny' : decided.state,
      possible: unknown.steps[0],
    }
  }

  test.each(rows)('%s', async (_, tool, limits, params, isRefused) => {
    const verdict = isRefused ? 'deny' : 'allow'
    await save(engine, tool, limits)
    const { possible, ...said } = await verdicts(tool, params)
    expect(said).toEqual({
      preview: verdict,
      isExecutable: !isRefused,
      isCertain: true,
      accepted: verdict,
      run: verdict,
    })
    // If the parameters are not known, the verdict must be within the bounds that the preview gives.
    if (possible?.certainty === 'definite') expect(possible.verdict).toBe(verdict)
    else expect(possible).toMatchObject({ verdict: 'deny', role_policy: { certainty: 'possible' } })
  })

  test('a refused run names the limit in its error', async () => {
    await save(engine, 'mail_send', acme)
    const run = engine.run({
      steps: [{ id: 's', tool: 'mail_send', params: { ...mail, to: 'a@evil.test' } }],
    })
    await expect(run).rejects.toMatchObject({
      code: 'run_denied',
      details: [{ path: 'steps.s', message: expect.stringContaining('`allowed_domains`') }],
    })
    await expect(run).rejects.not.toMatchObject({ message: expect.stringContaining('evil') })
  })

  test('a limit that is saved while a call waits for its approval holds for it', async () => {
    await engine.rules(holdRule())
    const op = opOf(await engine.run(oneStep), {
      tool: getTool('mail_send') as ToolDeclaration,
      params: { ...mail, to: 'a@evil.test' },
    })
    await engine.vote(await engine.hold(op), 'admin')
    await save(engine, 'mail_send', acme)
    expect(await engine.decide(op)).toMatchObject({ go: false, state: 'denied' })
  })
})

test('a second policy of a tool is a conflict that names how to change the first', async () => {
  const { organizationId } = engine
  await create(engine, { tool_name: 'memory_set', allowed: false })
  await create(engine, { tool_name: 'memory_set', allowed: false, role: 'admin' })
  for (const role of [undefined, 'admin']) {
    const change = `\`PATCH /organizations/${organizationId}/tool-policies/memory_set${role === undefined ? '' : '?role=admin'}\``
    await expect(create(engine, { tool_name: 'memory_set', allowed: true, role })).rejects.toMatchObject({
      code: 'conflict',
      message: expect.stringContaining(change),
    })
  }
})

test('a policy that does not exist is refused with the role that has none', async () => {
  const owner = engine.caller('owner')
  for (const [role, message] of [
    [undefined, 'the organization has no policy for `memory_get` without a role'],
    ['viewer', 'role `viewer` has no policy for `memory_get`'],
  ] as const) {
    const refusal = { code: 'not_found', message }
    await expect(deleteToolPolicy(engine.context, owner, 'memory_get', role)).rejects.toMatchObject(refusal)
    const changed = change('memory_get', { allowed: true, ...(role && { role }) })
    await expect(changed).rejects.toMatchObject(refusal)
  }
})

describe('a tool policy without effect', () => {
  afterEach(() => engine.settings({ default_tool_access: 'allow' }))
  const refusalOf = async (tool: string) => {
    const { toolAccess } = await policySnapshot(engine.context, engine.organizationId)
    return toolAccess.refusal({ tool, role: 'member', sideEffect: 'write', params: {} })
  }

  test.each<[string, string, object, object]>([
    ['without fields', 'memory_set', {}, {}],
    ['with `allowed: null`', 'memory_set', { allowed: null }, {}],
    ['of a role', 'memory_set', { role: 'member' }, {}],
    ['with `read_only: false`', 'memory_set', { restrictions: { read_only: false } }, { read_only: false }],
    ['of a tool without limits', 'web_search', { restrictions: { read_only: false } }, { read_only: false }],
  ])('%s is saved, and neither opens nor closes the tool', async (_, tool, body, restrictions) => {
    expect(await create(engine, { tool_name: tool, ...body })).toMatchObject({ allowed: null, restrictions })
    expect(await refusalOf(tool)).toBeNull()
    await engine.settings({ default_tool_access: 'deny' })
    expect(await refusalOf(tool)).toMatchObject({ reason: 'tool not allowed by any policy' })
  })

  test('may be the result of a change, and lifts no limit of the other policy', async () => {
    await save(engine, 'memory_set', { read_only: true })
    await create(engine, { tool_name: 'memory_set', allowed: false, role: 'member' })
    const changed = (patch: object) => change('memory_set', { role: 'member', ...patch })
    expect(await changed({ allowed: null })).toMatchObject({ allowed: null, restrictions: {} })
    const noLimit = { restrictions: { read_only: false } }
    expect(await changed(noLimit)).toMatchObject({ allowed: null, ...noLimit })
    expect(await refusalOf('memory_set')).toMatchObject({ reason: 'tool is read-only in the organization' })
  })
})

describe('a block with limits', () => {
  const refused = {
    code: 'validation_error',
    message: expect.stringContaining('leave out `restrictions`, or give `allowed: null`'),
    details: [{ path: 'restrictions' }],
  }
  const limits = { allowed: false, restrictions: { read_only: true } }

  test('is refused if both are given at once', async () => {
    await expect(create(engine, { tool_name: 'memory_set', ...limits })).rejects.toMatchObject(refused)
    await create(engine, { tool_name: 'memory_set', allowed: false, restrictions: { read_only: false } })
    await expect(change('memory_set', limits)).rejects.toMatchObject(refused)
  })

  test('keeps limits that were saved before', async () => {
    await save(engine, 'memory_set', { read_only: true })
    expect(await change('memory_set', { allowed: false })).toMatchObject(limits)
    expect(await change('memory_set', { allowed: null })).toMatchObject({ ...limits, allowed: null })
  })
})

describe('an organization has at most 2,000', () => {
  const nth = (_: unknown, n: number) => ({
    organization_id: engine.organizationId,
    tool_name: `mcp__a__t${n}`,
    created_by: engine.caller('owner').userId,
  })
  const refusal = (what: string) => ({
    code: 'validation_error',
    message: expect.stringContaining(`at most 2,000 ${what}`),
  })

  test('overrides of roles', async () => {
    const { db } = engine.context
    const rows = Array.from({ length: mostRoleOverrides }, nth)
    await db
      .insertInto('role_policy_overrides')
      .values(rows.map((row) => ({ ...row, role: 'member', allowed: true })))
      .execute()
    const more = { tool_name: 'Bash', role: 'member', allowed: false }
    const add = () => createRoleOverride(engine.context, engine.caller('owner'), more, null)
    await expect(add()).rejects.toMatchObject(refusal('overrides'))
    await deleteRoleOverride(engine.context, engine.caller('owner'), 'mcp__a__t0', 'member')
    await add()
    await db.deleteFrom('role_policy_overrides').execute()
  })

  test('tool policies, and still changes and deletes them', async () => {
    const { db } = engine.context
    const policy = {
      role: '' as const,
      allowed: null,
      restrictions: '{}',
      created_at: new Date(),
      updated_at: new Date(),
    }
    const rows = Array.from({ length: mostToolPolicies }, nth)
    await db
      .insertInto('tool_policies')
      .values(rows.map((row) => ({ ...row, ...policy })))
      .execute()
    await expect(save(engine, 'Bash', { read_only: true })).rejects.toMatchObject(refusal('tool policies'))
    await change('mcp__a__t0', { allowed: false })
    await forget(engine, 'mcp__a__t0')
    await save(engine, 'Bash', { read_only: true })
    await db.deleteFrom('tool_policies').execute()
  })
})
