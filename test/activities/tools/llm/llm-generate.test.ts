import { LLMock } from '@copilotkit/aimock'
import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals'
import { withNewName } from '../../../../src/activities/tools/llm/client.ts'
import { mostTimeoutSeconds } from '../../../../src/contract/definition.ts'
import { rejection } from '../call.ts'
import { badAnswers, useService, type Service } from '../service.ts'
import { answers, credentialsAt, money, ofOpenAi, type Provider } from './models.ts'

let service: Service
useService('llm_generate', 'llm', (started) => (service = started))

const credentialOf = (provider: Provider) => credentialsAt(service.scripted.url)[provider]
const every: readonly Provider[] = ['anthropic', 'openai', 'ollama']

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
  service.scripted.answer = () => answers[provider]('')
  const { over } = money()
  const error = await rejection(service.run(credentialOf(provider), { prompt: 'p' }, over))
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
  expect(await rejection(service.run(credentialOf('openai'), { prompt: 'p' }))).toMatchObject({
    code: 'llm_no_text',
  })
  expect(service.scripted.arrived).toHaveLength(1)
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
  const call = service.run(credentialOf('anthropic'), { prompt: 'p' }, { signal: cancelled.signal })
  expect(await rejection(call)).toEqual(new Error('stop'))
  await closed
})

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
