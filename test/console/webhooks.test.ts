import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { plain, startPages, type PagesHome } from '../api/console/pages-home.ts'
import { sendAll, verified } from '../governance/webhooks/fixture.ts'
import { inBrowser } from '../support/chromium.ts'
import { startScriptedServer, type ScriptedServer } from '../support/scripted-server.ts'
import { signedInAt, violations } from './support.ts'

/* `/console/webhooks`, and the page of one. */

let home: PagesHome
let receiver: ScriptedServer
beforeAll(async () => {
  receiver = await startScriptedServer()
  home = await startPages({ CONNECTION_HOSTS: new URL(receiver.url).host })
})
afterAll(async () => {
  await home?.server.close()
  await receiver?.close()
})
let status = 204
beforeEach(() => {
  status = 204
  receiver.answer = () => ({ status })
})

const path = '/console/webhooks'
const routes = () => `/organizations/${home.server.identities.organization_id}/webhooks`
const phone = { viewport: { width: 390, height: 844 } }
const make = async (events = ['run.failed']) =>
  (await home.call('owner', 'POST', routes(), { url: `${receiver.url}/secret-path`, events })).body
const remove = (id: string) => home.call('owner', 'DELETE', `${routes()}/${id}`)

describe.each([true, false])('with JavaScript: %s', (javaScriptEnabled) => {
  inBrowser('an owner makes one, tests it, changes its secret, turns it off and deletes it', async () => {
    const { page } = await signedInAt(home.server, 'owner', path, { ...phone, javaScriptEnabled })
    await page.getByText('No program hears of events yet.').waitFor()
    await page.getByLabel('Address').fill('http://user:pw@example.com/')
    await page.getByLabel('A run has completed').check()
    await page.getByRole('button', { name: 'Make the webhook' }).click()
    await page.getByRole('alert').waitFor()
    expect(await page.getByLabel('Address').getAttribute('aria-invalid')).toBe('true')
    expect(await page.getByLabel('A run has completed').isChecked()).toBe(true)
    if (javaScriptEnabled) expect(await violations(page)).toEqual([])
    await page.getByLabel('Address').fill(`${receiver.url}/hook`)
    await page.getByRole('button', { name: 'Make the webhook' }).click()
    await page.getByText('Copy it now.').waitFor()
    const secret = await page.locator('#secret').innerText()
    await page.getByRole('link', { name: 'Go to the webhook' }).click()
    await page.getByText('Nothing was sent yet.').waitFor()
    expect(await page.content()).not.toContain(secret)

    receiver.arrived.length = 0
    await page.getByRole('button', { name: 'Send a test' }).click()
    await page.getByText('A test is on its way.').waitFor()
    await sendAll(home.server.context)
    expect(receiver.arrived.map((each) => verified(secret, each).type)).toEqual(['webhook.test'])
    if (!javaScriptEnabled) await page.reload()
    await page.getByRole('row', { name: /A test.*Arrived/ }).waitFor()
    await page.getByRole('button', { name: 'Send again A test' }).click()
    await page.getByText('The message is sent again.').waitFor()

    await page.locator('summary', { hasText: 'Make a new secret' }).click()
    await page.getByLabel('The present secret').selectOption('604800')
    await page.getByRole('button', { name: 'Make a new secret' }).click()
    await page.getByText('The secret before it also signs').waitFor()
    expect(await page.locator('#secret').innerText()).not.toBe(secret)
    await page.getByRole('link', { name: 'Go to the webhook' }).click()
    await page.getByText('The old secret also signs until').waitFor()
    await page.getByRole('button', { name: 'Turn off' }).click()
    await page.getByText('The webhook is off.').waitFor()
    expect(await page.getByRole('button', { name: 'Send a test' }).count()).toBe(0)
    await page.getByRole('button', { name: 'Turn on' }).click()
    await page.locator('summary', { hasText: 'Delete the webhook' }).click()
    await page.getByRole('button', { name: 'Delete the webhook' }).click()
    await page.getByText('The webhook is deleted.').waitFor()
  })
})

test('an admin sees what failed and not the address, and cannot act; a member is refused', async () => {
  const { id } = await make()
  status = 500
  await home.call('owner', 'POST', `${routes()}/${id}/test`, {})
  await sendAll(home.server.context)
  const list = plain(await home.main(path, 'admin'))
  for (const said of [new URL(receiver.url).host, 'A run has failed', 'Fails', 'The answer was 500'])
    expect(list).toContain(said)
  const main = await home.main(`${path}/${id}`, 'admin')
  for (const said of [
    'Only owners see it',
    'Nothing has arrived for',
    'The answer was 500',
    'last answer 500',
  ])
    expect(plain(main)).toContain(said)
  expect(main).not.toContain('secret-path')
  expect(main).not.toContain('method="post"')
  expect(await home.main(`${path}/${id}`, 'owner')).toContain('secret-path')
  expect((await home.get(path, await home.cookieOf('member'))).status).toBe(403)

  const fields = { token: await home.tokenOf('/console/account', 'admin'), action: 'off' }
  const refused = await home.post(`${path}/${id}`, fields, {}, await home.cookieOf('admin'))
  expect(refused.status).toBe(403)
  expect(plain(await home.main(`${path}/${id}?state=delivered`, 'admin'))).toContain(
    'No message is like this',
  )
  await remove(id)
})

test('a change sends only what is another one now, and undoes nothing of somebody else', async () => {
  const made = await make(['run.failed'])
  const place = `${path}/${made.id}`
  const now = async () => (await home.call('owner', 'GET', `${routes()}/${made.id}`)).body
  const seen = JSON.stringify({ url: made.url, events: ['run.failed'] })
  const save = async (events: string[], url = made.url) => {
    const fields = { token: await home.tokenOf(place, 'owner'), action: 'save', seen, url }
    const sent: [string, string][] = [...Object.entries(fields), ...events.map((event): [string, string] => ['events', event])] // prettier-ignore
    return home.post(place, sent, {}, await home.cookieOf('owner'))
  }
  expect((await save([])).status).toBe(422)
  expect((await save(['run.failed', 'run.denied'])).headers.get('location')).toContain('done=save')
  expect(await now()).toMatchObject({ url: made.url, events: ['run.failed', 'run.denied'] })
  const late = await save(['run.completed'])
  expect([late.status, plain(await late.text())]).toEqual([
    409,
    expect.stringContaining('Somebody else changed it meanwhile'),
  ])
  expect((await now()).events).toEqual(['run.failed', 'run.denied'])
  await remove(made.id)
})
