import { describe, expect, test } from '@jest/globals'
import type { ToolContext } from '../../../../src/activities/tools/executor.ts'
import { startScriptedServer, type Scripted } from '../../../support/scripted-server.ts'
import { rejection, toolContext } from '../call.ts'
import { useService, type Service } from '../service.ts'
import { answers, credentialsAt, money, ofOpenAi, type Provider } from './models.ts'

let service: Service
useService('llm_generate', 'llm', (started) => (service = started))

const credentialOf = (provider: Provider) => credentialsAt(service.scripted.url)[provider]

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

  test('of an exhausted month: nothing is sent', async () => {
    const over: Partial<ToolContext> = {
      ...money().over,
      reserve: async () => {
        throw new Error('no room')
      },
    }
    expect(await rejection(service.run(credentialOf('anthropic'), params, over))).toEqual(
      new Error('no room'),
    )
    expect(service.scripted.arrived).toEqual([])
  })

  test('a model without a price is not asked', async () => {
    const { over } = money(null)
    expect(await rejection(service.run(credentialOf('openai'), params, over))).toMatchObject({
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
    const result = await service.run(credentialOf('openai'), params, money().over)
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
