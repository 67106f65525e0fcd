import { LLMock } from '@copilotkit/aimock'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import type { Scripted } from '../support/scripted-server.ts'
import { rejection } from './call.ts'
import { badAnswers, errorOfAway, expectCancelled, useService, type Service } from './service.ts'

let service: Service
useService('web_search', 'search', (started) => (service = started))

const credentials = {
  searxng: () => ({ provider: 'searxng', api_key: 'k1', base_url: service.scripted.url }),
  brave: () => ({ provider: 'brave', api_key: 'k1', base_url: service.scripted.url }),
  tavily: () => ({ provider: 'tavily', api_key: 'k1', base_url: service.scripted.url }),
}
type Provider = keyof typeof credentials
const every = Object.keys(credentials) as Provider[]

interface Page {
  readonly title: string
  readonly url: string
  readonly text: string
}
const page = (index: number): Page => ({
  title: `t${index}`,
  url: `https://a.test/${index}`,
  text: `s${index}`,
})
const shown = ({ title, url, text }: Page) => ({ title, url, snippet: text })

/** Answers in the forms that the services document, with fields that are not read. */
const answers: Record<Provider, (pages: readonly Page[]) => Scripted> = {
  searxng: (pages) => {
    const results = pages.map(({ title, url, text }) => ({
      url,
      title,
      content: text,
      engine: 'bing',
      score: 1,
    }))
    return { status: 200, body: { query: 'q', number_of_results: 0, results, answers: [], suggestions: [] } }
  },
  brave: (pages) => {
    const results = pages.map(({ title, url, text }) => ({
      type: 'search_result',
      title,
      url,
      description: text,
    }))
    const web = pages.length === 0 ? {} : { web: { type: 'search', family_friendly: true, results } }
    return { status: 200, body: { type: 'search', query: { original: 'q' }, mixed: { main: [] }, ...web } }
  },
  tavily: (pages) => {
    const results = pages.map(({ title, url, text }) => ({ title, url, content: text, raw_content: null }))
    return { status: 200, body: { query: 'q', answer: null, images: [], results, request_id: 'r' } }
  },
}

const run = async (provider: Provider, params: object) => {
  const { output } = await service.run(credentials[provider](), params)
  return (output as unknown as { results: object[] }).results
}
const pages = (from: number, to: number): Page[] =>
  Array.from({ length: to - from }, (_, at) => page(from + at))

describe('each service is asked as it documents', () => {
  test('SearXNG', async () => {
    service.scripted.answer = () => answers.searxng([page(1)])
    expect(await run('searxng', { query: 'a & b', limit: 1 })).toEqual([shown(page(1))])
    expect(service.scripted.arrived).toMatchObject([
      {
        method: 'GET',
        path: '/search?q=a+%26+b&format=json&pageno=1',
        headers: { authorization: 'Bearer k1', accept: 'application/json' },
      },
    ])
  })

  test('Brave', async () => {
    service.scripted.answer = () => answers.brave([page(1)])
    expect(await run('brave', { query: 'a & b' })).toEqual([shown(page(1))])
    expect(service.scripted.arrived).toMatchObject([
      {
        method: 'GET',
        path: '/res/v1/web/search?q=a+%26+b&count=10&offset=0&result_filter=web&text_decorations=false',
        headers: { 'x-subscription-token': 'k1' },
      },
    ])
  })

  test('Tavily', async () => {
    service.scripted.answer = () => answers.tavily([page(1)])
    expect(await run('tavily', { query: 'a & b' })).toEqual([shown(page(1))])
    expect(service.scripted.arrived).toMatchObject([
      {
        method: 'POST',
        path: '/search',
        headers: { authorization: 'Bearer k1', 'content-type': 'application/json' },
      },
    ])
    expect(JSON.parse(service.scripted.arrived[0]?.body ?? '')).toEqual({ query: 'a & b', max_results: 10 })
  })
})

describe('Tavily’s stand-in', () => {
  const mock = new LLMock({ port: 0, logLevel: 'silent' })
  beforeAll(() => mock.start())
  afterAll(() => mock.stop())

  test('answers with its results', async () => {
    mock.onSearch('policies', [{ title: 'T', url: 'https://a.test/', content: 'words', score: 1 }])
    const credential = { provider: 'tavily', api_key: 'k1', base_url: mock.url }
    const { output } = await service.run(credential, { query: 'policies of tools' })
    expect(output).toEqual({ results: [{ title: 'T', url: 'https://a.test/', snippet: 'words' }] })
  })
})

describe('the number of searches', () => {
  test('never exceeds three, however many results are requested', async () => {
    service.scripted.answer = ({ path }) => {
      const at = Number(new URLSearchParams(path.split('?')[1]).get('pageno')) - 1
      return answers.searxng(pages(at * 10, at * 10 + 10))
    }
    expect(await run('searxng', { query: 'q', limit: 25 })).toEqual(pages(0, 25).map(shown))
    expect(service.scripted.arrived).toHaveLength(3)
    expect(await run('searxng', { query: 'q', limit: 50 })).toHaveLength(30)
    expect(service.scripted.arrived).toHaveLength(6)
  })

  test('Brave is asked for pages of 20', async () => {
    service.scripted.answer = ({ path }) => {
      const at = Number(new URLSearchParams(path.split('?')[1]).get('offset'))
      return answers.brave(pages(at * 20, at === 2 ? 45 : at * 20 + 20))
    }
    expect(await run('brave', { query: 'q', limit: 50 })).toEqual(pages(0, 45).map(shown))
    expect(service.scripted.arrived.map(({ path }) => /count=\d+&offset=\d/.exec(path)?.[0])).toEqual([
      'count=20&offset=0',
      'count=20&offset=1',
      'count=20&offset=2',
    ])
  })

  test.each(every)('%s: a page without new results is the last one', async (provider) => {
    service.scripted.answer = () => answers[provider](pages(0, 5))
    expect(await run(provider, { query: 'q', limit: 50 })).toHaveLength(5)
    expect(service.scripted.arrived.length).toBe(provider === 'searxng' ? 2 : 1)
    service.scripted.answer = () => answers[provider]([])
    expect(await run(provider, { query: 'q' })).toEqual([])
  })

  test('a later page that is refused for a while leaves the earlier ones', async () => {
    service.scripted.answer = () =>
      service.scripted.arrived.length === 1 ? answers.brave(pages(0, 20)) : { status: 429, body: {} }
    expect(await run('brave', { query: 'q', limit: 50 })).toHaveLength(20)
  })

  test('a later page that refuses the credential fails the call', async () => {
    service.scripted.answer = () =>
      service.scripted.arrived.length === 1 ? answers.brave(pages(0, 20)) : { status: 401, body: {} }
    expect(await rejection(run('brave', { query: 'q', limit: 50 }))).toMatchObject({
      code: 'connection_expired',
    })
  })
})

describe('results', () => {
  test.each(every)('%s: only links to pages, and short texts', async (provider) => {
    const wild = [
      { title: 'x', url: 'javascript:alert(1)', text: '' },
      { title: 'x', url: 'not a link', text: '' },
      { title: 'x', url: `https://a.test/${'u'.repeat(3_000)}`, text: '' },
      { title: `${'t'.repeat(499)}😀`, url: 'https://a.test/long', text: `a\u0000\n b${'s'.repeat(9_000)}` },
      { title: 'again', url: 'https://a.test/long', text: '' },
    ]
    service.scripted.answer = () => answers[provider](wild)
    const [only, ...others] = (await run(provider, { query: 'q' })) as { title: string; snippet: string }[]
    expect(others).toEqual([])
    expect(only?.title).toBe(`${'t'.repeat(499)}\ufffd`)
    expect(only?.snippet).toHaveLength(4_000)
    expect(only?.snippet.startsWith('a bsss')).toBe(true)
  })

  test.each(every)('%s: more results than asked are cut', async (provider) => {
    service.scripted.answer = () => answers[provider](pages(0, 500))
    expect(await run(provider, { query: 'q', limit: 3 })).toHaveLength(3)
  })
})

describe.each(every)('%s answers with', (provider) => {
  test.each(badAnswers('search'))('%s', async (_, answer, expected) => {
    service.scripted.answer = () => answer
    const error = (await rejection(run(provider, { query: 'secret query' }))) as Error
    expect(error).toMatchObject(expected)
    expect(error.message).not.toMatch(/secret/)
    expect(service.scripted.arrived).toHaveLength(1)
  })
})

test('services’ own words for a wrong key and a used-up plan', async () => {
  const code = async (provider: Provider, answer: Scripted) => {
    service.scripted.answer = () => answer
    return ((await rejection(run(provider, { query: 'q' }))) as { code: string }).code
  }
  const wrongKey = { type: 'ErrorResponse', error: { code: 'SUBSCRIPTION_TOKEN_INVALID', status: 422 } }
  expect(await code('brave', { status: 422, body: wrongKey })).toBe('connection_expired')
  expect(await code('brave', { status: 422, body: {} })).toBe('search_refused')
  expect(await code('tavily', { status: 432, body: {} })).toBe('search_no_credit')
})

test('a service that is away is tried again', async () => {
  const error = await errorOfAway(service, credentials.searxng(), { query: 'q' })
  expect(error).toMatchObject({ code: 'search_unreachable', retryable: true })
})

test('a cancellation ends the request in flight', () =>
  expectCancelled(service, credentials.searxng(), { query: 'q' }))
