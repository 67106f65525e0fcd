import { LLMock } from '@copilotkit/aimock'
import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals'
import { withNewName } from '../../../../src/activities/tools/llm/client.ts'
import type { ToolContext } from '../../../../src/activities/tools/executor.ts'
import { startScriptedServer, type Scripted } from '../../../support/scripted-server.ts'
import { rejection, toolContext } from '../call.ts'
import { badAnswers, useService, type Service } from '../service.ts'

let service: Service
useService('llm_generate', 'llm', (started) => (service = started))

const credentials = {
  anthropic: () => ({
    provider: 'anthropic',
    api_key: 'k1',
    model: 'm',
    base_url: `${service.scripted.url}/v1`,
  }),
  openai: () => ({ provider: 'openai', api_key: 'k1', model: 'm', base_url: `${service.scripted.url}/v1` }),
  ollama: () => ({ provider: 'ollama', api_key: 'k1', model: 'm', base_url: service.scripted.url }),
}
type Provider = keyof typeof credentials
const every = Object.keys(credentials) as Provider[]

const ofOpenAi = (
  text: unknown,
  tokens: unknown = { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 },
) => ({
  status: 200,
  body: {
    id: 'c1',
    object: 'chat.completion',
    created: 1,
    model: 'm-2',
    choices: [{ index: 0, message: { role: 'assistant', content: text }, finish_reason: 'stop' }],
    usage: tokens,
  },
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

describe('each service is asked as it documents', () => {
  const message = { role: 'user', content: 'why?' }
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
    openai: {
      path: '/v1/chat/completions',
      headers: { authorization: 'Bearer k1' },
      body: { model: 'm', max_tokens: 50, messages: [{ role: 'system', content: 'be short' }, message] },
    },
    ollama: {
      path: '/v1/chat/completions',
      headers: { authorization: 'Bearer k1' },
      body: { model: 'm', max_tokens: 50, messages: [{ role: 'system', content: 'be short' }, message] },
    },
  }
  test.each(every)('%s', async (provider) => {
    service.scripted.answer = () => answers[provider]('because')
    const { output } = await service.run(credentials[provider](), params)
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
    await service.run(credentials[provider](), { prompt: 'why?' })
    await service.run(credentials[provider](), { prompt: 'why?', model: 'other' })
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
    const call = service.run(credentials[provider](), { prompt: 'secret prompt' })
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
    return ((await rejection(service.run(credentials[provider](), { prompt: 'p' }))) as { code: string }).code
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
  service.scripted.answer = () => answers[provider]('')
  const { over } = money()
  const error = await rejection(service.run(credentials[provider](), { prompt: 'p' }, over))
  expect(error).toMatchObject({ code: 'llm_no_text', retryable: false, cost: 0.00023 })
})

test('a model that calls tools has no text, and nothing is called', async () => {
  const call = { id: 'x', type: 'function', function: { name: 'rm', arguments: '{}' } }
  const { body } = ofOpenAi(null)
  const message = { role: 'assistant', content: null, tool_calls: [call] }
  service.scripted.answer = () => ({
    status: 200,
    body: { ...body, choices: [{ index: 0, message, finish_reason: 'tool_calls' }] },
  })
  expect(await rejection(service.run(credentials.openai(), { prompt: 'p' }))).toMatchObject({
    code: 'llm_no_text',
  })
  expect(service.scripted.arrived).toHaveLength(1)
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
    expect(await service.run(credentials.anthropic(), params, over)).toMatchObject({ cost: 0.00023 })
    expect(reserved).toEqual([most])
  })

  test('counts bytes, not characters', async () => {
    const { reserved, over } = money({ input: 1, output: 0 })
    service.scripted.answer = () => answers.anthropic('because')
    await service.run(credentials.anthropic(), { prompt: '😀', system: 'é' }, over)
    expect(reserved).toEqual([0.002006])
  })

  test('has the price of the model at the address of the connection', async () => {
    const asked: object[] = []
    const { tools } = toolContext({ priceOf: (model) => (asked.push(model), null) })
    await rejection(service.run(credentials.ollama(), params, { tools }))
    expect(asked).toEqual([{ provider: 'ollama', model: 'm', base: service.scripted.url }])
  })

  test('of an exhausted month: nothing is sent', async () => {
    const over: Partial<ToolContext> = {
      ...money().over,
      reserve: async () => {
        throw new Error('no room')
      },
    }
    expect(await rejection(service.run(credentials.anthropic(), params, over))).toEqual(new Error('no room'))
    expect(service.scripted.arrived).toEqual([])
  })

  test('a model without a price is not asked', async () => {
    const { over } = money(null)
    expect(await rejection(service.run(credentials.openai(), params, over))).toMatchObject({
      code: 'llm_no_price',
      retryable: false,
    })
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
    const result = await service.run(credentials.openai(), params, money().over)
    expect(result).toMatchObject({ output: { usage }, cost })
  })

  const failures: readonly (readonly [string, Scripted, number])[] = [
    ['429', { status: 429, body: {} }, 0],
    ['500', { status: 500, body: {} }, 0],
    ['a lost answer', { status: 200, write: (response) => void response.destroy() }, most],
    ['an answer of another form', { status: 200, body: '<p>' }, most],
  ]
  test.each(failures)('of a failed call: %s', async (_, answer, cost) => {
    service.scripted.answer = () => answer
    const error = await rejection(service.run(credentials.openai(), params, money().over))
    expect(error).toMatchObject({ cost })
  })

  test('of a service that is away', async () => {
    const gone = await startScriptedServer()
    await gone.close()
    const credential = { ...credentials.openai(), base_url: gone.url }
    const error = await rejection(service.run(credential, params, money().over))
    expect(error).toMatchObject({ code: 'llm_unreachable', retryable: true, cost: 0 })
  })
})

test('a cancellation ends the request in flight', async () => {
  const cancelled = new AbortController()
  const closed = new Promise<void>((resolve) => {
    service.scripted.answer = () => ({
      status: 200,
      write: (response) => {
        response.on('close', resolve)
        response.write('{')
        cancelled.abort(new Error('stop'))
      },
    })
  })
  const call = service.run(credentials.anthropic(), { prompt: 'p' }, { signal: cancelled.signal })
  expect(await rejection(call)).toEqual(new Error('stop'))
  await closed
})

test('the library writes nothing, and takes nothing from the environment', async () => {
  const written = jest.spyOn(process, 'emitWarning')
  const logged = jest.spyOn(console, 'warn')
  process.env['ANTHROPIC_BASE_URL'] = 'http://127.0.0.1:9'
  process.env['ANTHROPIC_API_KEY'] = 'of the machine'
  try {
    service.scripted.answer = () => answers.anthropic('because')
    // The model cannot write this many tokens, and the library would warn about that.
    await service.run(credentials.anthropic(), {
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
