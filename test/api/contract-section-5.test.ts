import { afterAll, beforeAll, describe, expect, it } from '@jest/globals'
import { aLabelRule, aRule, addOrganization } from './fixtures.ts'
import { startTestServer, type TestServer } from './server.ts'

/* Contract section 5, sentence by sentence, as callers meet it: routes, codes and messages. */

let server: TestServer
let organization: string
let counter = 0
beforeAll(async () => {
  server = await startTestServer()
  organization = `/organizations/${server.identities.organization_id}`
})
afterAll(() => server.close())

const ask = (method: string, path: string, body?: unknown) =>
  server.call(server.identities.users.admin.api_key, method, `${organization}${path}`, body)
const named = (body: object) => ({ ...body, name: `rule ${(counter += 1)}` })
/** The issues with which a body is refused. */
async function refused(path: string, body: object): Promise<{ path: string; message: string }[]> {
  const answer = await ask('POST', path, body)
  expect([answer.status, answer.body.error.code]).toEqual([422, 'validation_error'])
  return answer.body.error.details
}
const withParam = (condition: object) =>
  named({ ...aRule, params: [{ param: 'to', operator: 'equals', value: 'x', ...condition }] })

describe.each([
  ['rules', aRule, { verdict: 'allow' }],
  ['label-rules', aLabelRule, { add_labels: ['pii', 'secret'] }],
])('/%s', (path, fields, change) => {
  it('“`POST|GET …`, `GET|PUT|PATCH|DELETE …/{rule}`”', async () => {
    const body = named(fields)
    const made = await ask('POST', `/${path}`, body)
    expect(made.status).toBe(201)
    expect(made.body).toMatchObject({ ...body, status: 'active' })
    const one = `/${path}/${made.body.id}`
    expect((await ask('GET', one)).body).toEqual(made.body)
    expect((await ask('GET', `/${path}`)).body.data).toContainEqual(made.body)
    expect((await ask('PATCH', one, change)).body).toMatchObject({ ...body, ...change })
    expect((await ask('PUT', one, body)).body).toMatchObject(body)
    expect((await ask('DELETE', one)).status).toBe(204)
    expect((await ask('GET', one)).status).toBe(404)
  })

  it('“Names are unique in an organization.”', async () => {
    const [first, second] = [named(fields), named(fields)]
    await ask('POST', `/${path}`, first)
    const { id } = (await ask('POST', `/${path}`, second)).body
    for (const [method, at, body] of [
      ['POST', `/${path}`, first],
      ['PUT', `/${path}/${id}`, first],
      ['PATCH', `/${path}/${id}`, { name: first.name }],
    ] as const) {
      const answer = await ask(method, at, body)
      expect([answer.status, answer.body.error.code]).toEqual([409, 'conflict'])
      expect(answer.body.error.message).toContain(`\`${first.name}\``)
    }
    const { id: other, owner } = await addOrganization(server.context)
    expect((await server.call(owner.key, 'POST', `/organizations/${other}/${path}`, first)).status).toBe(201)
  })

  it('a placeholder is rejected with the message to replace it, when made, replaced or changed', async () => {
    const params = (value: unknown, operator = 'equals') => [{ param: 'path', operator, value }]
    const { id } = (await ask('POST', `/${path}`, named(fields))).body
    for (const value of ['<YOUR_SHEET_ID>', ' <your-domain> ', '<SHEET_ID>'])
      for (const [method, at, body] of [
        ['POST', `/${path}`, named({ ...fields, params: params(value) })],
        ['PUT', `/${path}/${id}`, named({ ...fields, params: params(['x', value], 'in') })],
        ['PATCH', `/${path}/${id}`, { params: params([value], 'domain_in') }],
        ['PATCH', `/${path}/${id}`, { tools: [value] }],
      ] as const) {
        const { status, body: answer } = await ask(method, at, body)
        expect(status).toBe(422)
        expect(answer.error.details.map((each: { message: string }) => each.message)).toContain(
          `\`${value.trim()}\` is a placeholder: replace it with the real value`,
        )
      }
  })

  it('“any other policy name is 422 with the hint to the tools list”', async () => {
    for (const tool of ['mail_sned', 'github_*_typo', 'bash2', 'mcp_crm_send', 'no such'])
      expect((await refused(`/${path}`, named({ ...fields, tools: ['mail_send', tool] })))[0]).toMatchObject({
        path: 'tools.1',
        message:
          tool === 'no such'
            ? expect.stringContaining('white space')
            : expect.stringContaining('`GET /tools` lists'),
      })
    for (const tool of ['jira_*', 'Bash', 'mcp__crm__send', 'mcp__*'])
      expect((await ask('POST', `/${path}`, named({ ...fields, tools: [tool] }))).status).toBe(201)
  })
})

describe('what is saved', () => {
  it('“`GET /rule-templates` (ship inactive)”, and each can be saved as it is', async () => {
    const key = server.identities.users.admin.api_key
    const { status, body } = await server.call(key, 'GET', '/api/v1/rule-templates')
    expect(status).toBe(200)
    expect(new Set(body.data.map((each: { kind: string }) => each.kind))).toEqual(
      new Set(['rule', 'label_rule']),
    )
    for (const template of body.data) {
      expect(template.body.status).toBe('inactive')
      const saved = await ask('POST', template.kind === 'rule' ? '/rules' : '/label-rules', template.body)
      expect([saved.status, saved.body.status]).toEqual([201, 'inactive'])
    }
    const call = {
      tool: 'mail_send',
      params: { to: 'b@evil.net' },
      labels: ['confidential', 'internal', 'untrusted'],
    }
    expect((await ask('POST', '/rules/test', { call })).body.matched_rules).not.toContainEqual(
      expect.objectContaining({ name: body.data[0].body.name }),
    )
  })

  it('“A rule with no condition at all needs `"match_all": true`”, also after a change', async () => {
    const bare = named({ verdict: 'allow' })
    expect(await refused('/rules', bare)).toEqual([
      { path: 'match_all', message: expect.stringContaining('match_all') },
    ])
    const { id } = (await ask('POST', '/rules', { ...bare, tools: ['mail_send'] })).body
    const answer = await ask('PATCH', `/rules/${id}`, { tools: null })
    expect([answer.status, answer.body.error.details[0].path]).toEqual([422, 'match_all'])
    expect((await ask('PATCH', `/rules/${id}`, { tools: null, match_all: true })).status).toBe(200)
  })

  it('“labels are lower-case slugs”', async () => {
    expect((await refused('/label-rules', named({ add_labels: ['PII'] })))[0]?.path).toBe('add_labels.0')
    expect(
      (await refused('/rules', named({ verdict: 'deny', labels: { any_of: ['Top Secret'] } })))[0]?.path,
    ).toBe('labels.any_of.0')
    expect((await refused('/rules', withParam({ operator: 'from_label', value: ['PII'] })))[0]?.path).toBe(
      'params.0.value.0',
    )
  })

  it('“a bare public suffix as a rule’s domain is 422”', async () => {
    for (const domain of ['com', 'co.uk', 'github.io', 'COM.'])
      expect(
        await refused('/rules', withParam({ operator: 'domain_not_in', value: ['acme.com', domain] })),
      ).toEqual([{ path: 'params.0.value.1', message: expect.stringContaining('public suffix') }])
  })

  it('a rule that asks for the word `me` of a mail is told what to write instead', async () => {
    expect(await refused('/rules', withParam({ value: 'me' }))).toEqual([
      { path: 'params.0.value', message: expect.stringContaining('`domain_in`') },
    ])
  })

  it('operators and values that there are not, hostile ones among them, are named and never saved', async () => {
    const before = (await ask('GET', '/rules')).body.data.length
    for (const condition of [
      { operator: 'matches' },
      { operator: '__proto__' },
      { operator: 'not_equals' },
      { value: null },
      { value: { toString: 'x' } },
      { operator: 'in', value: [] },
      { operator: 'exists', value: 'true' },
      { param: '' },
      { param: 'a..b' },
      { param: '__proto__.a' },
      { param: 'a.__proto__' },
      { colour: 'red' },
    ])
      for (const issue of await refused('/rules', withParam(condition)))
        expect(issue.path).toMatch(/^params\.0/)
    for (const value of ['a\u0000', '\ud800'])
      expect((await ask('POST', '/rules', withParam({ value }))).status).toBe(400)
    expect((await ask('GET', '/rules')).body.data).toHaveLength(before)
  })
})

describe('`POST .../rules/test`', () => {
  it('“→ the decision with its explanation (`decision`, `reason`, `matched_rules`, ...)”', async () => {
    const draft = { name: 'draft', verdict: 'deny', params: [{ param: 'a', operator: 'equals', value: 'x' }] }
    const trial = async (params: string) =>
      (
        await ask(
          'POST',
          '/rules/test',
          `{"call": {"tool": "mcp__a__b", "params": ${params}}, "rules": [${JSON.stringify(draft)}]}`,
        )
      ).body
    expect(await trial('{"a": "x"}')).toMatchObject({
      decision: 'deny',
      reason: 'draft',
      explanation: 'Rule `draft` denies `mcp__a__b` because `a` is `x`.',
      matched_rules: [{ id: 'draft_0', name: 'draft', verdict: 'deny', shadow: false }],
    })
    for (const params of ['{}', '{"toString": {"a": "x"}}', '{"a": null}'])
      expect(await trial(params)).toMatchObject({
        decision: 'allow',
        reason: 'no rule matched',
        rule_name: null,
      })
  })
})
