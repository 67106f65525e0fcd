import { beforeAll, describe, expect, test } from '@jest/globals'
import { newId } from '../../../src/contract/ids.ts'
import { addPerson } from '../fixtures.ts'
import type { Answer, TestServer } from '../server.ts'
import { codeOf, useServer } from '../use-server.ts'

/* What happens while a change waits for a second person. */

let server: TestServer
const { as, ours, personOf } = useServer((started) => (server = started))
let other: { key: string }
beforeAll(async () => {
  other = await addPerson(server.context, server.identities.organization_id, 'owner')
  const settings = {
    approvals_enabled: true,
    default_tool_access: 'deny',
    approval_threshold: 2,
    loosening: 'second_person',
  }
  expect((await ours('owner', 'PATCH', '/governance', settings)).status).toBe(200)
})

const held = async (asked: Promise<Answer>): Promise<string> => {
  const { status, body } = await asked
  expect([status, body]).toMatchObject([202, { change: { status: 'pending' } }])
  return body.change.id
}
const approve = (id: string) => server.call(other.key, 'POST', `/approvals/${id}/approve`, {})
const tool = (prefix = 'mcp__s__') => `${prefix}${newId('rule').toLowerCase()}`
const saved = async (body: object, path = '/rules'): Promise<string> => {
  const { status, body: made } = await ours('admin', 'POST', path, { name: newId('rule'), ...body })
  expect(status).toBe(201)
  return made.id
}

describe('a rule whose own change waits proves nothing for others', () => {
  const labels = { add_labels: ['secret'] }
  test.each<[string, string, object, object]>([
    ['a rule', '/rules', { verdict: 'deny', tools: [tool('mcp__bank__')] }, { verdict: 'deny', tools: ['mcp__bank__*'] }],
    ['a label rule', '/label-rules', { ...labels, tools: ['mail_send'] }, { ...labels, tools: ['mail_*'] }],
  ])('%s', async (_, path, narrow, wide) => {
    const [one, all] = [await saved(narrow, path), await saved(wide, path)]
    const change = await held(ours('admin', 'DELETE', `${path}/${all}`))
    const { status, body } = await ours('admin', 'DELETE', `${path}/${one}`)
    expect([status, body.change.why.at(-1)]).toEqual([202, 'a rule whose own change waits does not count'])
    expect((await as('admin', 'POST', `/approvals/${change}/withdraw`, {})).status).toBe(200)
    // Now the wide one surely stays.
    expect((await ours('admin', 'DELETE', `${path}/${one}`)).status).toBe(204)
  }) // prettier-ignore
})

const changedMeanwhile = 'what it would change was changed meanwhile: ask for the change again'
const isWithdrawn = async (id: string, message: string) => {
  const answer = await approve(id)
  expect([codeOf(answer), answer.body.error.message]).toEqual(['409 conflict', message])
  expect((await as('owner', 'GET', `/approvals/${id}`)).body.status).toBe('cancelled')
}

describe('a change that excludes a label is withdrawn once other data gets the label', () => {
  const label = () => newId('labelRule').toLowerCase()
  const adds = (...add_labels: string[]) => ({ tools: ['mail_send'], add_labels })
  test.each<[string, string, object]>([
    ['a rule', '/rules', { verdict: 'deny', tools: [tool()] }],
    ['a label rule', '/label-rules', adds(label())],
  ])('%s', async (_, path, body) => {
    const excluded = label()
    const rule = await saved(body, path)
    const id = await held(ours('admin', 'PATCH', `${path}/${rule}`, { labels: { none_of: [excluded] } }))
    await saved(adds(excluded), '/label-rules')
    await isWithdrawn(id, changedMeanwhile)
  })

  test('also if a label rule that it relies on already is fed', async () => {
    const [excluded, between] = [label(), label()]
    await saved({ add_labels: [excluded], labels: { any_of: [between] } }, '/label-rules')
    const rule = await saved({ verdict: 'deny', tools: [tool()] })
    const ask = () => held(ours('admin', 'PATCH', `/rules/${rule}`, { labels: { none_of: [excluded] } }))
    const id = await ask()
    await saved(adds(between), '/label-rules')
    await isWithdrawn(id, changedMeanwhile)
    const next = await ask()
    await saved(adds(label()), '/label-rules')
    expect((await approve(next)).status).toBe(200)
  })
})

test('a change to a hold is withdrawn once a new rule would take people from it', async () => {
  const tools = [tool()]
  const rule = await saved({ verdict: 'deny', tools })
  const ask = () => held(ours('admin', 'PATCH', `/rules/${rule}`, { verdict: 'require_approval' }))
  const id = await ask()
  const { name: group } = await newGroup()
  const other = await saved({ verdict: 'require_approval', tools, approver: { group } })
  await isWithdrawn(id, looserMeanwhile)
  const next = await ask()
  const { name } = (await ours('admin', 'GET', `/rules/${other}`)).body
  const { why } = (await as('approver', 'GET', `/approvals/${next}`)).body.params
  expect(why).toContainEqual(expect.stringContaining(`with \`${name}\`, of 2 people, fewer`))
  expect((await approve(next)).status).toBe(200)
})

const looserMeanwhile =
  'with what was changed meanwhile, it would do more than its reasons say: ask for the change again'

describe('a change is withdrawn once it would loosen more than its reasons say', () => {
  const person = () => personOf('approver').userId
  test('who leaves a group would escape another block', async () => {
    const { id, name } = await newGroup()
    const block = () =>
      ours('owner', 'POST', '/tool-policies', { tool_name: tool(), role: name, allowed: false })
    await block()
    const change = await held(ours('owner', 'DELETE', `/groups/${id}/members/${person()}`))
    await block()
    await isWithdrawn(change, looserMeanwhile)
  })

  test('who joins a group would decide another rule', async () => {
    const { id, name } = await newGroup(newId('group').toLowerCase(), 'viewer')
    const hold = () => saved({ verdict: 'require_approval', tools: [tool()], approver: { group: name } })
    await hold()
    const change = await held(ours('owner', 'PUT', `/groups/${id}/members/${person()}`))
    await hold()
    await isWithdrawn(change, looserMeanwhile)
  })
})

interface Group {
  readonly id: string
  readonly name: string
}
const newGroup = async (name = newId('group').toLowerCase(), who: 'approver' | 'viewer' = 'approver') =>
  (await ours('owner', 'POST', '/groups', { name, members: [personOf(who).userId] })).body as Group

describe('a change is withdrawn once a group that it names is another one', () => {
  const asks: readonly [string, (group: Group) => Promise<Answer>][] = [
    ['a rule', async ({ name }) => {
      const rule = await saved({ verdict: 'require_approval', tools: [tool()] })
      return ours('admin', 'PATCH', `/rules/${rule}`, { approver: { group: name } })
    }],
    ['a tool policy', ({ name }) => ours('owner', 'POST', '/tool-policies', { tool_name: tool(), role: name, allowed: true })],
    ['an override', ({ name }) => ours('owner', 'POST', '/role-policy-overrides', { tool_name: tool(), role: name, allowed: true })],
    ['another name of the group', async ({ id }) => {
      const named = newId('group').toLowerCase()
      await ours('owner', 'POST', '/role-policy-overrides', { tool_name: tool(), role: named, allowed: false })
      await held(ours('owner', 'POST', '/role-policy-overrides', { tool_name: tool(), role: named, allowed: true })).then(approve)
      return ours('owner', 'PATCH', `/groups/${id}`, { name: named })
    }],
  ] // prettier-ignore
  const meanwhile: readonly [string, (group: Group) => Promise<unknown>][] = [
    ['by a new member', ({ id }) => ours('owner', 'PUT', `/groups/${id}/members/${personOf('viewer').userId}`)],
    ['made again', async ({ id, name }) => {
      expect((await ours('owner', 'DELETE', `/groups/${id}`)).status).toBe(204)
      await newGroup(name, 'viewer')
    }],
    ['gone', ({ id }) => ours('owner', 'DELETE', `/groups/${id}`)],
  ] // prettier-ignore
  test.each(asks.flatMap(([what, ask]) => meanwhile.map(([how, act]) => [`${what}, ${how}`, ask, act] as const)))(
    '%s',
    async (_, ask, act) => {
      const group = await newGroup()
      const id = await held(ask(group))
      await act(group)
      await isWithdrawn(id, changedMeanwhile)
    },
  ) // prettier-ignore

  test('and it is made, and shows the members, if they are the same', async () => {
    const group = await newGroup()
    const id = await held(asks[0]?.[1](group) as Promise<Answer>)
    const { params } = (await as('approver', 'GET', `/approvals/${id}`)).body
    expect(params.groups).toEqual([{ name: group.name, members: ['approver@countersign.test'] }])
    expect((await approve(id)).status).toBe(200)
  })
})
