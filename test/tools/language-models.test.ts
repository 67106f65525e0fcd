import { LLMock } from '@copilotkit/aimock'
import { afterAll, beforeAll, beforeEach, describe, expect, jest, test } from '@jest/globals'
import { final, rejection, toolContext } from './call.ts'
import { badAnswers, expectCancelled, type Service, useService } from './service.ts'
import { attempted } from '../activities/attempt.ts'
import type { Scheduled } from '../activities/execute.ts'
import {
  effectOf,
  type Engine,
  keptOutput,
  opOf,
  runOf,
  stepOf,
  useEngine,
} from '../governance/runs/engine-fixture.ts'
import { auditOf } from '../governance/support.ts'
import { createToolActivities } from '../../src/activities/attempt.ts'
import type { ToolContext, ToolError } from '../../src/tools/kit/executor.ts'
import { parseParams } from '../../src/contract/tool-params.ts'
import { getTool } from '../../src/tools/index.ts'
import { withNewName } from '../../src/tools/llm/run.ts'
import { mostTimeoutSeconds, type ToolDeclaration } from '../../src/tools/kit/tool.ts'
import { connect } from '../../src/governance/connections/connections.ts'
import { changeQuota } from '../../src/governance/limits/quota.ts'
import { cancelRun } from '../../src/governance/runs/end/cancel.ts'
import { modelAnswer } from '../support/model.ts'
import { type Scripted, type ScriptedServer, startScriptedServer } from '../support/scripted-server.ts'

type Provider = 'anthropic' | 'openai' | 'ollama'
/** The credential of a service that is played by our own server. */
const credentialOf = (provider: Provider) => {
  const { url } = service.scripted
  return { provider, api_key: 'k1', model: 'm', base_url: provider === 'ollama' ? url : `${url}/v1` }
}

const ofOpenAi = (text: string, usage: unknown = modelAnswer('').usage): Scripted & { body: object } => ({
  status: 200,
  body: { id: 'c1', object: 'chat.completion', created: 1, ...modelAnswer(text), model: 'm-2', usage },
})

/** Answers in the forms that the services document. */
const answers: Record<Provider, (text: string) => Scripted> = {
  anthropic: (text) => ({
    status: 200,
    body: {
      id: 'msg_1',
      type: 'message',
      role: 'assistant',
      model: 'm-2',
      content: text === '' ? [] : [{ type: 'text', text }],
      stop_reason: 'end_turn',
      stop_sequence: null,
      usage: { input_tokens: 3, output_tokens: 2 },
    },
  }),
  openai: (text) => ofOpenAi(text),
  ollama: (text) => ofOpenAi(text),
}

/** Prices and reservations of a call. */
function money(price: { input: number; output: number } | null = { input: 10, output: 100 }) {
  const reserved: number[] = []
  const { tools } = toolContext({ priceOf: () => price })
  const over: Partial<ToolContext> = {
    reserve: async (most) => void reserved.push(most),
    tools,
  }
  return { reserved, over }
}

let service: Service
useService('llm_generate', 'llm', (started) => (service = started))

const every: readonly Provider[] = ['anthropic', 'openai', 'ollama']

describe('each service is asked as it documents', () => {
  const ofOthers = {
    path: '/v1/chat/completions',
    headers: { authorization: 'Bearer k1' },
    body: {
      model: 'm',
      max_tokens: 50,
      messages: [
        { role: 'system', content: 'be short' },
        { role: 'user', content: 'why?' },
      ],
    },
  }
  const params = { prompt: 'why?', system: 'be short', max_tokens: 50 }
  const sent: Record<Provider, { path: string; headers: object; body: object }> = {
    anthropic: {
      path: '/v1/messages',
      headers: { 'x-api-key': 'k1', 'anthropic-version': '2023-06-01' },
      body: {
        model: 'm',
        max_tokens: 50,
        system: [{ type: 'text', text: 'be short' }],
        messages: [{ role: 'user', content: [{ type: 'text', text: 'why?' }] }],
      },
    },
    openai: ofOthers,
    ollama: ofOthers,
  }
  test.each(every)('%s', async (provider) => {
    service.scripted.answer = () => answers[provider]('because\n')
    const { output } = await service.run(credentialOf(provider), params)
    expect(output).toEqual({
      text: 'because',
      model: 'm-2',
      usage: { input_tokens: 3, output_tokens: 2 },
    })
    const { path, headers, body } = sent[provider]
    expect(service.scripted.arrived).toMatchObject([{ method: 'POST', path, headers }])
    expect(JSON.parse(service.scripted.arrived[0]?.body ?? '')).toEqual(body)
  })

  test.each(every)('%s: the model and the length that the call does not name', async (provider) => {
    service.scripted.answer = () => answers[provider]('because')
    await service.run(credentialOf(provider), { prompt: 'why?' })
    await service.run(credentialOf(provider), { prompt: 'why?', model: 'other' })
    expect(service.scripted.arrived.map(({ body }) => JSON.parse(body) as object)).toMatchObject([
      { model: 'm', max_tokens: 4096 },
      { model: 'other', max_tokens: 4096 },
    ])
  })

  test('OpenAI itself gets the new name of the length', () => {
    expect(withNewName({ model: 'm', max_tokens: 5 })).toEqual({ model: 'm', max_completion_tokens: 5 })
  })
})

describe('the stand-ins of language models', () => {
  const mock = new LLMock({ port: 0, logLevel: 'silent' })
  beforeAll(async () => {
    mock.onMessage('sum up', { content: 'a summary', usage: { prompt_tokens: 7, completion_tokens: 4 } })
    mock.onMessage('sum up', { content: 'a summary' })
    await mock.start()
  })
  afterAll(() => mock.stop())

  test.each(every)('%s', async (provider) => {
    const base_url = provider === 'ollama' ? mock.url : `${mock.url}/v1`
    const credential = { provider, api_key: 'k1', model: 'm', base_url }
    const { output } = await service.run(credential, { prompt: 'sum up: x', system: 'be short' })
    expect(output).toMatchObject({ text: 'a summary', model: 'm' })
  })
})

describe.each(every)('%s answers with', (provider) => {
  test.each(badAnswers('llm'))('%s', async (_, answer, expected) => {
    service.scripted.answer = () => answer
    const call = service.run(credentialOf(provider), { prompt: 'secret prompt' })
    const error = (await rejection(call)) as Error
    expect(error).toMatchObject(expected)
    expect(`${error.message} ${String((error.cause as Error | undefined)?.stack)}`).not.toMatch(/secret/)
    // The library repeats nothing by itself.
    expect(service.scripted.arrived).toHaveLength(1)
  })
})

test('services’ own words for credit and length', async () => {
  const code = async (provider: Provider, status: number, body: object) => {
    service.scripted.answer = () => ({ status, body })
    return ((await rejection(service.run(credentialOf(provider), { prompt: 'p' }))) as { code: string }).code
  }
  const anthropic = (message: string) => ({
    type: 'error',
    error: { type: 'invalid_request_error', message },
  })
  expect(await code('anthropic', 400, anthropic('Your credit balance is too low to access'))).toBe(
    'llm_no_credit',
  )
  expect(await code('anthropic', 400, anthropic('prompt is too long: 9 tokens > 8'))).toBe('llm_too_long')
  expect(await code('openai', 400, { error: { code: 'context_length_exceeded' } })).toBe('llm_too_long')
  expect(await code('openai', 429, { error: { code: 'insufficient_quota' } })).toBe('llm_no_credit')
})

test.each(every)('%s: an answer without text is an error', async (provider) => {
  service.scripted.answer = () => answers[provider](' \n')
  const { over } = money()
  const error = await rejection(service.run(credentialOf(provider), { prompt: 'p' }, over))
  expect(error).toMatchObject({ code: 'llm_no_text', retryable: false, cost: 0.00023 })
})

test('a model that calls tools has no text, and nothing is called', async () => {
  const call = { id: 'x', type: 'function', function: { name: 'rm', arguments: '{}' } }
  const { body } = ofOpenAi('')
  const message = { role: 'assistant', content: null, tool_calls: [call] }
  service.scripted.answer = () => ({
    status: 200,
    body: { ...body, choices: [{ index: 0, message, finish_reason: 'tool_calls' }] },
  })
  expect(await rejection(service.run(credentialOf('openai'), { prompt: 'p' }))).toMatchObject({
    code: 'llm_no_text',
  })
  expect(service.scripted.arrived).toHaveLength(1)
})

test('a cancellation ends the request in flight', () =>
  expectCancelled(service, credentialOf('anthropic'), { prompt: 'p' }))

test('only the time limit of the step ends a long request', async () => {
  service.scripted.answer = () => answers.anthropic('because')
  const timers = jest.spyOn(AbortSignal, 'timeout')
  try {
    await service.run(credentialOf('anthropic'), { prompt: 'p' })
    expect(timers.mock.calls).toEqual([[mostTimeoutSeconds * 1_000]])
  } finally {
    timers.mockRestore()
  }
})

test('the library writes nothing, and takes nothing from the environment', async () => {
  const written = jest.spyOn(process, 'emitWarning')
  const logged = jest.spyOn(console, 'warn')
  process.env['ANTHROPIC_BASE_URL'] = 'http://127.0.0.1:9'
  process.env['ANTHROPIC_API_KEY'] = 'of the machine'
  try {
    service.scripted.answer = () => answers.anthropic('because')
    // The model cannot write this many tokens, and the library would warn about that.
    await service.run(credentialOf('anthropic'), {
      prompt: 'p',
      model: 'claude-3-haiku-20240307',
      max_tokens: 200_000,
    })
    expect(service.scripted.arrived).toMatchObject([{ headers: { 'x-api-key': 'k1' } }])
    expect([written.mock.calls, logged.mock.calls]).toEqual([[], []])
  } finally {
    delete process.env['ANTHROPIC_BASE_URL']
    delete process.env['ANTHROPIC_API_KEY']
    jest.restoreAllMocks()
  }
})

describe('an answer with fields', () => {
  const output = {
    type: 'object',
    properties: {
      amount: { type: 'number' },
      kind: { type: 'string', enum: ['food', 'travel'] },
      note: { type: 'string', description: 'if there is one' },
    },
    required: ['amount', 'kind'],
  }
  const params = { prompt: 'lunch, 23.40', output }
  const bodies = () => service.scripted.arrived.map(({ body }) => JSON.parse(body) as Record<string, unknown>)
  /** Gives one text after the other. */
  const answering = (provider: Provider, ...texts: string[]) => {
    let next = 0
    service.scripted.answer = () => answers[provider](texts[next++] ?? '')
  }

  test.each(every)('%s gets the schema, and gives `data`', async (provider) => {
    answering(provider, '```json\n{"amount": 23.4, "kind": "food", "note": null}\n```')
    const { output: given } = await service.run(credentialOf(provider), { ...params, system: 'be exact' })
    expect(given).toMatchObject({ data: { amount: 23.4, kind: 'food', note: null } })
    const schema = {
      ...output,
      properties: { ...output.properties, note: { ...output.properties.note, type: ['string', 'null'] } },
      required: ['amount', 'kind', 'note'],
      additionalProperties: false,
    }
    const [body] = bodies()
    const native =
      provider === 'anthropic'
        ? { tools: [{ name: 'json', input_schema: schema }] }
        : { response_format: { type: 'json_schema', json_schema: { schema } } }
    expect(body).toMatchObject(native)
    expect(JSON.stringify(body)).toContain(JSON.stringify(JSON.stringify(schema)).slice(1, -1))
  })

  test('that does not fit is asked again with the reason, and each answer costs', async () => {
    const { reserved, over } = money()
    answering(
      'openai',
      'Twenty-three euros.',
      '{"amount": "23", "kind": "fun"}',
      '{"amount": 23, "kind": "food"}',
    )
    const result = await service.run(credentialOf('openai'), params, over)
    expect(result).toMatchObject({ output: { data: { amount: 23, kind: 'food' } }, cost: 0.00069 })
    expect(reserved).toHaveLength(3)
    const said = bodies().map(({ messages }) => (messages as { content: string }[]).at(-1)?.content)
    expect(said[1]).toContain('it is not one JSON object')
    expect(said[2]).toMatch(/`amount` must be a number.*`kind`/s)
    expect(bodies()[2]?.['messages']).toHaveLength(4)
  })

  test('that does not fit three times fails with its text', async () => {
    answering('openai', '{}', '{}', '{"kind": 1}')
    const error = await rejection(service.run(credentialOf('openai'), params, money().over))
    expect(error).toMatchObject({ code: 'llm_misfit', retryable: false, cost: 0.00069 })
    expect((error as ToolError).detail).toEqual({
      text: '{"kind": 1}',
      reason: expect.stringContaining('`amount` is missing'),
    })
    expect((error as ToolError).message).not.toMatch(/amount|kind/)
  })

  test.each([
    [{ type: 'string' }, /`output.type` must be object/],
    [{ type: 'object', properties: {} }, /must name at least one field/],
    [
      { type: 'object', properties: { a: { type: 'string', pattern: '(a+)+' } } },
      /`output.properties.a.pattern` is not taken here/,
    ],
    [{ type: 'object', properties: { a: { $ref: '#' } } }, /`output.properties.a.type` must be one of/],
    [{ type: 'object', properties: { a: { type: 'array' } } }, /must be an object with a `type`/],
    [{ type: 'object', properties: { a: { type: 'string', enum: [] } } }, /must be a list of 1 to 200 texts/],
    [{ type: 'object', properties: { a: { type: 'string' } }, required: ['b'] }, /must be a list of names/],
  ])('a schema that not all providers take is refused: %j', (schema, message) => {
    const parsed = parseParams(getTool('llm_generate') as ToolDeclaration, { prompt: 'p', output: schema })
    expect(JSON.stringify(parsed)).toMatch(message)
  })
})

describe('the cost', () => {
  // The highest possible price: 2,001 tokens for an input of one byte, and 5 tokens of output.
  const most = 0.02051
  const params = { prompt: 'p', max_tokens: 5 }

  test('is reserved before a byte leaves, and then what the tokens cost', async () => {
    const { reserved, over } = money()
    service.scripted.answer = () => {
      expect(reserved).toEqual([most])
      return answers.anthropic('because')
    }
    expect(await service.run(credentialOf('anthropic'), params, over)).toMatchObject({ cost: 0.00023 })
    expect(reserved).toEqual([most])
  })

  test('counts bytes, not characters', async () => {
    const { reserved, over } = money({ input: 1, output: 0 })
    service.scripted.answer = () => answers.anthropic('because')
    await service.run(credentialOf('anthropic'), { prompt: '😀', system: 'é' }, over)
    expect(reserved).toEqual([0.002006])
  })

  test('has the price of the provider and its model', async () => {
    const asked: object[] = []
    const { tools } = toolContext({ priceOf: (model) => (asked.push(model), null) })
    await rejection(service.run(credentialOf('ollama'), params, { tools }))
    expect(asked).toEqual([{ provider: 'ollama', model: 'm' }])
  })

  test('a model without a price is not asked', async () => {
    const { over } = money(null)
    expect(await rejection(service.run(credentialOf('openai'), params, over))).toMatchObject(
      final('llm_no_price'),
    )
    expect(service.scripted.arrived).toEqual([])
  })

  const tokens: readonly (readonly [object | undefined, object, number])[] = [
    [undefined, { input_tokens: null, output_tokens: null }, most],
    [{ prompt_tokens: 3 }, { input_tokens: 3, output_tokens: null }, most],
    [{ prompt_tokens: -3, completion_tokens: 2 }, { input_tokens: null, output_tokens: 2 }, most],
    [{ prompt_tokens: 1.5, completion_tokens: 2 }, { input_tokens: null, output_tokens: 2 }, most],
    [{ prompt_tokens: 9e14, completion_tokens: 2 }, { input_tokens: 9e14, output_tokens: 2 }, most],
    [{ prompt_tokens: 0, completion_tokens: 2 }, { input_tokens: null, output_tokens: 2 }, most],
  ]
  test.each(tokens)('of an answer that tells %j', async (told, usage, cost) => {
    service.scripted.answer = () => ofOpenAi('because', told ?? null)
    const result = await service.run(credentialOf('openai'), params, money().over)
    expect(result).toMatchObject({ output: { usage }, cost })
  })

  const failures: readonly (readonly [string, Scripted, number])[] = [
    ['500', { status: 500, body: {} }, 0],
    ['an answer of another form', { status: 200, body: '<p>' }, most],
  ]
  test.each(failures)('of a failed call: %s', async (_, answer, cost) => {
    service.scripted.answer = () => answer
    const error = await rejection(service.run(credentialOf('openai'), params, money().over))
    expect(error).toMatchObject({ cost })
  })

  test('of a service that is away', async () => {
    const gone = await startScriptedServer()
    await gone.close()
    const credential = { ...credentialOf('openai'), base_url: gone.url }
    const error = await rejection(service.run(credential, params, money().over))
    expect(error).toMatchObject({ code: 'llm_unreachable', retryable: true, cost: 0 })
  })
})

describe('calls that cost money, through everything', () => {
  let engine: Engine
  let model: ScriptedServer
  useEngine((started) => (engine = started))
  beforeAll(() => void (model = service.scripted))
  beforeEach(async () => {
    model.answer = () => ({ status: 404, body: {} })
    const { context } = engine
    await context.db.deleteFrom('connections').execute()
    await context.db.updateTable('runs').set({ cost: 0 }).execute()
    await changeQuota(context, engine.caller('owner'), { monthly_spend: 50, workflow_runs_per_hour: 6_000 })
    const signal = new AbortController().signal
    const llm = { provider: 'openai', api_key: 'k1', model: 'm', base_url: model.url }
    const search = { provider: 'brave', api_key: 'k2', base_url: model.url }
    const scope = { scope: 'organization', name: undefined } as const
    await connect(
      context,
      engine.caller('admin'),
      { tool: 'llm_generate', credential: llm, ...scope },
      signal,
    )
    await connect(
      context,
      engine.caller('admin'),
      { tool: 'web_search', credential: search, ...scope },
      signal,
    )
    model.arrived.length = 0
  })

  const answer = { status: 200, body: modelAnswer('because') }
  /** A cost in millionths: 3 input tokens at 5 units a million, and 2 output tokens at 25. */
  const real = 65
  /** The highest possible cost in millionths: input of 4 bytes and 2,000 tokens, and output of 5 tokens. */
  const most = 10_145

  const asking = (more: object = {}) => ({
    steps: [{ id: 's', tool: 'llm_generate', params: { prompt: 'why?', max_tokens: 5 }, ...more }],
  })
  const spend = (runId: string, cost: number) =>
    engine.context.db.updateTable('runs').set({ cost }).where('id', '=', runId).execute()
  const bodies = createToolActivities()
  const attempt = (
    runId: string,
    {
      stepId = 's',
      tool = 'llm_generate',
      ...rest
    }: Partial<Scheduled> & { stepId?: string; tool?: string } = {},
  ) => attempted(engine, runId, tool, { args: [{ runId, stepId, itemIndex: null }], ...rest })
  const millionths = async (runId: string): Promise<number> =>
    Math.round(Number((await runOf(engine.context, runId)).cost) * 1_000_000)
  const errorOf = async (runId: string) => (await stepOf(engine.context, runId)).error?.code

  function gate(): { opened: Promise<void>; open: () => void } {
    const { promise: opened, resolve: open } = Promise.withResolvers<void>()
    return { opened, open }
  }

  test('a call counts what its tokens cost, and its output has the labels of its inputs', async () => {
    const runId = await engine.run({
      steps: [
        { id: 'look', tool: 'web_search', params: { query: 'q' } },
        { id: 's', tool: 'llm_generate', params: { prompt: 'why? {{look.output.results}}' } },
      ],
    })
    const found = { title: 't', url: 'https://a.test/', description: 'words of strangers' }
    model.answer = ({ path }) =>
      path.startsWith('/res/') ? { status: 200, body: { type: 'search', web: { results: [found] } } } : answer
    expect((await attempt(runId, { stepId: 'look', tool: 'web_search' })).answer).toEqual({
      outcome: 'completed',
    })
    expect(await millionths(runId)).toBe(0)
    expect((await attempt(runId)).answer).toEqual({ outcome: 'completed' })
    expect(await millionths(runId)).toBe(real)
    const op = opOf(runId)
    expect(await keptOutput(engine.context, op)).toMatchObject({ text: 'because' })
    expect((await effectOf(engine.context, op))?.output_labels).toEqual(['untrusted'])
    expect(model.arrived[1]?.body).toContain('words of strangers')
  })

  describe('the month’s spend', () => {
    test('has no room for the highest cost: nothing is sent, and the audit log says so', async () => {
      const runId = await engine.run(asking())
      await changeQuota(engine.context, engine.caller('owner'), { monthly_spend: 1 })
      await spend(runId, 0.99)
      await attempt(runId)
      expect(await errorOf(runId)).toBe('quota_exceeded')
      expect(model.arrived).toEqual([])
      expect(await millionths(runId)).toBe(990_000)
      expect(await auditOf(engine.context, engine.organizationId, 2)).toContainEqual(
        expect.objectContaining({
          event_type: 'quota.exceeded',
          run_id: runId,
          metadata: expect.objectContaining({ limit: 'monthly_spend', value: 1 }),
        }),
      )
    })

    test('has room for one of two calls side by side: the other one is refused', async () => {
      const [first, second] = [await engine.run(asking()), await engine.run(asking())]
      await changeQuota(engine.context, engine.caller('owner'), { monthly_spend: 1 })
      await spend(await engine.run(), 1 - (1.5 * most) / 1e6)
      const answered = gate()
      model.answer = () => {
        if (model.arrived.length === 2) answered.open()
        const body = JSON.stringify(answer.body)
        return { status: 200, write: (response) => void answered.opened.then(() => response.end(body)) }
      }
      const calls = [first, second].map((runId) => attempt(runId))
      await Promise.race(calls)
      answered.open()
      await Promise.all(calls)
      const codes = [await errorOf(first), await errorOf(second)]
      expect(new Set(codes)).toEqual(new Set(['quota_exceeded', undefined]))
      expect(model.arrived).toHaveLength(1)
      expect((await millionths(first)) + (await millionths(second))).toBe(real)
    })

    test('counts for the month in which the run was accepted', async () => {
      const old = await engine.run(asking())
      const before = `update runs set created_at = created_at - interval '40 days' where id = $1`
      await engine.context.pool.query(before, [old])
      await spend(await engine.run(), 50)
      model.answer = () => answer
      expect((await attempt(old)).answer).toEqual({ outcome: 'completed' })
    })
  })

  describe('a call that fails costs', () => {
    test('nothing for attempts that the service put off, after the pause that it asks for', async () => {
      const runId = await engine.run(asking())
      model.answer = () => ({ status: 429, headers: { 'retry-after': '7' }, body: {} })
      expect((await attempt(runId)).answer).toMatchObject({ nextRetryDelay: 7_000 })
      expect(await millionths(runId)).toBe(0)
      model.answer = () => ({ status: 429, body: {} })
      expect((await attempt(runId)).answer).toMatchObject({ nextRetryDelay: 2_000 })
      model.answer = () => answer
      expect((await attempt(runId)).answer).toEqual({ outcome: 'completed' })
      expect(await millionths(runId)).toBe(real)
    })

    const once = { retry: { attempts: 1, backoff_seconds: 1 } }
    test.each<[string, string, object, Scripted, number]>([
      ['nothing, if the service refused it', 'llm_refused', {}, { status: 400, body: {} }, 0],
      [
        'nothing, if its key was revoked at the service',
        'connection_expired',
        {},
        { status: 401, body: {} },
        0,
      ],
      [
        'the most for an attempt whose answer was lost',
        'llm_unavailable',
        once,
        { status: 200, write: (response) => void response.destroy() },
        most,
      ],
      [
        'the most for a call that took too long',
        'timeout',
        { ...once, timeout_seconds: 1 },
        { status: 200, write: () => {} },
        most,
      ],
    ])('%s: `%s`', async (_, code, more, answered, cost) => {
      const runId = await engine.run(asking(more))
      model.answer = () => answered
      await attempt(runId)
      expect([await errorOf(runId), await millionths(runId)]).toEqual([code, cost])
      const { db } = engine.context
      const shown = db.selectFrom('connections').select('status').where('integration', '=', 'llm')
      const status = code === 'connection_expired' ? 'expired' : 'active'
      expect(await shown.execute()).toEqual([{ status }])
    })
  })

  describe('a worker that dies', () => {
    /** Makes an attempt that stands still before or after its request. Returns a function with which it goes on. */
    async function standingStill(runId: string, where: 'before' | 'after'): Promise<() => Promise<unknown>> {
      const [reached, dead] = [gate(), gate()]
      const stand = () => (reached.open(), dead.opened)
      const body = async (decided: unknown) => {
        if (where === 'before') await stand()
        const result = await bodies['llm_generate']!(decided)
        if (where === 'after') await stand()
        return result
      }
      const stuck = attempt(runId, { body })
      await reached.opened
      return () => (dead.open(), stuck)
    }

    test('after its request: the call is made again, and both are counted', async () => {
      const runId = await engine.run(asking())
      model.answer = () => answer
      const goOn = await standingStill(runId, 'after')
      expect((await attempt(runId)).answer).toEqual({ outcome: 'completed' })
      expect(await millionths(runId)).toBe(most + real)
      // The first attempt was only slow: the late result changes nothing.
      await goOn()
      expect(await millionths(runId)).toBe(most + real)
      expect(model.arrived).toHaveLength(2)
    })

    test('before the request: when it comes back, it may not spend', async () => {
      const runId = await engine.run(asking())
      model.answer = () => answer
      const goOn = await standingStill(runId, 'before')
      await attempt(runId)
      await goOn()
      expect(model.arrived).toHaveLength(1)
      expect(await millionths(runId)).toBe(real)
    })
  })

  test('a cancelled run ends its request in flight, and its highest cost stays counted', async () => {
    const runId = await engine.run(asking())
    const cancelled = new AbortController()
    const asked = gate()
    const closed = gate()
    model.answer = () => ({
      status: 200,
      write: (response) => {
        response.on('close', closed.open)
        asked.open()
      },
    })
    const call = attempt(runId, { signal: cancelled.signal })
    await asked.opened
    await cancelRun(engine.context, { caller: engine.caller('member'), runId, reason: '' })
    cancelled.abort(new Error('CANCELLED'))
    await call
    await closed.opened
    expect((await effectOf(engine.context, opOf(runId)))?.state).toBe('cancelled')
    expect(await millionths(runId)).toBe(most)
  })
})
