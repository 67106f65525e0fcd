import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { plain, startPages, type PagesHome } from '../api/console/pages-home.ts'
import { inBrowser } from '../support/chromium.ts'
import { signedInAt, violations } from './support.ts'

/* `/console/audit`: an admin finds an entry, reads before and after of a change, verifies the log and exports it. */

let home: PagesHome
let rule: string
beforeAll(async () => {
  home = await startPages()
  rule = (await home.hold({ name: 'Pushes wait', tools: ['Bash'] })).body.id
  const path = `/organizations/${home.server.identities.organization_id}/rules/${rule}`
  await home.call('admin', 'PATCH', path, { name: 'Pushes wait long' })
})
afterAll(() => home?.server.close())

const path = '/console/audit'

describe.each([true, false])('with JavaScript: %s', (javaScriptEnabled) => {
  inBrowser('an admin filters, reads a change, follows its link, verifies and exports', async () => {
    const phone = { viewport: { width: 390, height: 844 } }
    const { page } = await signedInAt(home.server, 'admin', path, { ...phone, javaScriptEnabled })
    await page.locator('summary', { hasText: 'Filter' }).click()
    await page.getByLabel('Event').selectOption('rule.updated')
    await page.getByLabel('From the day').fill('2020-01-01')
    await page.getByRole('button', { name: 'Show' }).click()
    await page.getByText('1 entry').waitFor()
    const row = page.getByRole('row', { name: /Rule updated/ })
    expect(await row.textContent()).toContain(home.server.identities.users.admin.email)
    await row.locator('summary').first().click()
    expect(await row.textContent()).toMatch(/as it was before.*"Pushes wait".*"Pushes wait long"/s)
    if (javaScriptEnabled) expect(await violations(page)).toEqual([])
    await row.getByRole('link', { name: /^rule/ }).click()
    await page.getByRole('heading', { level: 1, name: 'Pushes wait long' }).waitFor()
    await page.goto(`${home.server.base}${path}`)
    await page.locator('summary', { hasText: 'Filter' }).click()
    await page.getByLabel('Text in the entry').fill('pushes WAIT long')
    await page
      .getByLabel('Person')
      .selectOption({ label: `You (${home.server.identities.users.admin.email})` })
    await page.getByRole('button', { name: 'Show' }).click()
    await page.getByText('1 entry. All entries were searched.').waitFor()
    await page.getByRole('row', { name: /Rule updated/ }).waitFor()
    if (javaScriptEnabled) expect(await violations(page)).toEqual([])
    // An id whose time no clock has.
    const odd = await page.goto(`${home.server.base}/console/audit?search=run_${'Z'.repeat(26)}`)
    expect(odd?.status()).toBe(200)
    await page.goto(`${home.server.base}${path}?until=2020-01-01`)
    await page.getByText('No entry is like this').waitFor()
    await page.getByRole('button', { name: 'Verify now' }).click()
    await page.getByText(/All \d+ entries are there/).waitFor()
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('link', { name: 'Export all entries' }).click(),
    ])
    expect(download.suggestedFilename()).toMatch(/^audit-org_\w+\.jsonl$/)
    const text = (await (await download.createReadStream()).toArray()).join('')
    expect(text).toMatch(/"rule\.updated".*"checkpoint":.*"verifier_key":/s)
  })
})

test('a member is told whom to ask, and does not find the page in the menu', async () => {
  const refused = await home.get(path, await home.cookieOf('member'))
  expect([refused.status, plain(await refused.text()).includes('ask an owner')]).toEqual([403, true])
  expect(await home.html('/console/runs', 'member')).not.toContain('Audit log')
})
