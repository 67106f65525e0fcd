import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { plain, startPages, type PagesHome } from '../api/console/pages-home.ts'
import { inBrowser } from '../support/chromium.ts'
import { heldRun, holdMail, signedInAt } from './support.ts'

/* `/console/search`: one field over everything that the reader may see. */

let home: PagesHome
let run: string
beforeAll(async () => {
  home = await startPages()
  await holdMail(home.server)
  run = await heldRun(home.server)
  await home.hold({ name: 'Every report of finance waits', tools: ['mail_send'] })
})
afterAll(() => home?.server.close())

const path = '/console/search'

describe.each([true, false])('with JavaScript: %s', (javaScriptEnabled) => {
  inBrowser('the field of each page finds, and leads to what was found', async () => {
    const { page } = await signedInAt(home.server, 'admin', '/console/runs', { javaScriptEnabled })
    if (javaScriptEnabled) await page.keyboard.press('/')
    else await page.getByLabel('Search everything').focus()
    await page.keyboard.type('REPORT')
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { level: 1, name: 'Search' }).waitFor()
    expect(await page.locator('main h2').allTextContents()).toEqual([
      'Pages',
      'Workflows',
      'Runs',
      'Approvals',
      'Rules',
      'Audit log',
      'Documents',
    ])
    await page.getByRole('link', { name: 'Every report of finance waits' }).click()
    await page.getByRole('heading', { level: 1, name: 'Every report of finance waits' }).waitFor()
  })
})

inBrowser('on a phone, both keys lead to the page with the field; in a field they are letters', async () => {
  const phone = { viewport: { width: 390, height: 844 } }
  const { page } = await signedInAt(home.server, 'owner', '/console/runs', phone)
  await page.keyboard.press('Control+k')
  await page.waitForURL(`**${path}`)
  await page.keyboard.press('/')
  await page.keyboard.type('member@/')
  expect(await page.getByLabel('Name, address or id').inputValue()).toBe('member@/')
})

const shown = async (sought: string, who: 'owner' | 'viewer' | 'member') => {
  const html = await home.main(`${path}?q=${encodeURIComponent(sought)}`, who)
  return [...html.matchAll(/<h2[^>]*>(.*?)<\/h2>/g)].map(([, title = '']) => plain(title))
}

test('a role finds what it may see', async () => {
  expect(await shown('report', 'viewer')).toEqual(['Workflows', 'Runs', 'Documents'])
  expect(await shown('report', 'member')).toEqual(['Workflows', 'Runs', 'Approvals', 'Rules', 'Documents'])
  expect(await shown('@countersign', 'member')).toEqual(['Approvals'])
  expect(await shown('@countersign', 'owner')).toEqual(['Approvals', 'People', 'Audit log'])
  expect(await shown('freeze', 'viewer')).toEqual(['Pages', 'Documents'])
  // A setting.
  expect(await shown('people for each approval', 'owner')).toContain('Pages')
  expect(await shown('people for each approval', 'member')).not.toContain('Pages')
})

test('an id leads to its page, and nothing of another organization is found', async () => {
  const answer = await home.get(`${path}?q=%20${run}`, await home.cookieOf('viewer'))
  expect([answer.status, answer.headers.get('location')]).toEqual([303, `/console/runs/${run}`])
  const { pool } = home.server.context
  await pool.query(`insert into organizations (id, name) values ('org_other', 'Other')`)
  const moved = `update workflows set organization_id = 'org_other' where organization_id = $1`
  await pool.query(moved, [home.server.identities.organization_id])
  await pool.query(`update runs set organization_id = 'org_other'`)
  expect(await shown('report', 'viewer')).toEqual(['Documents'])
  expect(plain(await home.main(`${path}?q=nothing-has-this`, 'viewer'))).toContain('Nothing is like this')
})
