import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { addPerson, sessionCookie } from '../api/fixtures.ts'
import { plain, startPages, type PagesHome } from '../api/console/pages-home.ts'
import { createPersonalOrganization } from '../../src/governance/people/organizations.ts'
import { inBrowser } from '../support/chromium.ts'
import { mostInvited } from '../../src/contract/plan-limits.ts'
import { signedInAt, violations } from './support.ts'

/* `/console/people`: members and invitations. */

let home: PagesHome
beforeAll(async () => {
  home = await startPages({ SMTP_URL: 'smtp://127.0.0.1:1' })
})
afterAll(() => home?.server.close())

const path = '/console/people'
const phone = { viewport: { width: 390, height: 844 } }
const organization = () => `/organizations/${home.server.identities.organization_id}`
interface Invited {
  readonly id: string
  readonly email: string
  readonly role: string
  readonly status: string
}
const invitations = async (): Promise<Invited[]> =>
  (await home.call('owner', 'GET', `${organization()}/invitations`)).body.data
const openOf = async (email: string) =>
  (await invitations()).filter((each) => each.email === email && each.status === 'pending')

describe.each([true, false])('with JavaScript: %s', (javaScriptEnabled) => {
  inBrowser('an owner invites several people, sends one again, and withdraws it', async () => {
    const { page } = await signedInAt(home.server, 'owner', path, { ...phone, javaScriptEnabled })
    const at = `${javaScriptEnabled}.larkspur.example`
    const mina = `mina@${at}`
    await page.getByLabel('Addresses').fill(`${mina}, nora@${at}\nnobody\n${mina}`)
    await page.locator('#role').selectOption('admin')
    await page.getByRole('button', { name: 'Send the invitations' }).click()

    // Two are sent. The third stays, with what is wrong.
    await page.getByRole('alert').getByText('2 of 3 invitations were sent').waitFor()
    expect(await page.getByLabel('Addresses').inputValue()).toBe('nobody')
    expect(await page.getByLabel('Addresses').getAttribute('aria-invalid')).toBe('true')
    expect(await page.locator('#addresses-wrong').textContent()).toContain('nobody')
    if (javaScriptEnabled) expect(await violations(page)).toEqual([])
    const [first] = await openOf(mina)
    expect([first?.role, (await openOf(`nora@${at}`)).length]).toEqual(['admin', 1])

    await page.getByRole('button', { name: `Send again to ${mina}` }).click()
    await page.getByText('A new mail is on its way').waitFor()
    const again = await openOf(mina)
    expect([again.length, again[0]?.role, again[0]?.id === first?.id]).toEqual([1, 'admin', false])
    await page.getByRole('button', { name: `Withdraw the one to ${mina}` }).click()
    await page.getByText('The invitation is withdrawn').waitFor()
    expect(await openOf(mina)).toEqual([])
  })

  inBrowser('an owner makes a service account, gives it a key, and deletes it', async () => {
    const { page } = await signedInAt(home.server, 'owner', path, { ...phone, javaScriptEnabled })
    const name = `nightly ${javaScriptEnabled}`
    await page.getByLabel('Name', { exact: true }).fill(name)
    await page.getByRole('button', { name: 'Create the service account' }).click()
    await page.getByText('The service account is made').waitFor()
    if (javaScriptEnabled) expect(await violations(page)).toEqual([])
    const row = page.getByRole('row', { name })
    await row.locator('summary', { hasText: 'Change' }).click()
    await row.getByRole('link', { name: 'Create a key for it' }).click()
    await page.getByText('acts as the service account').waitFor()
    expect(await page.getByLabel('approve and reject').count()).toBe(0)
    await page.getByLabel('Name', { exact: true }).fill('cron')
    await page.getByLabel('read runs', { exact: true }).check()
    await page.getByRole('button', { name: 'Create the key' }).click()
    const key = (await page.locator('#secret').textContent()) ?? ''
    const me = await home.server.call(key, 'GET', '/me')
    expect(me.body.user.name).toBe(name)

    await page.goto(`${home.server.base}/console/keys`)
    await page.getByText(`${name} (service account)`).waitFor()
    await page.goto(home.server.base + path)
    await row.locator('summary', { hasText: 'Change' }).click()
    await row.locator('summary', { hasText: 'Delete' }).click()
    await row.getByRole('button', { name: 'Delete the service account' }).click()
    await page.getByText('The service account is deleted').waitFor()
    expect((await home.server.call(key, 'GET', '/me')).status).toBe(401)
  })

  inBrowser('an owner changes a role and removes a member, but not the last owner', async () => {
    const { page } = await signedInAt(home.server, 'owner', path, { ...phone, javaScriptEnabled })
    const who = javaScriptEnabled ? 'viewer' : 'member'
    const { email } = home.server.identities.users[who]
    const row = page.getByRole('row', { name: email })
    await row.locator('summary', { hasText: 'Change' }).click()
    await row.getByLabel('Role').selectOption('admin')
    await row.getByRole('button', { name: 'Save the role' }).click()
    await page.getByText('The role is changed').waitFor()
    expect(await row.textContent()).toContain('Admin')

    await row.locator('summary', { hasText: 'Change' }).click()
    await row.locator('summary', { hasText: 'Remove' }).click()
    await row.getByRole('button', { name: 'Remove from the organization' }).click()
    await page.getByText('The person is no member any more').waitFor()
    expect(await row.count()).toBe(0)

    const own = page.getByRole('row', { name: home.server.identities.users.owner.email })
    await own.locator('summary', { hasText: 'Change' }).click()
    await own.getByLabel('Role').selectOption('viewer')
    await own.getByRole('button', { name: 'Save the role' }).click()
    await page.getByRole('alert').getByText('owner').waitFor()
    expect(await own.textContent()).toContain('Owner')
  })
})

inBrowser('an owner makes a service account, and gives it another name and role', async () => {
  const { page } = await signedInAt(home.server, 'owner', path)
  const form = page
    .locator('form')
    .filter({ has: page.getByRole('button', { name: 'Create the service account' }) })
  await form.getByLabel('Name').fill('nightly')
  await form.getByRole('button').click()
  const row = page.getByRole('row', { name: 'nightly' })
  await row.locator('summary', { hasText: 'Change' }).click()
  await row.getByLabel('Name').fill('hourly')
  await row.getByLabel('Role').selectOption('viewer')
  await row.getByRole('button', { name: 'Save name and role' }).click()
  await page.getByText('Name and role are saved').waitFor()
  expect(await page.getByRole('row', { name: 'hourly' }).textContent()).toContain('Viewer')
})

const send = async (more: Record<string, string>, who: 'owner' | 'admin' = 'owner') =>
  home.post(
    path,
    {
      token: await home.tokenOf(who === 'owner' ? path : '/console/account', who),
      organization_id: home.server.identities.organization_id,
      role: 'member',
      ...more,
    },
    {},
    await home.cookieOf(who),
  )

test('a form that is sent twice invites once', async () => {
  const once = crypto.randomUUID()
  const form = { action: 'invite', once, addresses: 'twice@larkspur.example' }
  expect((await send(form)).status).toBe(303)
  const before = await openOf('twice@larkspur.example')
  expect((await send(form)).status).toBe(303)
  expect(await openOf('twice@larkspur.example')).toEqual(before)
})

test('too many addresses are refused together, and none is invited', async () => {
  const addresses = Array.from({ length: mostInvited + 1 }, (_, at) => `p${at}@many.example`).join('\n')
  const answer = await send({ action: 'invite', addresses })
  expect([answer.status, (await answer.text()).includes(`one to ${mostInvited} addresses`)]).toEqual([
    422,
    true,
  ])
  expect((await invitations()).filter(({ email }) => email.endsWith('@many.example'))).toEqual([])
})

test('an admin is told whom to ask, and changes nothing', async () => {
  const { user_id: user } = home.server.identities.users.approver
  const page = await home.get(path, await home.cookieOf('admin'))
  expect([page.status, (await page.text()).includes('Only owners see')]).toEqual([403, true])
  expect((await send({ action: 'remove', user_id: user }, 'admin')).status).toBe(403)
  const members = (await home.call('owner', 'GET', `${organization()}/members`)).body.data
  expect(members.map(({ user_id }: { user_id: string }) => user_id)).toContain(user)
})

test('a person in no organization makes one on the page of their organizations, and switches to it', async () => {
  const { server } = home
  const { userId } = await addPerson(server.context, server.identities.organization_id, 'member')
  await server.context.pool.query('delete from memberships where user_id = $1', [userId])
  const cookie = await sessionCookie(server.context, userId)
  const account = '/console/organizations'
  const page = async (at = account) => (await home.get(at, cookie)).text()
  const empty = await page()
  expect(plain(empty)).toContain('You are in no organization.')
  expect(empty).toContain('href="/console/organizations"')
  expect((await home.get('/console/', cookie)).headers.get('location')).toBe(account)
  // As at sign-up.
  await createPersonalOrganization(server.context, {
    id: userId,
    name: 'Nora',
    email: 'nora@larkspur.example',
  })
  const alone = 'You are in no organization with others.'
  expect(plain(await page('/console/approvals'))).toContain(alone)
  const [, token = ''] = /name="token" value="([\w-]+)"/.exec(empty) ?? []
  const send = (name: string) => home.post(account, { token, action: 'organization', name }, {}, cookie)
  const refused = await send('')
  expect(refused.status).toBe(422)
  expect(plain(await refused.text())).toContain('Name of the new organization: Must not be empty.')
  for (const name of ['Larkspur', 'Marigold']) {
    const made = (await send(name)).headers.get('location') ?? ''
    expect(plain(await page(made.split('#')[0]))).toContain(`${name} is made, and you are its owner.`)
  }
  const row =
    ((await page()).split('<main')[1] ?? '').split('<tr>').find((each) => each.includes('>Marigold<')) ?? ''
  const [, id = ''] = /name="organization_id" value="(org_\w+)"/.exec(row) ?? []
  const switched = await home.post('/console/organization', { token, organization_id: id }, {}, cookie)
  const chosen = switched.headers.getSetCookie().map((each) => each.split(';')[0])
  const shown = await (await home.get(path, [cookie, ...chosen].join('; '))).text()
  expect(plain(shown)).toContain('Organization: Marigold')
  expect(plain(await page('/console/approvals'))).not.toContain(alone)
})
