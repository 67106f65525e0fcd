import { beforeAll, describe, expect, test } from '@jest/globals'
import { getTool } from '../../../src/catalog/index.ts'
import type { ToolDeclaration } from '../../../src/catalog/tool.ts'
import { changeToolPolicy, deleteToolPolicy } from '../../../src/governance/rules/tool-policies.ts'
import { workflowDefinition } from '../../../src/contract/definition.ts'
import type { DomainError } from '../../../src/governance/errors.ts'
import { acceptRun } from '../../../src/governance/runs/start/accept.ts'
import { previewRun } from '../../../src/governance/runs/start/preview.ts'
import { createWorkflow } from '../../../src/governance/workflows/workflows.ts'
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
import { every, paramsOf, values } from './limited-calls.ts'
import { create, save, forget } from './policy-calls.ts'

let engine: Engine

useEngine((started) => (engine = started))

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
        if (verdict.audience.length > 0) return 'the service is asked who reads there'
        const large = { ...outcomeOf(op, verdict.attempt, 'completed') }
        const result = { ...large.result, output: outputOf(op.key, 'x'.repeat(1024)) } as typeof large.result
        return engine.record({ ...large, result })
      }
      expect(await outcome()).toBe('completed')
      try {
        await save(engine, tool, { [name]: values[name] })
        expect(await outcome()).toBe(changed(tool, name))
      } finally {
        await forget(engine, tool)
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
      await expect(save(engine, tool, { [name]: values[name] })).rejects.toMatchObject(refusal)
      await create(engine, { tool_name: tool, allowed: true })
      try {
        const patch = { restrictions: { [name]: values[name] } }
        const changed = changeToolPolicy(engine.context, engine.caller('owner'), tool, patch)
        await expect(changed).rejects.toMatchObject(refusal)
      } finally {
        await forget(engine, tool)
      }
    },
  )

  test('agents’ tools support `read_only` only', async () => {
    await save(engine, 'Bash', { read_only: true })
    await forget(engine, 'Bash')
    for (const name of limitNames.filter((each) => each !== 'read_only'))
      await expect(save(engine, 'Bash', { [name]: values[name] })).rejects.toMatchObject({
        code: 'validation_error',
      })
  })

  test('is checked at every attempt, and an output above it is not stored', async () => {
    const tool = getTool('memory_get') as ToolDeclaration
    const op = opOf(runId, { tool, params: { key: 'k' } })
    const attempt = await go(engine, op)
    await save(engine, 'memory_get', { max_response_size_kb: 1 })
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
        error: { code: 'response_too_large', fault: 'policy', retryable: false },
      })
      expect(effect.error?.message).toContain('takes 2 KiB, and a tool policy allows 1')
      expect((await runOf(engine.context, runId)).stored_bytes).toBeLessThan(1_000)
    } finally {
      await forget(engine, 'memory_get')
    }
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
    try {
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
    } finally {
      await forget(engine, tool)
    }
  })

  test('a refused run names the limit in its error', async () => {
    try {
      await save(engine, 'mail_send', acme)
      const run = engine.run({
        steps: [{ id: 's', tool: 'mail_send', params: { ...mail, to: 'a@evil.test' } }],
      })
      await expect(run).rejects.toMatchObject({
        code: 'run_denied',
        details: [{ path: 'steps.s', message: expect.stringContaining('`allowed_domains`') }],
      })
      await expect(run).rejects.not.toMatchObject({ message: expect.stringContaining('evil') })
    } finally {
      await forget(engine, 'mail_send')
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
      await save(engine, 'mail_send', acme)
      expect(await engine.decide(op)).toMatchObject({ go: false, state: 'denied' })
    } finally {
      await forget(engine, 'mail_send')
      await engine.rules()
    }
  })
})

test('a second policy of a tool is a conflict that names how to change the first', async () => {
  const { organizationId } = engine
  await create(engine, { tool_name: 'memory_set', allowed: false })
  try {
    await create(engine, { tool_name: 'memory_set', allowed: false, role: 'admin' })
    for (const role of [undefined, 'admin']) {
      const change = `\`PATCH /organizations/${organizationId}/tool-policies/memory_set${role === undefined ? '' : '?role=admin'}\``
      await expect(create(engine, { tool_name: 'memory_set', allowed: true, role })).rejects.toMatchObject({
        code: 'conflict',
        message: expect.stringContaining(change),
      })
    }
  } finally {
    await forget(engine, 'memory_set')
    await deleteToolPolicy(engine.context, engine.caller('owner'), 'memory_set', 'admin')
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
    await expect(
      changeToolPolicy(engine.context, owner, 'memory_get', { allowed: true, ...(role && { role }) }),
    ).rejects.toMatchObject(refusal)
  }
})
