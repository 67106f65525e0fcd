import { beforeAll, describe, expect, test } from '@jest/globals'
import type { CrashHome } from '../support/chaos.ts'
import { modelAnswer, type Model } from '../support/model.ts'

/* Runs that call services, with a secret in every credential, parameter and answer. */

/** `home` and `model` are there once the tests run. */
export interface PlantedStack {
  readonly secret: string
  readonly home: CrashHome
  readonly model: Model
  /** Saves a workflow of these steps with the input `text`. Returns its id. */
  workflow(steps: object[]): Promise<string>
}

export function plantedRuns(stack: PlantedStack): void {
  searchesAndAsks(stack)
  worksOnGithub(stack)
  usesSlackAndGoogle(stack)
}

function searchesAndAsks(stack: PlantedStack): void {
  const { secret } = stack
  describe('a run that searches the web and asks a model', () => {
    const found = {
      title: secret,
      url: `https://a.test/${secret}`,
      description: `words of strangers ${secret}`,
    }
    const ask = (id: string, prompt: string, more: object = {}) => ({
      id,
      tool: 'llm_generate',
      params: { prompt, max_tokens: 5 },
      retry: { attempts: 1, backoff_seconds: 1 },
      ...more,
    })
    beforeAll(async () => {
      const search = { provider: 'brave', api_key: `key-${secret}`, base_url: stack.model.url }
      await stack.home.admin.good('POST', '/tools/llm_generate/connect', stack.model.connection)
      await stack.home.admin.good('POST', '/tools/web_search/connect', {
        credential: search,
        scope: 'organization',
      })
      const isUntrusted = { labels: { any_of: ['untrusted'] } }
      await stack.home.admin.createRule({ name: 'of strangers', verdict: 'require_approval', tools: ['memory_set'], ...isUntrusted }) // prettier-ignore
      stack.model.answer = ({ path, body }) => {
        if (path.startsWith('/res/'))
          return { status: 200, body: { type: 'search', web: { results: [found] } } }
        if (body.includes('refuse')) return { status: 400, body: { error: { message: secret } } }
        if (body.includes('page')) return { status: 200, body: `<p>${secret}` }
        return { status: 200, body: modelAnswer(`in short: ${secret}`) }
      }
    })

    test('is held where the words of strangers would be kept', async () => {
      const id = await stack.workflow([
        { id: 'search', tool: 'web_search', params: { query: '{{input.text}}' } },
        ask('ask', 'sum up: {{steps.search.output.results}}'),
        { id: 'keep', tool: 'memory_set', params: { key: 'sum', value: '{{ask.output.text}}' } },
      ])
      const runId = await stack.home.member.execute(id, { text: secret })
      const approvalId = await stack.home.approver.untilHeld(runId, 'step')
      expect(await stack.home.approver.approval(approvalId)).toMatchObject({ labels: ['untrusted'] })
      expect(stack.model.arrived.at(-1)?.body).toContain('words of strangers')
      await stack.home.approver.decide(approvalId, 'approve')
      expect((await stack.home.member.untilStatus(runId, 'completed')).cost).toBeGreaterThan(0)
      expect(await stack.home.member.good('GET', '/memory/sum')).toMatchObject({
        value: `in short: ${secret}`,
        labels: ['untrusted'],
      })
    })

    test('says of bad answers only what to do', async () => {
      const goOn = { on_error: 'continue' }
      const id = await stack.workflow([
        ask('no', 'refuse {{input.text}}', goOn),
        ask('html', 'page {{input.text}}', goOn),
      ])
      const runId = await stack.home.member.execute(id, { text: secret })
      const { steps } = await stack.home.member.untilStatus(runId, 'completed')
      expect(steps.map(({ error }) => error?.code)).toEqual(['llm_refused', 'llm_bad_answer'])
      expect(JSON.stringify(steps)).not.toContain(secret)
    })
  })
}

function worksOnGithub(stack: PlantedStack): void {
  const { secret } = stack
  describe('a run that works on GitHub', () => {
    const issue = {
      number: 7,
      title: secret,
      body: secret,
      labels: [],
      state: 'open',
      html_url: `u/${secret}`,
    }
    const once = { retry: { attempts: 1, backoff_seconds: 1 }, on_error: 'continue' }
    const of = (id: string, tool: string, params: object) => ({ id, tool, params, ...once })
    beforeAll(async () => {
      stack.model.answer = ({ path, method, body }) => {
        if (path === '/user') return { status: 200, body: { login: `login-${secret}` } }
        if (method === 'GET') return { status: 200, body: issue }
        if (body.includes('refuse'))
          return { status: 422, body: { message: secret, errors: [{ message: secret }] } }
        return { status: 201, body: { id: 8, ...issue } }
      }
      const credential = { token: `ghp_${secret}`, base_url: stack.model.url }
      await stack.home.admin.good('POST', '/tools/github_comment/connect', {
        credential,
        scope: 'organization',
      })
    })

    test('shows parameters and answers to its people alone', async () => {
      const id = await stack.workflow([
        of('read', 'github_get_issue', { repo: 'acme/app', number: 7 }),
        of('make', 'github_create_issue', {
          repo: 'acme/app',
          title: '{{input.text}}',
          body: '{{read.output.body}}',
        }),
        of('say', 'github_comment', { repo: 'acme/app', number: 7, body: '{{input.text}}' }),
        of('no', 'github_comment', { repo: 'acme/app', number: 7, body: 'refuse {{input.text}}' }),
        of('lost', 'github_comment', { repo: '{{input.text}}', number: 7, body: 'b' }),
      ])
      const runId = await stack.home.member.execute(id, { text: secret })
      const { steps } = await stack.home.member.untilStatus(runId, 'completed')
      expect(steps.map(({ error }) => error?.code)).toEqual([
        ...[undefined, undefined, undefined],
        ...['github_refused', 'invalid_params'],
      ])
      expect(JSON.stringify(steps.map(({ error }) => error))).not.toContain(secret)
      expect(
        stack.model.arrived.some(({ headers }) => headers['authorization'] === `Bearer ghp_${secret}`),
      ).toBe(true)
    })
  })
}

function usesSlackAndGoogle(stack: PlantedStack): void {
  const { secret } = stack
  describe('a run that writes to Slack and reads from Google', () => {
    const ok = (body: object) => ({ status: 200, body: { ok: true, ...body } })
    const granted = {
      access_token: `access-${secret}`,
      token_type: 'Bearer',
      expires_in: 3600,
      refresh_token: `refresh-${secret}`,
    }
    let canRefresh = true
    beforeAll(async () => {
      stack.model.answer = ({ path, body }) => {
        if (path === '/token' && !canRefresh)
          return { status: 400, body: { error: 'invalid_grant', error_description: secret } }
        if (path === '/token') return { status: 200, body: granted }
        if (path.includes('/documents/')) return { status: 403, body: { error: { message: secret } } }
        if (path.endsWith('auth.test')) return ok({ user: 'bot', team: 'Acme' })
        if (!path.endsWith('chat.postMessage')) return { status: 404, body: secret }
        return body.includes('refuse')
          ? { status: 200, body: { ok: false, error: `not_${secret}` } }
          : ok({ channel: 'C0123456789', ts: '1.000001', message: { text: secret } })
      }
      const slack = { token: `xoxb-${secret}`, base_url: stack.model.url }
      const google = {
        client_id: 'client',
        client_secret: `client-${secret}`,
        refresh_token: `first-${secret}`,
        base_url: stack.model.url,
      }
      await stack.home.admin.good('POST', '/tools/slack_send_message/connect', {
        credential: slack,
        scope: 'organization',
      })
      await stack.home.admin.good('POST', '/tools/docs_read/connect', {
        credential: google,
        scope: 'organization',
      })
    })
    const once = { retry: { attempts: 1, backoff_seconds: 1 }, on_error: 'continue' }
    const message = (id: string, text: string) => ({
      id,
      tool: 'slack_send_message',
      params: { channel: '{{input.channel}}', text },
      ...once,
    })
    const read = { id: 'read', tool: 'docs_read', params: { document: '{{input.text}}' }, ...once }
    const ended = async (steps: object[]) => {
      const inputs = { channel: { type: 'string' }, text: { type: 'string' } }
      const body = { name: 'Report', description: secret, definition: { inputs, steps } }
      const { id } = await stack.home.member.good<{ id: string }>('POST', '/workflows', body)
      // The connection's access token has expired, so each run asks for another one.
      await stack.home.query('update connections set access_fresh_until = null')
      const runId = await stack.home.member.execute(id, { channel: `#c-${secret}`, text: secret })
      const run = await stack.home.member.untilStatus(runId, 'completed')
      const errors = run.steps.map(({ error }) => error)
      // Unknown words of a service are only in `detail`, for people who may see the parameters.
      expect(JSON.stringify(errors.map((error) => error?.message))).not.toContain(secret)
      return errors.map((error) => error?.code)
    }

    test('says of refusals only what to do', async () => {
      const steps = [message('send', '{{input.text}}'), message('no', 'refuse {{input.text}}'), read]
      expect(await ended(steps)).toEqual([undefined, 'slack_refused', 'google_forbidden'])
      expect(stack.model.arrived.some(({ body }) => body.includes(`refresh-${secret}`))).toBe(true)
    })

    test('says of an ended authorization only what to do', async () => {
      canRefresh = false
      expect(await ended([read])).toEqual(['connection_expired'])
      const callback = '/connections/callback/google'
      for (const query of [
        `state=${secret}&code=${secret}`,
        `state=x&error=${secret}&error_description=${secret}`,
      ]) {
        const { status, body } = await stack.home.member.call('GET', `${callback}?${query}`)
        expect([status, JSON.stringify(body).includes(secret)]).toEqual([404, false])
      }
    })
  })
}
