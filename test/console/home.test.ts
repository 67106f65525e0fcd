import { afterAll, beforeAll, expect } from '@jest/globals'
import { startTestServer, type TestServer } from '../api/server.ts'
import { inBrowser } from '../support/chromium.ts'
import { heldCall, heldRun, holdAgents, holdMail, signedInAt, unknownRun, type Who } from './support.ts'

/* `/console/`: what needs the reader now, and what an owner does first. */

let server: TestServer
beforeAll(async () => {
  server = await startTestServer()
})
afterAll(() => server?.close())

const homeOf = async (who: Who, options = {}) => (await signedInAt(server, who, '/console/', options)).page

const firstSteps = async (who: Who): Promise<string[]> =>
  (await homeOf(who)).locator('section[aria-labelledby=first] a').allTextContents()

inBrowser('an owner of a new organization is shown what to do first, others are not', async () => {
  expect(await firstSteps('owner')).toEqual([
    'Write the first rule',
    'Turn approvals on',
    'Connect a service',
    'Save a workflow',
    'Start a run',
    'Approve a call',
    'Govern a coding agent',
  ])
  // An admin is told who turns approvals on.
  expect(await firstSteps('approver')).toContain('Turn approvals on')
  const admin = await homeOf('approver')
  await admin.getByText('An owner turns them on.').waitFor()
  expect(await firstSteps('viewer')).toEqual([])
})

inBrowser('what is done is not shown any more, and each list leads to its page', async () => {
  await holdAgents(server)
  await holdMail(server)
  const held = await heldRun(server)
  await unknownRun(server, 1)
  const approval = await heldCall(server)
  const { id } = (await server.context.pool.query<{ id: string }>('select id from runs where id <> $1', [held])).rows[0] ?? { id: '' } // prettier-ignore
  expect(await firstSteps('owner')).toEqual(['Connect a service', 'Approve a call'])
  const page = await homeOf('owner', { javaScriptEnabled: false })
  await page.locator('summary', { hasText: 'On a phone' }).click()
  await page.getByText('A phone cannot open 127.0.0.1').waitFor()
  const linksOf = (part: string) =>
    page
      .locator(`section[aria-labelledby=${part}] .item-link`)
      .evaluateAll((all) => all.map((each) => each.getAttribute('href')))
  expect(await linksOf('waiting')).toEqual(expect.arrayContaining([`/console/approvals/${approval}`]))
  expect(await linksOf('unknown')).toEqual([`/console/runs/${id}#waits`])
  expect(await linksOf('agents')).toHaveLength(1)
  await page.getByText('No run has failed, or each was made again.').waitFor()
  await server.context.pool.query(`update runs set status = 'failed', finished_at = now() where id = $1`, [id]) // prettier-ignore
  await page.reload()
  expect(await linksOf('failed')).toEqual([`/console/runs/${id}`])
  await page.locator('section[aria-labelledby=failed]').getByRole('link', { name: 'Open the list' }).click()
  expect(new URL(page.url()).searchParams.get('status')).toBe('failed')
  await page.locator('.run-row').first().waitFor()
})

inBrowser('an admin sees what waits, what failed, and the agents', async () => {
  const page = await homeOf('approver')
  expect(await page.locator('main h2').allTextContents()).toEqual([
    'First steps',
    'Waits for you',
    'Failed in the last 24 hours',
    'Agents at work',
  ])
})

inBrowser('a viewer sees runs, and is asked for nothing', async () => {
  const page = await homeOf('viewer')
  await page.getByText('Nothing waits for your decision.').waitFor()
  expect(await page.locator('main h2').allTextContents()).toEqual([
    'Waits for you',
    'Failed in the last 24 hours',
  ])
})

inBrowser('on a phone, the menu opens the places without a script', async () => {
  const page = await homeOf('owner', { javaScriptEnabled: false, viewport: { width: 390, height: 740 } })
  const rules = page.getByRole('navigation', { name: 'Main' }).getByRole('link', { name: 'All rules' })
  expect(await rules.isVisible()).toBe(false)
  await page.getByRole('button', { name: 'Menu' }).click()
  await rules.click()
  await page.waitForURL('**/console/rules')
})
