import { afterAll, beforeAll, expect } from '@jest/globals'
import { startTestServer, type TestServer } from '../api/server.ts'
import { inBrowser } from '../support/chromium.ts'
import { heldCall, heldStep, holdAgents, holdSteps, signedInAt, type Who } from './support.ts'

/* What was decided, and the search, in a real browser. */

let server: TestServer
beforeAll(async () => {
  server = await startTestServer({ env: { SMTP_URL: 'smtp://127.0.0.1:1' } })
  await holdAgents(server)
  await holdSteps(server, ['mail_send'])
})
afterAll(() => server?.close())

const eitherWay = inBrowser.each([true, false])
const vote = (who: Who, id: string, decision: 'approve' | 'reject', comment: string) =>
  server.call(server.identities.users[who].api_key, 'POST', `/approvals/${id}/${decision}`, { comment })
const push = (branch: string) => heldCall(server, { command: `git push origin ${branch}` })

eitherWay('shows who decided what, and when: script %s', async (javaScriptEnabled) => {
  const [yes, no] = [await push(`yes-${javaScriptEnabled}`), await push(`no-${javaScriptEnabled}`)]
  const waits = await push(`waits-${javaScriptEnabled}`)
  await vote('approver', yes, 'approve', 'Looks right')
  await vote('admin', no, 'reject', 'Not on a Friday')
  const { page } = await signedInAt(server, 'approver', '/console/approvals', {
    javaScriptEnabled,
    viewport: { width: 390, height: 844 },
  })
  await page.getByRole('link', { name: 'Decided', exact: true }).click()
  const row = (branch: string) => page.locator('.item', { hasText: `${branch}-${javaScriptEnabled}` })
  await row('yes').getByText('Looks right').waitFor()
  expect(await row('yes').innerText()).toMatch(/By approver@/)
  expect(await row('yes').locator('.row-state').innerText()).toBe('Approved')
  expect(await row('no').innerText()).toMatch(/By admin@[\s\S]*Rejected/)
  expect(await row('waits').count()).toBe(0)
  expect(await page.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(390)
  // Only what this person decided.
  await page.getByText('Search and filter', { exact: true }).click()
  await page.getByLabel('Decided by').selectOption({ label: 'me' })
  await page.getByRole('button', { name: 'Show' }).click()
  await row('yes').waitFor()
  expect([await row('yes').count(), await row('no').count()]).toEqual([1, 0])
  expect(page.url()).toContain('state=decided')
  await vote('admin', waits, 'reject', '')
})

eitherWay('finds what waits by a part of its tool, from the oldest: script %s', async (javaScriptEnabled) => {
  const first = await push(`first-${javaScriptEnabled}`)
  await heldStep(server, { tool: 'mail_send', params: { to: 'ana@a.example', subject: 's', text: 't' } })
  const second = await push(`second-${javaScriptEnabled}`)
  const { page } = await signedInAt(server, 'approver', '/console/approvals', { javaScriptEnabled })
  await page.getByText('Search and filter', { exact: true }).click()
  await page.getByLabel('Tool, workflow or person').fill('bASH')
  await page.getByLabel('Order').selectOption({ label: 'oldest first' })
  await page.getByRole('button', { name: 'Show' }).click()
  await page.waitForURL(/order=oldest/)
  const links = await page
    .locator('.item-link')
    .evaluateAll((all) => all.map((each) => (each as unknown as { href: string }).href.split('/').at(-1)))
  expect(links.filter((id) => id === first || id === second)).toEqual([first, second])
  expect(await page.getByText('ana@a.example').count()).toBe(0)
  await page.getByLabel('Tool, workflow or person').fill('nothing has this')
  await page.getByRole('button', { name: 'Show' }).click()
  await page.getByText('Nothing that waits matches the filter.').waitFor()
  await vote('admin', first, 'reject', '')
  await vote('admin', second, 'reject', '')
})

eitherWay('an agent’s person withdraws its call: script %s', async (javaScriptEnabled) => {
  const own = await push(`own-${javaScriptEnabled}`)
  const { body } = await server.call(server.identities.users.owner.api_key, 'GET', `/approvals/${own}`)
  const who = (Object.keys(server.identities.users) as Who[]).find(
    (each) => server.identities.users[each].email === body.requester_email,
  ) as Who
  const { page } = await signedInAt(server, who, '/console/approvals', { javaScriptEnabled })
  await page
    .locator('.item', { hasText: `own-${javaScriptEnabled}` })
    .getByText('withdraw it…')
    .click()
  await page.getByRole('button', { name: 'Withdraw the call' }).click()
  await page.getByText('Withdrawn', { exact: true }).first().waitFor()
})
