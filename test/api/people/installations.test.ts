import { describe, expect, test } from '@jest/globals'
import { setConnection } from '../../../src/governance/tools/connections.ts'
import type { SmtpSink } from '../../support/smtp-sink.ts'
import { addKey, addOrganization, aDefinition, everyScope } from '../fixtures.ts'
import type { TestServer } from '../server.ts'
import { mailTo, resetOf, type SignedIn, signedUp, useMailingServer } from '../signed-in.ts'
import { codeOf } from '../use-server.ts'

/* An installation that strangers can reach: the defaults of staging and production, with open sign-up. */

let server: TestServer
let sink: SmtpSink
useMailingServer((...both) => ([server, sink] = both), {
  APP_ENV: 'staging',
  SIGN_UP: 'open',
  ORGANIZATIONS_PER_PERSON: '2',
  QUOTA_OVERRIDES: 'operator',
})

/** A person who has signed up, and a function that confirms their address. */
async function stranger(): Promise<SignedIn & { confirm: () => Promise<unknown> }> {
  const person = await signedUp(server)
  const confirm = () =>
    server.context.pool.query('update users set email_verified = true where id = $1', [person.id])
  return { ...person, confirm }
}
const confirmed = async () => {
  const person = await stranger()
  await person.confirm()
  return person
}

const read = { tool_name: 'Read', tool_input: { file_path: '/tmp/x' } }
const ask = (session_id: string) => ({ agent: { name: 'a', kind: 'test' }, session_id, ...read })

const organizations = async (where: string, ...values: string[]): Promise<number> =>
  (await server.context.pool.query(`select from organizations where ${where}`, values)).rowCount ?? -1
const workflow = { name: 'w', definition: aDefinition }
const allOrganizations = () => organizations('true')

describe('a person whose address is not confirmed', () => {
  test('cannot start a run, learns what to do, and leaves an audit entry but no run', async () => {
    const { at, confirm } = await stranger()
    const { id, organization_id: home } = (await at.send('POST', '/workflows', workflow)).body
    const execute = () => at.send('POST', `/workflows/${id}/execute?wait=0`, { inputs: { to: 'me' } })
    const { status, body } = await execute()
    expect([status, body.error.code]).toEqual([403, 'run_denied'])
    expect(body.error.message).toContain('confirm your address first')
    expect((await at.send('GET', '/runs')).body.data).toEqual([])
    const { events } = (await at.send('GET', `/organizations/${home}/governance/audit`)).body
    expect(events[0]).toMatchObject({
      event_type: 'workflow.refused',
      metadata: { reason: 'address not confirmed' },
    })
    await confirm()
    expect((await execute()).status).toBe(202)
  })

  test('is denied as an agent, by authorize and by the hook, until it is confirmed', async () => {
    const { at, confirm } = await stranger()
    const hook = { hook_event_name: 'PreToolUse', session_id: 'hook', ...read }
    const decisions = async (n: number) => [
      (await at.send('POST', '/authorize', ask(`s${n}`))).body.decision,
      (await at.send('POST', '/hooks/claude-code', hook)).body.hookSpecificOutput?.permissionDecision ??
        'allow',
    ]
    expect((await at.send('POST', '/authorize', ask('s'))).body).toMatchObject({
      decision: 'deny',
      reason: 'address not confirmed',
    })
    expect(await decisions(1)).toEqual(['deny', 'deny'])
    await confirm()
    expect((await decisions(2))[0]).toBe('allow')
  })

  test('is denied with a key too, however it was made', async () => {
    const { at, id, confirm } = await stranger()
    const home = (await at.send('GET', '/me')).body.organization_id
    const { secret } = await addKey(server.context, home, id, everyScope)
    const asked = async (n: number) => (await server.call(secret, 'POST', '/authorize', ask(`k${n}`))).body
    expect(await asked(1)).toMatchObject({ decision: 'deny', reason: 'address not confirmed' })
    await confirm()
    expect(await asked(2)).toMatchObject({ decision: 'allow' })
  })

  test('cannot make an organization', async () => {
    const { at, confirm } = await stranger()
    const make = () => at.send('POST', '/organizations', { name: 'Eve' })
    const before = await allOrganizations()
    expect((await make()).body.error).toMatchObject({ code: 'conflict' })
    expect(await allOrganizations()).toBe(before)
    await confirm()
    expect((await make()).status).toBe(201)
  })
})

describe('organizations of one person', () => {
  test('a row left by a crash does not count: the next request takes it', async () => {
    const { at, id } = await confirmed()
    const { combiner } = server.context
    const make = (name: string) => at.send('POST', '/organizations', { name })
    Object.assign(server.context, { combiner: { run: () => Promise.reject(new Error('died')) } })
    expect((await make('Lost').finally(() => Object.assign(server.context, { combiner }))).status).toBe(500)
    expect(await made(id)).toBe(1)
    const later = `update organizations set created_at = now() - interval '2 hours' where created_by = $1`
    await server.context.pool.query(later, [id])
    const found = await make('Found')
    expect([found.status, found.body.name]).toEqual([201, 'Found'])
    expect(await made(id)).toBe(1)
    await server.context.pool.query(later, [id])
    expect((await make('Second')).status).toBe(201)
    expect((await make('Third')).status).toBe(429)
  })

  const made = (id: string) => organizations('created_by = $1', id)

  test('never exceed the limit, even with simultaneous requests; a refusal leaves no row', async () => {
    const { at, id } = await confirmed()
    const had = await allOrganizations()
    const answers = await Promise.all(
      Array.from({ length: 8 }, (_, n) => at.send('POST', '/organizations', { name: `O ${n}` })),
    )
    expect(answers.map(({ status }) => `${status}`).sort()).toEqual([
      ...Array<string>(2).fill('201'),
      ...Array<string>(6).fill('429'),
    ])
    const refused = answers.find(({ status }) => status === 429)
    expect(refused?.body.error).toMatchObject({
      code: 'quota_exceeded',
      details: [{ path: 'organizations_per_person', message: 'the limit is 2' }],
    })
    expect(refused?.headers.get('retry-after')).toBe('86400')
    expect(await made(id)).toBe(2)
    expect(await allOrganizations()).toBe(had + 2)
    // The personal organization does not count for the limit. Leaving an organization does not free a place.
    const { organizations } = (await at.send('GET', '/me')).body
    expect(organizations).toHaveLength(3)
    const own = organizations.find((each: { personal: boolean }) => !each.personal)
    await server.context.pool.query('delete from memberships where organization_id = $1', [own.id])
    expect((await at.send('POST', '/organizations', { name: 'One more' })).status).toBe(429)
    expect(await allOrganizations()).toBe(had + 2)
  })

  test('requested again with the same Idempotency-Key count once', async () => {
    const { at, id } = await confirmed()
    const make = () => at.send('POST', '/organizations', { name: 'O' }, { 'idempotency-key': 'one' })
    const [first, again] = [await make(), await make()]
    expect(again.body).toEqual(first.body)
    expect(await made(id)).toBe(1)
  })
})

describe('an organization without the mail server of the installation', () => {
  test('learns from a preview that `mail_send` is not available', async () => {
    const { owner } = await addOrganization(server.context)
    const { id } = (await server.call(owner.key, 'POST', '/workflows', workflow)).body
    const path = `/workflows/${id}/authorization-preview`
    const preview = await server.call(owner.key, 'POST', path, { inputs: { to: 'ann@acme.test' } })
    expect(preview.status).toBe(200)
    const step = preview.body.steps.find((each: { tool: string }) => each.tool === 'mail_send')
    expect(step).toMatchObject({
      step_id: 'send',
      connected: false,
      available: false,
      unavailable_because: expect.stringContaining('npm run connect-installation'),
    })
    expect(sink.deliveries.filter(({ recipients }) => recipients.includes('ann@acme.test'))).toEqual([])
  })

  test('still mails invitations, and new passwords to its people', async () => {
    const { id, owner } = await addOrganization(server.context)
    const invitation = { email: 'ben@elsewhere.test', role: 'member' }
    const path = `/organizations/${id}/invitations`
    expect((await server.call(owner.key, 'POST', path, invitation)).status).toBe(201)
    await mailTo(sink, 'ben@elsewhere.test', 'An invitation to Countersign')
    await resetOf(server, sink, (await stranger()).email)
  })
})

test('if only the operator sets limits, the refusal names the command', async () => {
  const { users, organization_id: id } = server.identities
  const quota = (method: string, body?: object) =>
    server.call(users.owner.api_key, method, `/organizations/${id}/quota`, body)
  const answer = await quota('PATCH', { memory_mb: 1 })
  expect(codeOf(answer)).toBe('403 insufficient_role')
  expect(answer.body.error.message).toContain(`npm run set-plan -- ${id} PLAN`)
  expect((await quota('GET')).body.overrides).not.toHaveProperty('memory_mb')
})

describe('the tools of an installation', () => {
  /* The tools of an installation that strangers share: each organization has only those that the operator connected. */

  const tools = async (key: string, query = '') => {
    const { data } = (await server.call(key, 'GET', `/tools${query}`)).body
    const shown = data as Record<'connected' | 'needs_connection' | 'available' | 'name', unknown>[]
    return Object.fromEntries(
      shown
        .filter(({ name }) => /^(file_read|mail_send|memory_[gs]et)$/.test(`${name}`))
        .map((tool) => [
          tool.name,
          `${tool.needs_connection ? 'needs' : 'free'} ${tool.connected ? 'connected' : '-'} ${tool.available ? 'works' : '-'}`,
        ]),
    )
  }
  const memory = { memory_get: 'free connected works', memory_set: 'free connected works' }

  test('the tools are shown for the organization in the request', async () => {
    const { users, organization_id: ours } = server.identities
    const { id, owner } = await addOrganization(server.context)
    const whole = { ...memory, file_read: 'needs connected works', mail_send: 'needs connected works' }
    expect(await tools(users.member.api_key)).toEqual(whole)
    expect(await tools(owner.key)).toEqual({ ...memory, file_read: 'needs - -', mail_send: 'needs - -' })
    const one = await server.call(owner.key, 'GET', '/tools/mail_send')
    expect(one.body).toMatchObject({
      available: false,
      unavailable_because: expect.stringContaining('npm run connect-installation'),
    })
    await setConnection(server.context, id, 'file_read', true)
    expect(await tools(owner.key)).toEqual({
      ...memory,
      file_read: 'needs connected works',
      mail_send: 'needs - -',
    })
    // If a person is a member of two organizations, the answer depends on the organization named in the request.
    const membership = { organization_id: id, user_id: users.member.user_id, role: 'member' as const }
    await server.context.db.insertInto('memberships').values(membership).execute()
    expect((await tools(users.member.api_key, `?organization_id=${id}`))['mail_send']).toBe('needs - -')
    expect(await tools(users.member.api_key, `?organization_id=${ours}`)).toEqual(whole)
  })

  test('a saved workflow warns about groups that do not exist', async () => {
    const ask = { to: { group: 'nobody' }, title: 't', choices: ['a', 'b'] }
    const escalate = [
      { after_seconds: 600, to: 'owner' },
      { after_seconds: 700, to: { group: 'none' } },
    ]
    const definition = { steps: [{ id: 's', ask: { ...ask, escalate } }] }
    const key = server.identities.users.owner.api_key
    const saved = await server.call(key, 'POST', '/workflows', { name: 'asks', definition })
    expect(saved.body.warnings).toEqual([
      {
        path: 'steps.0.ask.to.group',
        message: 'step `s` would ask nobody: there is no group `nobody`',
      },
      {
        path: 'steps.0.ask.escalate.1.to.group',
        message: 'step `s` would ask nobody: there is no group `none`',
      },
    ])
  })

  test('a saved workflow warns about steps that would fail', async () => {
    const { owner } = await addOrganization(server.context)
    const saved = await server.call(owner.key, 'POST', '/workflows', workflow)
    expect(saved.status).toBe(201)
    expect(saved.body.warnings.map((each: { path: string }) => each.path)).toEqual([
      'steps.0.tool',
      'steps.1.tool',
    ])
    const path = `/workflows/${saved.body.id}`
    const change = (body: object) => server.call(owner.key, 'PUT', path, body)
    expect((await change({ definition: aDefinition })).body.warnings).toHaveLength(2)
    const { users, organization_id } = server.identities
    for (const { body } of [
      await change({ name: 'v' }),
      await server.call(owner.key, 'GET', path),
      await server.call(users.owner.api_key, 'POST', '/workflows', { ...workflow, organization_id }),
    ])
      expect(body.warnings).toBeUndefined()
  })
})
