import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import type { Page } from 'playwright-core'
import { plain, startPages, type PagesHome } from '../api/console/pages-home.ts'
import { inBrowser } from '../support/chromium.ts'
import { signedInAt, violations } from './support.ts'

/* `/console/workflows`, and the editor. */

let home: PagesHome
beforeAll(async () => {
  home = await startPages()
})
afterAll(() => home?.server.close())

const path = '/console/workflows'
const phone = { viewport: { width: 390, height: 844 } }
const definition = { steps: [{ id: 'first', tool: 'memory_get', params: { key: 'k' } }] }
const save = async (body: object): Promise<string> =>
  (await home.call('member', 'POST', '/workflows', { name: 'W', definition, ...body })).body.id
const textOf = (...steps: string[]) =>
  `name: Notes\nsteps:\n${steps.map((id) => `  - id: ${id}\n    tool: memory_get\n    params: { key: k }\n`).join('')}`
const fill = (page: Page, text: string) => page.locator('textarea[name=text]').fill(text)

test('an empty list says what to do first, and a viewer whom to ask', async () => {
  expect(plain(await home.main(path, 'member'))).toContain('Make the first one')
  const seen = await home.main(path, 'viewer')
  expect(plain(seen)).toContain('Members and above make workflows: ask an owner for that role.')
  expect(seen).not.toContain('/console/workflows/new')
})

test('the list finds a part of a name, and says what was last run and what would fail', async () => {
  const mail = { id: 'm', tool: 'sheets_append', params: { spreadsheet: 's', rows: [['a']] } }
  const id = await save({ name: 'Damson', slug: 'damson-1', definition: { steps: [mail] } })
  await save({ name: 'Elder' })
  const run = (await home.call('member', 'POST', `/workflows/${id}/execute?wait=0`, {})).body.execution_id
  const page = await home.main(`${path}?search=DAMS`, 'viewer')
  expect(page).toContain(`href="/console/runs/${run}"`)
  expect(plain(page)).toMatch(/Damson.*damson-1.*Would fail.*sheets_append.*Queued/)
  expect(plain(page)).not.toContain('Elder')
  expect(plain(await home.main(`${path}?search=fig`, 'viewer'))).toContain('No workflow has this')
})

describe.each([true, false])('the editor with JavaScript: %s', (javaScriptEnabled) => {
  const options = { ...phone, javaScriptEnabled }

  inBrowser(
    'a member starts from the example, and sees mistakes by line and what would be decided',
    async () => {
      const { page } = await signedInAt(home.server, 'member', path, options)
      await page.getByRole('link', { name: 'New workflow' }).click()
      expect(await page.locator('textarea[name=text]').inputValue()).toContain('if_skipped: skip')
      await page.getByText('The definition has no mistake.').waitFor()
      await fill(
        page,
        `${textOf('one')}  - id: two\n    tool: memory_git\n    params: { key: '{{three.output}}' }\n`,
      )
      await page.getByRole('button', { name: 'Save the workflow' }).click()
      await page.getByText('Nothing was saved: change what is named under the mistakes.').waitFor()
      const mistakes = await page.locator('.mistakes li').allTextContents()
      expect(mistakes).toEqual([
        expect.stringMatching(/^Line 7: .*memory_git/),
        expect.stringMatching(/^Line 8: .*three/),
      ])
      if (javaScriptEnabled) expect(await violations(page)).toEqual([])
      await fill(page, 'steps: {{')
      await page.getByRole('button', { name: 'Check' }).click()
      await page.getByText('write a template in quotes').waitFor()
      expect(await page.locator('textarea[name=text]').inputValue()).toBe('steps: {{')
      await fill(page, textOf('one', 'two'))
      await page.locator('summary', { hasText: 'Inputs and outputs' }).click()
      await page.getByLabel('Inputs', { exact: true }).fill('{nothing')
      await page.getByRole('button', { name: 'Show what would be decided' }).click()
      await page.getByRole('alert').getByText('is not JSON').waitFor()
      await page.getByLabel('Inputs', { exact: true }).fill('')
      await page.getByRole('button', { name: 'Show what would be decided' }).click()
      expect(await page.locator('.row .badge').allTextContents()).toEqual(['Allowed', 'Allowed'])
      await page.getByRole('button', { name: 'Save the workflow' }).click()
      await page.getByRole('heading', { level: 1, name: 'Notes' }).waitFor()
    },
  )

  inBrowser('a change says what it is about, and is not saved over another one', async () => {
    const id = await save({ name: 'Shared', slug: `shared-${javaScriptEnabled}`, description: 'old words' })
    const edit = `${path}/${id}/edit`
    const { page } = await signedInAt(home.server, 'member', edit, options)
    await fill(page, textOf('one'))
    await page.getByLabel('What changes').fill('another step')
    await home.call('admin', 'PUT', `/workflows/${id}`, {
      definition: { steps: [{ ...definition.steps[0], id: 'theirs' }] },
    })
    await page.getByRole('button', { name: 'Save a new version' }).click()
    await page.getByText('somebody saved version 2').waitFor()
    expect(await page.getByLabel('What changes').inputValue()).toBe('another step')
    await page.goto(`${home.server.base}${edit}`)
    await fill(page, textOf('one'))
    await page.getByLabel('What changes').fill('another step')
    await page.getByRole('button', { name: 'Save a new version' }).click()
    await page.getByRole('heading', { level: 1, name: 'Notes' }).waitFor()
    const { body } = await home.call('member', 'GET', `/workflows/${id}`)
    expect(body).toMatchObject({ name: 'Notes', slug: null, description: '', version: 3 })
    const { versions } = (await home.call('member', 'GET', `/workflows/${id}/versions`)).body
    expect(versions[0].message).toBe('another step')
  })

  inBrowser('nothing that was written is lost when the sign-in ends', async () => {
    const { page } = await signedInAt(home.server, 'member', `${path}/new`, options)
    const text = `# a note\n${textOf('kept')}`
    await fill(page, text)
    const cookies = await page.context().cookies()
    await page.context().clearCookies()
    await page.getByRole('button', { name: 'Save the workflow' }).click()
    await page.getByRole('heading', { level: 1, name: 'Your sign-in has ended' }).waitFor()
    await page.context().addCookies(cookies.filter(({ name }) => name.includes('organization')))
    const other = await signedInAt(home.server, 'admin', `${path}/new`, options)
    await page.context().addCookies(await other.page.context().cookies())
    await page.getByRole('button', { name: 'Go on' }).click()
    await page.getByText('You have signed in anew').waitFor()
    expect(await page.locator('textarea[name=text]').inputValue()).toBe(text)
    await page.getByRole('button', { name: 'Save the workflow' }).click()
    await page.getByRole('heading', { level: 1, name: 'Notes' }).waitFor()
  })
})

test('who may not change a workflow is told whom to ask, and a form is refused', async () => {
  const id = await save({ name: 'Guarded' })
  await home.call('owner', 'PUT', `/workflows/${id}`, { protected: true })
  const seen = plain(await home.main(`${path}/${id}/edit`, 'member'))
  expect(seen).toContain('It is protected: only admins and owners change it.')
  expect(seen).not.toContain('Save a new version')
  const token = await home.tokenOf(`${path}/new`, 'member')
  const fields = { token, action: 'save', text: textOf('x'), version: '1' }
  const answer = await home.post(`${path}/${id}/edit`, fields, {}, await home.cookieOf('member'))
  expect(answer.status).toBe(403)
  expect((await home.call('member', 'GET', `/workflows/${id}`)).body.version).toBe(1)
})
