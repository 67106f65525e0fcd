import { beforeAll, describe, expect, test } from '@jest/globals'
import { catalog } from '../../../src/catalog/index.ts'
import { getTool } from '../../../src/catalog/index.ts'
import type { ToolDeclaration } from '../../../src/catalog/tool.ts'
import {
  changeToolPolicy,
  createToolPolicy,
  deleteToolPolicy,
  mostToolPolicies,
} from '../../../src/governance/rules/tool-policies.ts'
import { workflowDefinition } from '../../../src/contract/definition.ts'
import type { DomainError } from '../../../src/governance/errors.ts'
import {
  createRoleOverride,
  deleteRoleOverride,
  mostRoleOverrides,
} from '../../../src/governance/rules/role-overrides.ts'
import { acceptRun } from '../../../src/governance/runs/start/accept.ts'
import { previewRun } from '../../../src/governance/runs/start/preview.ts'
import { createWorkflow } from '../../../src/governance/workflows/workflows.ts'
import { toolPolicyBody } from '../../../src/api/schemas/governance.ts'
import { limitNames, type LimitName, type Restrictions } from '../../../src/policy/tool-limits.ts'
import type { JsonObject } from '../../../src/policy/types.ts'
import {
  go,
  hold,
  holdRule,
  oneStep,
  opOf,
  outcomeOf,
  outputOf,
  runOf,
  useEngine,
  type Engine,
} from '../runs/engine-fixture.ts'

let engine: Engine
useEngine((started) => (engine = started))
const create = (body: object) =>
  createToolPolicy(engine.context, engine.caller('owner'), toolPolicyBody.parse(body), null)
const save = (tool: string, restrictions: Restrictions) => create({ tool_name: tool, restrictions })
const forget = (tool: string) =>
  deleteToolPolicy(engine.context, engine.caller('owner'), tool, undefined).catch(() => {})

const values: Record<LimitName, Restrictions[LimitName]> = {
  read_only: true,
  allowed_domains: ['acme.com'],
  allowed_repos: ['acme/app'],
  allowed_channels: ['#general'],
  max_message_length: 5,
  max_response_size_kb: 1,
}
const params: Record<string, JsonObject> = {
  mail_send: { to: 'bo@evil.test', subject: 's', text: 'too long' },
  memory_set: { key: 'k', value: 1 },
  memory_get: { key: 'k' },
  file_read: { path: 'p' },
  github_search_code: { query: 'repo:evil/app word' },
  github_get_file: { repo: 'evil/app', path: 'p' },
  github_list_issues: { repo: 'evil/app' },
  github_get_issue: { repo: 'evil/app', number: 1 },
  github_list_pull_requests: { repo: 'evil/app' },
  github_create_issue: { repo: 'evil/app', title: 'too long' },
  github_comment: { repo: 'evil/app', number: 1, body: 'too long' },
  slack_send_message: { channel: '#evil', text: 'too long' },
  slack_create_channel: { name: 'evil' },
  jira_search: { query: 'project = OPS' },
  jira_get_issue: { issue: 'OPS-1' },
  jira_create_issue: { project: 'OPS', summary: 'too long' },
  jira_comment: { issue: 'OPS-1', text: 'too long' },
  trello_list_cards: { board: 'abcd1234' },
  trello_get_card: { card: 'abcd1234' },
  trello_create_card: { board: 'abcd1234', list: 'To do', name: 'too long' },
  trello_comment: { card: 'abcd1234', text: 'too long' },
  calendar_create_event: { title: 't', attendees: 'bo@evil.test', description: 'too long' },
  docs_read: { document: 'd' },
  docs_create: { title: 't', content: 'too long' },
  sheets_read: { spreadsheet: 's' },
  sheets_append: { spreadsheet: 's', rows: [['a']] },
  drive_search: { query: 'q' },
  web_search: { query: 'q' },
  llm_generate: { prompt: 'p' },
}
const paramsOf = (tool: string): JsonObject => {
  const found = params[tool]
  if (found === undefined) throw new Error(`add parameters for ${tool} to this test`)
  return found
}
const every = Object.values(catalog).flatMap((tool: ToolDeclaration) =>
  limitNames.map((name) => [tool.name, name, Object.hasOwn(tool.constraints, name)] as const),
)

describe('a limit of a tool policy', () => {
  let runId: string
  beforeAll(async () => {
    runId = await engine.run(oneStep)
  })

  test.each(every.filter(([tool, , takes]) => takes && getTool(tool)?.hasExecutor === true))(
    '%s: %s changes the result of a call',
    async (tool, name) => {
      const outcome = async () => {
        const id = await engine.run(oneStep)
        const op = opOf(id, {
          tool: { ...(getTool(tool) as ToolDeclaration), connection: 'none' },
          params: paramsOf(tool),
        })
        const verdict = await engine.decide(op)
        if (!verdict.go) return verdict.state
        const large = { ...outcomeOf(op, verdict.attempt, 'completed') }
        const result = { ...large.result, output: outputOf(op.key, 'x'.repeat(1024)) } as typeof large.result
        return engine.record({ ...large, result })
      }
      expect(await outcome()).toBe('completed')
      try {
        await save(tool, { [name]: values[name] })
        expect(await outcome()).toBe(name === 'max_response_size_kb' ? 'failed' : 'denied')
      } finally {
        await forget(tool)
      }
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
      await expect(save(tool, { [name]: values[name] })).rejects.toMatchObject(refusal)
      await create({ tool_name: tool, allowed: true })
      try {
        const patch = { restrictions: { [name]: values[name] } }
        const changed = changeToolPolicy(engine.context, engine.caller('owner'), tool, patch)
        await expect(changed).rejects.toMatchObject(refusal)
      } finally {
        await forget(tool)
      }
    },
  )

  test('agents’ tools support `read_only` only', async () => {
    await save('Bash', { read_only: true })
    await forget('Bash')
    for (const name of limitNames.filter((each) => each !== 'read_only'))
      await expect(save('Bash', { [name]: values[name] })).rejects.toMatchObject({ code: 'validation_error' })
  })

  test('is checked at every attempt, and an output above it is not stored', async () => {
    const tool = getTool('memory_get') as ToolDeclaration
    const op = opOf(runId, { tool, params: { key: 'k' } })
    const attempt = await go(engine, op)
    await save('memory_get', { max_response_size_kb: 1 })
    try {
      const done = outcomeOf(op, attempt, 'completed')
      const result = { ...done.result, output: outputOf(op.key, 'x'.repeat(2_000)) } as typeof done.result
      expect(await engine.record({ ...done, result })).toBe('failed')
      const effect = await engine.context.db
        .selectFrom('effects')
        .select(['error', 'output', 'output_sealed'])
        .where('run_id', '=', runId)
        .executeTakeFirstOrThrow()
      expect(effect).toMatchObject({
        output: null,
        output_sealed: null,
        error: { code: 'response_too_large' },
      })
      expect(effect.error?.message).toContain('takes 2 KiB, and a tool policy allows 1')
      expect((await runOf(engine.context, runId)).stored_bytes).toBeLessThan(1_000)
    } finally {
      await forget('memory_get')
    }
  })
})

describe('plan, preview and run give one call the same verdict', () => {
  const acme = { allowed_domains: ['acme.com'], max_message_length: 5 }
  const mail = { to: 'a@acme.com', subject: 's', text: 'short' }
  const rows: [string, string, Restrictions, JsonObject, boolean][] = [
    ['a mail inside', 'mail_send', acme, mail, false],
    ['a mail outside', 'mail_send', acme, { ...mail, to: 'a@evil.test' }, true],
    ['a copy outside', 'mail_send', acme, { ...mail, cc: 'A <a@acme.com>, b@evil.test' }, true],
    ['a look-alike', 'mail_send', acme, { ...mail, to: 'a@аcme.com' }, true],
    ['a long text', 'mail_send', acme, { ...mail, text: 'longer' }, true],
    ['a write that may only read', 'memory_set', { read_only: true }, { key: 'k', value: 1 }, true],
    ['a read without limits on parameters', 'memory_get', { max_response_size_kb: 1 }, { key: 'k' }, false],
  ]
  const verdicts = async (tool: string, params: JsonObject) => {
    const { context } = engine
    const definition = workflowDefinition.parse({ steps: [{ id: 's', tool, params }] })
    const plain = { name: 'w', description: '', definition }
    const { id: workflowId } = await createWorkflow(context, engine.caller('member'), plain)
    const request = { caller: engine.caller('member'), workflowId, inputs: {} }
    const planned = await previewRun(context, request)
    // Nothing is known before the run of a definition whose parameters are inputs.
    const hidden = Object.fromEntries(Object.keys(params).map((name) => [name, `{{input.${name}}}`]))
    const inputs = Object.fromEntries(Object.keys(params).map((name) => [name, { type: 'string' }]))
    const open = workflowDefinition.parse({ inputs, steps: [{ id: 's', tool, params: hidden }] })
    const unknown = await previewRun(context, { ...request, inputs: undefined, definition: open })
    const accepted = await acceptRun(context, request).then(
      () => 'allow',
      (error: DomainError) => (error.code === 'run_denied' ? 'deny' : error.code),
    )
    const op = opOf(await engine.run(oneStep), { tool: getTool(tool) as ToolDeclaration, params })
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
    try {
      await save(tool, limits)
      const { possible, ...said } = await verdicts(tool, params)
      expect(said).toEqual({
        preview: verdict,
        isExecutable: !isRefused,
        isCertain: true,
        accepted: verdict,
        run: verdict,
      })
      // Without the parameters, the verdict is within the preview's bounds.
      if (possible?.certainty === 'definite') expect(possible.verdict).toBe(verdict)
      else expect(possible).toMatchObject({ verdict: 'deny', role_policy: { certainty: 'possible' } })
    } finally {
      await forget(tool)
    }
  })

  test('a refused run names the limit in its error', async () => {
    try {
      await save('mail_send', acme)
      const run = engine.run({
        steps: [{ id: 's', tool: 'mail_send', params: { ...mail, to: 'a@evil.test' } }],
      })
      await expect(run).rejects.toMatchObject({
        code: 'run_denied',
        details: [{ path: 'steps.s', message: expect.stringContaining('`allowed_domains`') }],
      })
      await expect(run).rejects.not.toMatchObject({ message: expect.stringContaining('evil') })
    } finally {
      await forget('mail_send')
    }
  })

  test('a limit that is saved while a call waits for its approval holds for it', async () => {
    await engine.rules(holdRule())
    const op = opOf(await engine.run(oneStep), {
      tool: getTool('mail_send') as ToolDeclaration,
      params: { ...mail, to: 'a@evil.test' },
    })
    try {
      await engine.vote(await hold(engine, op), 'admin')
      await save('mail_send', acme)
      expect(await engine.decide(op)).toMatchObject({ go: false, state: 'denied' })
    } finally {
      await forget('mail_send')
      await engine.rules()
    }
  })
})

describe('a tool policy without effect', () => {
  const refusal = (...parts: string[]) => ({
    code: 'validation_error',
    message: expect.stringMatching(new RegExp(parts.join('.*'))),
    details: [{ path: 'allowed' }],
  })
  test.each<[string, object]>([
    ['without fields', {}],
    ['with `allowed: null`', { allowed: null }],
    ['with `read_only: false`', { restrictions: { read_only: false } }],
  ])('%s is refused, and the message names what the tool takes', async (_, body) => {
    await expect(create({ tool_name: 'memory_set', ...body })).rejects.toMatchObject(
      refusal('give `allowed`, or in `restrictions`', '`read_only`'),
    )
  })

  test('of a tool that takes no limit is told to give `allowed`', async () => {
    const body = { tool_name: 'web_search', role: 'member' }
    await expect(create(body)).rejects.toMatchObject(refusal('has no effect: give `allowed`'))
  })

  test('is refused as the result of a change too, which names how to delete it', async () => {
    const owner = engine.caller('owner')
    await create({ tool_name: 'memory_set', allowed: false, role: 'member' })
    try {
      const change = (patch: object) =>
        changeToolPolicy(engine.context, owner, 'memory_set', { role: 'member', ...patch })
      await expect(change({ allowed: null })).rejects.toMatchObject(
        refusal('`DELETE /organizations/org_', '/tool-policies/memory_set\\?role=member`'),
      )
      // Nothing has changed: the tool is still blocked.
      expect(await change({ restrictions: { read_only: true } })).toMatchObject({ allowed: false })
      expect(await change({ allowed: null })).toMatchObject({ allowed: null })
    } finally {
      await deleteToolPolicy(engine.context, owner, 'memory_set', 'member')
    }
  })
})

test('a second policy of a tool is a conflict that names how to change the first', async () => {
  const { organizationId } = engine
  await create({ tool_name: 'memory_set', allowed: false })
  try {
    await create({ tool_name: 'memory_set', allowed: false, role: 'admin' })
    for (const role of [undefined, 'admin']) {
      const change = `\`PATCH /organizations/${organizationId}/tool-policies/memory_set${role === undefined ? '' : '?role=admin'}\``
      await expect(create({ tool_name: 'memory_set', allowed: true, role })).rejects.toMatchObject({
        code: 'conflict',
        message: expect.stringContaining(change),
      })
    }
  } finally {
    await forget('memory_set')
    await deleteToolPolicy(engine.context, engine.caller('owner'), 'memory_set', 'admin')
  }
})

test('an organization has at most 2,000 overrides of roles', async () => {
  const { db } = engine.context
  const override = {
    organization_id: engine.organizationId,
    role: 'member',
    allowed: true,
    created_by: engine.caller('owner').userId,
  }
  const rows = Array.from({ length: mostRoleOverrides }, (_, n) => ({
    ...override,
    tool_name: `mcp__a__t${n}`,
  }))
  await db.insertInto('role_policy_overrides').values(rows).execute()
  const owner = engine.caller('owner')
  const more = { tool_name: 'Bash', role: 'member', allowed: false }
  await expect(createRoleOverride(engine.context, owner, more, null)).rejects.toMatchObject({
    code: 'validation_error',
    message: expect.stringContaining('at most 2,000 overrides'),
  })
  await deleteRoleOverride(engine.context, owner, 'mcp__a__t0', 'member')
  await createRoleOverride(engine.context, owner, more, null)
  await db.deleteFrom('role_policy_overrides').where('organization_id', '=', engine.organizationId).execute()
})

test('an organization has at most 2,000 tool policies, and still changes and deletes them', async () => {
  const { db } = engine.context
  const policy = {
    organization_id: engine.organizationId,
    role: '' as const,
    allowed: null,
    restrictions: '{}',
    created_by: engine.caller('owner').userId,
    created_at: new Date(),
    updated_at: new Date(),
  }
  const rows = Array.from({ length: mostToolPolicies }, (_, n) => ({ ...policy, tool_name: `mcp__a__t${n}` }))
  await db.insertInto('tool_policies').values(rows).execute()
  await expect(save('Bash', { read_only: true })).rejects.toMatchObject({
    code: 'validation_error',
    message: expect.stringContaining('at most 2,000 tool policies'),
  })
  await changeToolPolicy(engine.context, engine.caller('owner'), 'mcp__a__t0', { allowed: false })
  await forget('mcp__a__t0')
  await save('Bash', { read_only: true })
  await db.deleteFrom('tool_policies').where('organization_id', '=', engine.organizationId).execute()
})
