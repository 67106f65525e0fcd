import { expect, test } from '@jest/globals'
import { readConfig } from '../../src/shared/config.ts'
import { priceOf } from '../../src/shared/model-prices.ts'

const least = {
  DATABASE_URL: 'postgresql://db/x',
  DATA_ENCRYPTION_KEY: Buffer.alloc(32, 7).toString('base64'),
}
const of = (prices: Parameters<typeof priceOf>[0], provider: string, model: string) =>
  priceOf(prices, { provider, model })
const pricesOf = (text: string) => readConfig({ ...least, LLM_PRICES: text }).tools.modelPrices

test('the first price that names the model counts', () => {
  const prices = pricesOf(
    ' openai/gpt-5=1.25/10, openai/gpt-*=2/8,,anthropic/*=3/15,openai/a/b:8b=0/0.000001 ',
  )
  const rows: [string, string, { input: number; output: number } | null][] = [
    ['openai', 'gpt-5', { input: 1.25, output: 10 }],
    ['openai', 'gpt-5-mini', { input: 2, output: 8 }],
    ['anthropic', 'anything', { input: 3, output: 15 }],
    ['openai', 'a/b:8b', { input: 0, output: 0.000001 }],
    ['ollama', 'gpt-5', null],
    ['openai', 'GPT-5', null],
  ]
  const found = rows.map(([provider, model]) => [provider, model, of(prices, provider, model)])
  expect(found).toMatchObject(rows)
})

test('without the setting, only Ollama is free', () => {
  expect(of(pricesOf(''), 'ollama', 'm')).toMatchObject({ input: 0, output: 0 })
  expect(of(pricesOf(''), 'openai', 'm')).toMatchObject({ input: 5, output: 25 })
})

test.each([
  'gpt-5=1/2',
  'openai/gpt=1',
  'openai/gpt=-1/2',
  'openai/gpt=1/2/3',
  'openai/g*t=1/2',
  'other/m=1/2',
  'openai/gpt=1e3/2',
  '**=1/2',
])('refuses `%s`', (text) => {
  expect(() => pricesOf(text)).toThrow(`LLM_PRICES is wrong: \`${text}\` is no price`)
})

test('refuses more than 200 prices', () => {
  const text = (count: number) => Array.from({ length: count }, (_, at) => `openai/m${at}=1/2`).join(',')
  expect(pricesOf(text(200))).toHaveLength(200)
  expect(() => pricesOf(text(201))).toThrow('LLM_PRICES is wrong: it has more than 200 prices')
})
