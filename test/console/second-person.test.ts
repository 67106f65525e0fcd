import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { newId } from '../../src/contract/ids.ts'
import { addPerson } from '../api/fixtures.ts'
import { plain, startPages, type PagesHome } from '../api/console/pages-home.ts'

/* Pages while `loosening` is `second_person`: a form whose change waits leads to its approval. */

let home: PagesHome
const organization = () => `/organizations/${home.server.identities.organization_id}`
const person = (who: 'viewer' | 'member') => home.server.identities.users[who].user_id
const emailOf = (who: 'viewer' | 'owner' | 'admin' | 'approver') => home.server.identities.users[who].email
const list = '/console/approvals'

let group: string
let rule: string
beforeAll(async () => {
  home = await startPages()
  const make = async (who: 'owner' | 'admin', path: string, body: object) => {
    const made = await home.call(who, 'POST', `${organization()}${path}`, body)
    expect(made.status).toBe(201)
    return made.body.id as string
  }
  group = await make('owner', '/groups', { name: 'interns', members: [person('viewer')] })
  await make('owner', '/tool-policies', { tool_name: 'mail_send', role: 'interns', allowed: false })
  const held = { name: 'wait', verdict: 'require_approval', tools: ['mail_send'] }
  rule = await make('admin', '/rules', { ...held, approver: { group: 'interns' } })
  await addPerson(home.server.context, home.server.identities.organization_id, 'owner')
  const set = await home.settings({ approvals_enabled: false, loosening: 'second_person' })
  expect(set.status).toBe(200)
})
afterAll(() => home?.server.close())

const send = async (path: string, fields: [string, string][]): Promise<Response> => {
  const token = await home.tokenOf('/console/account', 'owner')
  return home.post(path, [['token', token], ...fields], {}, await home.cookieOf('owner'))
}

const changes = (): Record<string, () => [string, Record<string, string>]> => ({
  'a member leaves a blocked group': () => [
    `/console/groups/${group}`,
    { action: 'remove', member: person('viewer') },
  ],
  'a member joins a group that decides': () => [
    `/console/groups/${group}`,
    { action: 'add', member: person('member') },
  ],
  'approvals are turned on': () => ['/console/rules', { action: 'approvals-on' }],
  'a rule is deleted': () => [`/console/rules/${rule}`, { action: 'delete' }],
  'a provider is set up': () => [
    '/console/provider',
    {
      ...{ action: 'save', kind: 'oidc', issuer: 'https://login.acme.example', client_id: 'c' },
      ...{ client_secret: 's', domains: 'acme.example', default_role: 'admin' },
    },
  ],
})

test.each(Object.entries(changes()))('%s', async (_, change) => {
  const [path, fields] = change()
  const place = (await send(path, Object.entries(fields))).headers.get('location') ?? ''
  expect(place).toMatch(/^\/console\/approvals\/apr_\w+$/)
  expect((await home.call('owner', 'GET', place.replace('/console', ''))).body).toMatchObject({
    kind: 'change',
    status: 'pending',
  })
})

test('a change that waits is shown at its rule or group, and marked in the lists', async () => {
  for (const [list, id, title] of [
    ['/console/rules', rule, 'Delete the rule wait'],
    ['/console/groups', group, `Take ${emailOf('viewer')} out of the group interns`],
  ] as const) {
    const page = await home.main(`${list}/${id}`, 'owner')
    expect(plain(page)).toMatch(/(A change waits|Changes wait) for a second person/)
    expect(plain(page)).toContain(`${title}, asked for by ${emailOf('owner')}`)
    const row = (await home.main(list, 'owner')).split('<tr>').find((each) => each.includes(`/${id}"`)) ?? ''
    const [link] = /\/console\/approvals\/apr_\w+/.exec(row) ?? []
    expect(plain(row)).toContain('A change waits')
    expect(page).toContain(`href="${link}"`)
    expect((await home.get(link ?? '', await home.cookieOf('owner'))).status).toBe(200)
  }
})

test('a change is read as code, without marks on the indentation, and its version says who approved it', async () => {
  const path = `${organization()}/rules/${rule}`
  const { body } = await home.call('admin', 'PATCH', path, { status: 'shadow' })
  const page = await home.main(`/console/approvals/${body.change.id}`)
  expect(page).toContain('diff-line')
  expect(plain(page).split('Exactly as it was asked for')[0]).not.toMatch(/\d blanks|`/)
  expect(page).toMatch(/<h1>.{0,200}<code class="quoted">.{0,60}wait/s)
  expect(plain(await home.main('/console/approvals'))).toContain('Change the rule wait')
  expect((await home.call('approver', 'POST', `/approvals/${body.change.id}/approve`, {})).status).toBe(200)
  const rows = plain(await home.main(`/console/rules/${rule}`, 'member')).split('Version 2')
  expect(rows[1]).toContain(`${emailOf('admin')}, approved by ${emailOf('approver')}`)
  expect(rows[1]?.match(/approved by/g)).toHaveLength(1)
  const versions = await home.call('member', 'GET', `${path}/versions`)
  expect(
    versions.body.data.map((each: { approved_by_email: string | null }) => each.approved_by_email),
  ).toEqual([emailOf('approver'), null])
})

test('a token of the directory is shown once, with the approval that it waits for', async () => {
  const given = [home.server.identities.organization_id]
  await home.server.context.pool.query(
    `insert into sign_in_providers (organization_id, issuer, client_id, client_secret_sealed, secret_version, role_map, group_map, checks_factor, created_at, updated_at)
     values ($1, 'https://login.acme.example', 'c', '', 'v', '{}', '{}', false, now(), now())`,
    given,
  )
  await home.server.context.pool.query(
    `insert into sign_in_domains (organization_id, domain, proof, proven_at, proven_by)
     values ($1, 'acme.example', 'x', now(), 'operator')`,
    given,
  )
  const made = await send('/console/provider', [
    ['action', 'token-create'],
    ['token_name', 'Okta'],
    ['once', newId('scimToken')],
  ])
  const page = await made.text()
  expect(page).toMatch(/csm_[\w-]{43}/)
  expect(page).toMatch(/It counts once another owner has approved it: <a href="\/console\/approvals\/apr_/)
})

test('changes are not approved together, unseen', async () => {
  const { body } = await home.call('approver', 'GET', '/approvals?kind=change&status=pending')
  const ids: string[] = body.data.map(({ id }: { id: string }) => id)
  expect(ids.length).toBeGreaterThan(1)
  const page = await home.main(list)
  expect([page.includes('open it to decide'), page.includes('type="checkbox"')]).toEqual([true, false])
  const token = await home.tokenOf('/console/account')
  const fields = ids.map((id): [string, string] => ['id', id])
  const refused = await home.post(list, [['token', token], ['decision', 'approve'], ...fields])
  expect(refused.status).toBe(422)
  expect(await refused.text()).toContain('Changes are approved one by one: open it')
  for (const id of ids) expect(await home.approvalOf(id)).toMatchObject({ status: 'pending', votes: [] })
})
