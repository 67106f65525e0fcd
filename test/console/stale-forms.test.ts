import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { startPages, type PagesHome } from '../api/console/pages-home.ts'
import type { Who } from './support.ts'

/* What somebody else has changed since a page was opened is not undone unseen; and what cannot be kept is refused. */

let home: PagesHome
let organization: string
beforeAll(async () => {
  home = await startPages()
  organization = `/organizations/${home.server.identities.organization_id}`
})
afterAll(() => home?.server.close())

/** The value of the hidden field `seen` of the form whose other hidden fields are these, on a page. */
async function seenIn(path: string, who: Who, before: RegExp): Promise<string> {
  const html = await home.html(path, who)
  const form = html.split('<form').find((each) => before.test(each)) ?? ''
  const value = /name="seen" value="([^"]*)"/.exec(form)?.[1] ?? ''
  return value.replaceAll('&quot;', '"').replaceAll('&amp;', '&')
}

async function send(path: string, who: Who, fields: Record<string, string>) {
  const token = await home.tokenOf(path, who)
  const answer = await home.post(path, { token, ...fields }, {}, await home.cookieOf(who))
  return { status: answer.status, text: await answer.text(), location: answer.headers.get('location') }
}

const meanwhile = 'else changed it meanwhile'

describe('a form that is sent after somebody else changed the same', () => {
  test('a limit', async () => {
    const seen = await seenIn('/console/settings', 'owner', /value="limits"/)
    await home.call('owner', 'PATCH', `${organization}/quota`, { rules: 900 })
    const fields = { action: 'limits', seen, pending_approvals: '33' }
    const refused = await send('/console/settings', 'owner', fields)
    expect([refused.status, refused.text.includes(meanwhile)]).toEqual([409, true])
    expect((await home.call('owner', 'GET', `${organization}/quota`)).body.overrides).not.toHaveProperty(
      'pending_approvals',
    )
    const now = await seenIn('/console/settings', 'owner', /value="limits"/)
    expect((await send('/console/settings', 'owner', { ...fields, seen: now, rules: '900' })).status).toBe(
      303,
    )
  })

  test('a setting', async () => {
    const seen = await seenIn('/console/settings', 'owner', /value="category_flags"/)
    await home.call('owner', 'PATCH', `${organization}/governance`, { category_flags: { legal: true } })
    const fields = { action: 'save', setting: 'category_flags', category_flags: 'hr', seen }
    expect((await send('/console/settings', 'owner', fields)).status).toBe(409)
    const { body } = await home.call('owner', 'GET', `${organization}/governance`)
    expect(body.category_flags).toEqual({ legal: true })
  })

  test('a rule, in the list of rules', async () => {
    const body = { name: 'harmless', verdict: 'deny', status: 'shadow', tools: ['jira_search'] }
    const { id } = (await home.call('admin', 'POST', `${organization}/rules`, body)).body
    const seen = await seenIn('/console/rules', 'admin', new RegExp(`value="${id}"`))
    await home.call('owner', 'PATCH', `${organization}/rules/${id}`, { tools: ['*'] })
    for (const action of ['active', 'delete']) {
      const refused = await send('/console/rules', 'admin', { action, kind: 'rule', rule: id, seen })
      expect([refused.status, refused.text.includes(meanwhile)]).toEqual([409, true])
    }
    expect((await home.call('admin', 'GET', `${organization}/rules/${id}`)).body.status).toBe('shadow')
    const now = await seenIn('/console/rules', 'admin', new RegExp(`value="${id}"`))
    const fields = { action: 'delete', kind: 'rule', rule: id, seen: now }
    expect((await send('/console/rules', 'admin', fields)).status).toBe(303)
  })

  test('a policy, also one that the form was not opened for', async () => {
    const path = '/console/tools/memory_set'
    const seen = await seenIn(path, 'owner', /value="save"/)
    await home.call('owner', 'POST', `${organization}/tool-policies`, {
      tool_name: 'memory_set',
      allowed: false,
    })
    const fields = { action: 'save', of: '', does: 'limit', read_only: 'true', seen }
    expect((await send(path, 'owner', fields)).status).toBe(409)
    const { body } = await home.call('owner', 'GET', `${organization}/tool-policies?tool_name=memory_set`)
    expect(body.data).toMatchObject([{ allowed: false }])
  })

  test('a value of the memory, whose text stays a text', async () => {
    await home.call('member', 'PUT', '/memory/lab', { value: '12345', labels: [] })
    const path = '/console/data/memory/lab'
    expect(await home.main(path, 'admin')).toContain('&quot;12345&quot;')
    const seen = await seenIn(path, 'admin', /Change it|name="value"/)
    const fields = { action: 'set', value: '"12345"', labels: '', seen }
    expect((await send(path, 'admin', fields)).status).toBe(303)
    expect((await home.call('admin', 'GET', '/memory/lab')).body.value).toBe('12345')
    const stale = await seenIn(path, 'admin', /Change it|name="value"/)
    await home.call('member', 'PUT', '/memory/lab', { value: 'secret', labels: ['pii'] })
    const refused = await send(path, 'admin', { ...fields, seen: stale })
    expect([refused.status, refused.text.includes(meanwhile)]).toEqual([409, true])
    expect((await home.call('admin', 'GET', '/memory/lab')).body).toMatchObject({ value: 'secret', labels: ['pii'] }) // prettier-ignore
  })

  test('the name of a workflow', async () => {
    const definition = { steps: [{ id: 's', tool: 'memory_get', params: { key: 'k' } }] }
    const made = await home.call('member', 'POST', '/workflows', { name: 'Old', definition })
    const path = `/console/workflows/${made.body.id}/edit`
    const version = /name="version" value="([^"]*)"/.exec(await home.html(path, 'member'))?.[1] ?? ''
    await home.call('member', 'PUT', `/workflows/${made.body.id}`, { name: 'New', slug: 'new-one' })
    const yaml = 'name: Old\nsteps:\n  - id: s\n    tool: memory_get\n    params: { key: k }\n'
    const refused = await send(path, 'member', { action: 'save', version, text: yaml })
    expect(refused.status).toBe(409)
    expect((await home.call('member', 'GET', `/workflows/${made.body.id}`)).body).toMatchObject({ name: 'New', slug: 'new-one' }) // prettier-ignore
  })
})

test.each([
  '"\\u0000"',
  '"\\ud800"',
  '{"__proto__":1}',
  `${'['.repeat(70)}${']'.repeat(70)}`,
  `${'['.repeat(8_000)}${']'.repeat(8_000)}`,
])(
  // prettier-ignore
  'a value that the API refuses is refused on the page too: %.20s',
  async (value) => {
    const fields = { action: 'set', key: 'odd', value, labels: '' }
    expect((await send('/console/data', 'member', fields)).status).toBe(422)
    expect((await home.call('member', 'GET', '/memory/odd')).status).toBe(404)
  },
)

test.each(['/console/workflows?search=%00', '/console/runs?workflow_id=%00', '/console/tools/mcp__a%00b'])(
  'NUL in an address is the reader’s mistake: %s',
  async (path) => expect((await home.get(path, await home.cookieOf('owner'))).status).toBeLessThan(500),
)

test.each([
  'inputs:\nsteps: [{ id: a, tool: memory_get }]',
  'steps:\n  -',
  'steps: [{ id: a, tool: 5 }]',
  'steps: [{ id: a, tool: x, summary: 5 }]',
])(
  // prettier-ignore
  'a definition that is half written is checked: %j',
  async (text) => {
    for (const action of ['check', 'preview', 'save']) {
      const answer = await send('/console/workflows/new', 'member', { action, text })
      expect([action, answer.status >= 500]).toEqual([action, false])
    }
  },
)
