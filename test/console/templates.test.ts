import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { plain, startPages, type PagesHome } from '../api/console/pages-home.ts'
import { inBrowser } from '../support/chromium.ts'
import { signedInAt, violations } from './support.ts'

/* `/console/templates`: versions of workflows that an owner has approved. */

let home: PagesHome
beforeAll(async () => {
  home = await startPages()
})
afterAll(() => home?.server.close())

const path = '/console/templates'
const phone = { viewport: { width: 390, height: 844 } }
const stepOf = (key: string) => ({ steps: [{ id: 'first', tool: 'memory_get', params: { key } }] })

/** A template of the first version; the workflow has a second one. */
async function template(name: string): Promise<string> {
  const { id } = (await home.call('member', 'POST', '/workflows', { name, definition: stepOf('old') })).body
  await home.call('member', 'PUT', `/workflows/${id}`, { definition: stepOf('new') })
  const body = { template_name: name, description: `what ${name} is for`, tags: ['finance'], version: 1 }
  expect((await home.call('owner', 'POST', `/workflow-registry/${id}/approve-template`, body)).status).toBe(
    200,
  )
  return id
}
const move = (id: string, act: string, body = {}) =>
  home.call('owner', 'POST', `/workflow-registry/${id}/${act}`, body)

test('an empty list says who makes the first one, and where', async () => {
  expect(plain(await home.main(path, 'viewer'))).toContain('An owner approves a workflow as a template')
  expect(await home.main(path, 'owner')).toContain('href="/console/workflows"')
  expect(await home.main('/console/workflows', 'member')).toContain(`href="${path}"`)
})

test('the list says the state, and what replaces an outdated one; archived ones are asked for', async () => {
  const [old, next, gone] = [await template('Almond'), await template('Bilberry'), await template('Citron')]
  await move(old, 'deprecate', { reason: 'too slow', replacement_id: next })
  await move(gone, 'deprecate', { reason: 'unused' })
  await move(gone, 'archive')
  const page = plain(await home.main(path, 'viewer'))
  expect(page).toMatch(/Bilberry.*finance.*Active.*Almond.*Deprecated.*Use Bilberry instead/s)
  expect(page).not.toContain('Citron')
  expect(plain(await home.main(`${path}?archived=1`, 'viewer'))).toMatch(/Citron.*Archived/)
})

test('a page shows the frozen version, to each role what it may do', async () => {
  const id = await template('Dewberry')
  const asViewer = plain(await home.main(`${path}/${id}`, 'viewer'))
  expect(asViewer).toMatch(/what Dewberry is for.*first.*memory_get.*now at version 2.*1, which stays/s)
  expect(asViewer).toContain('Members make workflows from it: ask an owner for that role.')
  for (const act of ['Make the workflow', 'Deprecate']) expect(asViewer).not.toContain(act)
  const asMember = plain(await home.main(`${path}/${id}`, 'member'))
  expect(asMember).toContain('Make the workflow')
  expect(asMember).not.toContain('Deprecate')
  expect(await home.main(`/console/workflows/${id}`, 'viewer')).toContain(`href="${path}/${id}"`)
  expect(await home.html(`${path}/wf_nothing`, 'viewer')).toContain('There is nothing here')
})

test('nobody reads the steps of an archived one, and nobody uses it', async () => {
  const id = await template('Elderberry')
  await move(id, 'deprecate', { reason: 'unused' })
  await move(id, 'archive')
  const page = plain(await home.main(`${path}/${id}`, 'owner'))
  expect(page).toContain('An archived template shows its steps to nobody.')
  for (const act of ['Make the workflow', 'Deprecate the', 'Archive the']) expect(page).not.toContain(act)
  expect((await home.call('owner', 'GET', `/workflow-registry/${id}`)).body.definition).toBeNull()
})

describe.each([true, false])('with JavaScript: %s', (javaScriptEnabled) => {
  const options = { ...phone, javaScriptEnabled }

  inBrowser('a member makes a workflow of the frozen version; a refusal keeps what was typed', async () => {
    const id = await template('Fig')
    const { page } = await signedInAt(home.server, 'member', `${path}/${id}`, options)
    await page.getByLabel('What it is for').fill('my own')
    await page.getByLabel('Name of your workflow').fill(' ')
    await page.getByRole('button', { name: 'Make the workflow' }).click()
    await page.getByRole('alert').waitFor()
    expect(await page.getByLabel('What it is for').inputValue()).toBe('my own')
    await page.getByLabel('Name of your workflow').fill('My fig')
    if (javaScriptEnabled) expect(await violations(page)).toEqual([])
    await page.getByRole('button', { name: 'Make the workflow' }).click()
    await page.getByText('The workflow is made from the template.').waitFor()
    const made = (await home.call('member', 'GET', `/workflows/${page.url().match(/wf_\w+/)?.[0]}`)).body
    expect(made).toMatchObject({ name: 'My fig', description: 'my own', definition: stepOf('old') })
  })

  inBrowser('an owner deprecates it in favour of another one, and archives it', async () => {
    const [id, other] = [await template('Guava'), await template(`Hawthorn ${javaScriptEnabled}`)]
    const { page } = await signedInAt(home.server, 'owner', `${path}/${id}`, options)
    await page.locator('summary', { hasText: 'Deprecate the template' }).click()
    await page.getByLabel('Why it is outdated').fill('too slow')
    await page.getByLabel('Use this instead').selectOption({ label: `Hawthorn ${javaScriptEnabled}` })
    await page.getByRole('button', { name: 'Deprecate it' }).click()
    await page.getByText('who uses it is warned').first().waitFor()
    expect(plain(await page.content())).toMatch(/Why: .*too slow.*Use this instead: .*Hawthorn/s)
    expect(await page.getByRole('link', { name: 'Hawthorn' }).getAttribute('href')).toBe(`${path}/${other}`)
    if (javaScriptEnabled) expect(await violations(page)).toEqual([])
    await page.locator('summary', { hasText: 'Archive the template' }).click()
    await page.getByRole('button', { name: 'Archive it for good' }).click()
    await page.getByText('The template is archived.').waitFor()
    expect((await home.call('viewer', 'GET', `/workflow-registry/${id}`)).body.state).toBe('archived')
  })
})
