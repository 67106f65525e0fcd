import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { plain, startPages, type PagesHome } from '../api/console/pages-home.ts'
import { inBrowser } from '../support/chromium.ts'
import { signedInAt, violations } from './support.ts'

/* `/console/data`: files are uploaded and deleted, and values of the memory are written, read and deleted. */

let home: PagesHome
beforeAll(async () => {
  home = await startPages()
})
afterAll(() => home?.server.close())

const path = '/console/data'
const all = async (list: string) => (await home.call('member', 'GET', `/${list}`)).body.data

describe.each([true, false])('with JavaScript: %s', (javaScriptEnabled) => {
  const phone = { viewport: { width: 390, height: 844 } }

  inBrowser('a member uploads a file after a refusal, and deletes it', async () => {
    const { page } = await signedInAt(home.server, 'member', path, { ...phone, javaScriptEnabled })
    await page.getByText('There is no file yet').waitFor()
    const upload = page.locator('form', { hasText: 'Upload a file' })
    const file = (name: string) => ({ name, mimeType: 'text/csv', buffer: Buffer.from('name\nAnn\n') })
    await upload.getByLabel('File').setInputFiles(file('people.csv'))
    await upload.getByLabel('Labels').fill('Not a label!')
    await upload.getByRole('button', { name: 'Upload' }).click()
    await page.getByRole('alert').waitFor()
    expect(await upload.getByLabel('Labels').inputValue()).toBe('Not a label!')
    await upload.getByLabel('File').setInputFiles(file('people.csv'))
    await upload.getByLabel('Labels').fill('pii')
    await upload.getByRole('button', { name: 'Upload' }).click()
    await page.getByText('The file is kept').waitFor()
    const row = page.getByRole('row', { name: /people.csv/ })
    expect(await row.textContent()).toMatch(/9 bytes.*internal.*pii.*member@/s)
    if (javaScriptEnabled) expect(await violations(page)).toEqual([])
    await row.getByRole('link', { name: 'people.csv' }).click()
    await page.getByRole('heading', { level: 1, name: 'people.csv' }).waitFor()
    expect(await page.locator('main').innerText()).toMatch(/pii[^]*text\/csv[^]*No run has taken it yet/)
    await page.locator('summary', { hasText: 'Delete the file' }).click()
    await page.getByRole('button', { name: 'Delete the file' }).click()
    await page.getByText('The file is deleted').waitFor()
    expect(await all('files')).toEqual([])
    await upload.getByLabel('File').setInputFiles(file('people.csv'))
    await upload.getByRole('button', { name: 'Upload' }).click()
    await row.locator('summary').click()
    await row.getByRole('button', { name: 'Delete people.csv' }).click()
    await page.getByText('The file is deleted').waitFor()
    expect(await all('files')).toEqual([])
  })

  inBrowser('a member writes a value, changes it, and deletes it', async () => {
    const { page } = await signedInAt(home.server, 'member', path, { ...phone, javaScriptEnabled })
    const form = page.locator('form', { hasText: 'Remember a value' })
    await form.getByLabel('Key').fill('last / run')
    await form.getByLabel('Value').fill('{"seen": 5}')
    await form.getByRole('button', { name: 'Save the value' }).click()
    await page.getByRole('link', { name: 'last / run' }).click()
    await page.getByRole('heading', { level: 1, name: 'last / run' }).waitFor()
    await page.getByRole('textbox', { name: 'Value' }).fill('only a text')
    await page.getByLabel('Labels').fill('pii')
    await page.getByRole('button', { name: 'Save the value' }).click()
    await page.getByText('The value is saved').waitFor()
    const { body } = await home.call('member', 'GET', `/memory/${encodeURIComponent('last / run')}`)
    expect(body).toMatchObject({ value: 'only a text', labels: ['pii'] })
    await page.getByLabel('Labels').fill('')
    await page.getByRole('button', { name: 'Save the value' }).click()
    expect(await page.getByRole('alert').textContent()).toContain('needs the role')
    await page.locator('summary', { hasText: 'Delete the value' }).click()
    await page.getByRole('button', { name: 'Delete the value' }).click()
    await page.getByText('The value is deleted').waitFor()
    expect(await all('memory')).toEqual([])
    // Also takes the labels away that the key has kept.
    await home.call('admin', 'DELETE', `/memory/${encodeURIComponent('last / run')}`)
  })
})

test('the keys are read in pages, without values, and a restricted value says whom to ask', async () => {
  await home.settings({ restricted_labels: ['secret'] })
  for (const key of ['c', 'a', 'b/ü'])
    await home.call('admin', 'PUT', `/memory/${encodeURIComponent(key)}`, {
      value: 'hid',
      labels: ['secret'],
    })
  const first = (await home.call('member', 'GET', '/memory?limit=2')).body
  const rest = (await home.call('member', 'GET', `/memory?limit=2&cursor=${first.next_cursor}`)).body
  const keys = [...first.data, ...rest.data].map(({ key }) => key)
  expect([keys, rest.next_cursor]).toEqual([['a', 'b/ü', 'c'], null])
  expect(first.data[0]).toEqual({
    key: 'a',
    labels: ['secret'],
    bytes: expect.any(Number),
    updated_at: expect.any(String),
    updated_by: home.server.identities.users.admin.user_id,
    updated_by_email: home.server.identities.users.admin.email,
  })
  expect((await home.call('member', 'GET', '/memory?cursor=a2V5OgA')).status).toBe(422)
  const hidden = plain(await home.main(`${path}/memory/a`, 'member'))
  expect([hidden.includes('hid.'), hidden.includes('admins and owners')]).toEqual([false, true])
})
