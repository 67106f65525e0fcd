import { beforeAll, describe, expect, test } from '@jest/globals'
import { catalog } from '../../src/catalog/index.ts'
import { getTool } from '../../src/catalog/index.ts'
import type { ToolDeclaration } from '../../src/catalog/tool.ts'
import {
  changeToolPolicy,
  createToolPolicy,
  deleteToolPolicy,
  toolPolicyBody,
} from '../../src/governance/tool-policies.ts'
import { limitNames, type LimitName, type Restrictions } from '../../src/policy/tool-limits.ts'
import type { JsonObject } from '../../src/policy/types.ts'
import {
  go,
  oneStep,
  opOf,
  outcomeOf,
  outputOf,
  runOf,
  useEngine,
  type Engine,
} from './runs/engine-fixture.ts'

let engine: Engine
useEngine((started) => (engine = started))
const save = (tool: string, restrictions: Restrictions) =>
  createToolPolicy(engine.context, engine.caller('owner'), toolPolicyBody.parse({ tool_name: tool, restrictions }), null) // prettier-ignore
const forget = (tool: string) =>
  deleteToolPolicy(engine.context, engine.caller('owner'), tool, undefined).catch(() => {})

const values: Record<LimitName, Restrictions[LimitName]> = {
  read_only: true,
  allowed_domains: ['acme.com'],
  max_message_length: 5,
  max_response_size_kb: 1,
}
const params: Record<string, JsonObject> = {
  mail_send: { to: 'bo@evil.test', subject: 's', text: 'too long' },
  memory_set: { key: 'k', value: 1 },
  memory_get: { key: 'k' },
  file_read: { path: 'p' },
}
const every = Object.values(catalog).flatMap((tool: ToolDeclaration) =>
  limitNames.map((name) => [tool.name, name, tool.constraints.includes(name)] as const),
)

describe('a limit of a tool policy', () => {
  let runId: string
  beforeAll(async () => {
    runId = await engine.run(oneStep)
  })

  test.each(every.filter(([, , takes]) => takes))(
    '%s: %s changes what comes of a call',
    async (tool, name) => {
      const outcome = async () => {
        const id = await engine.run(oneStep)
        const op = opOf(id, { tool: getTool(tool) as ToolDeclaration, params: params[tool] as JsonObject })
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
    '%s: %s is refused, and says which tools take it',
    async (tool, name) => {
      const takers = every.filter(([, each, takes]) => each === name && takes).map(([each]) => `\`${each}\``)
      const refusal = {
        code: 'validation_error',
        details: [{ path: `restrictions.${name}`, message: expect.stringContaining(takers.join(', ')) }],
      }
      await expect(save(tool, { [name]: values[name] })).rejects.toMatchObject(refusal)
      await save(tool, {})
      try {
        const patch = { restrictions: { [name]: values[name] } }
        const changed = changeToolPolicy(engine.context, engine.caller('owner'), tool, patch)
        await expect(changed).rejects.toMatchObject(refusal)
      } finally {
        await forget(tool)
      }
    },
  )

  test('agents’ tools take `read_only` alone', async () => {
    await save('Bash', { read_only: true })
    await forget('Bash')
    for (const name of limitNames.filter((each) => each !== 'read_only'))
      await expect(save('Bash', { [name]: values[name] })).rejects.toMatchObject({ code: 'validation_error' })
  })

  test('is asked again at every attempt, and an output over it is not kept', async () => {
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
      expect(effect.error?.message).toContain('takes 2 KiB, and a tool policy lets it take 1')
      expect((await runOf(engine.context, runId)).stored_bytes).toBeLessThan(1_000)
    } finally {
      await forget('memory_get')
    }
  })
})
