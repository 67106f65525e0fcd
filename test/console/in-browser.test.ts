import { afterAll, beforeAll, describe, expect } from '@jest/globals'
import { startTestServer, type TestServer } from '../api/server.ts'
import { inBrowser, openPage } from '../support/chromium.ts'
import { fillSignIn, heldCall, holdAgents, signedInAt, violations } from './support.ts'

/* The console's pages in a real browser. */

let server: TestServer
beforeAll(async () => {
  server = await startTestServer()
  await holdAgents(server)
})
afterAll(() => server.close())

const statusOf = async (id: string): Promise<unknown> =>
  (await server.call(server.identities.users.admin.api_key, 'GET', `/approvals/${id}`)).body

describe('an approval', () => {
  inBrowser('is decided by somebody who follows its link, signs in, reads and approves', async () => {
    const id = await heldCall(server, { command: 'git push origin main' })
    const { page, foreign, errors } = await openPage({ viewport: { width: 360, height: 740 } })
    await page.goto(`${server.base}/console/approvals/${id}`)
    await fillSignIn(page, server, 'approver')
    await page.waitForURL(`${server.base}/console/approvals/${id}`)
    await page.getByText('git push origin main').first().waitFor()
    await page.getByText('Agents ask before they send').waitFor()
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(360)
    await page.getByLabel('Comment').fill('go on')
    await page.getByRole('button', { name: 'Approve' }).click()
    await page.getByText('Approved', { exact: true }).first().waitFor()
    expect(await page.getByRole('button', { name: 'Reject' }).count()).toBe(0)
    expect(await statusOf(id)).toMatchObject({
      status: 'approved',
      votes: [{ user_id: server.identities.users.approver.user_id, comment: 'go on' }],
    })
    expect({ foreign, errors }).toEqual({ foreign: [], errors: [] })
  })

  inBrowser.each([360, 1280])('has no violation that axe finds at %d px', async (width) => {
    const id = await heldCall(server)
    const path = `/console/approvals/${id}`
    for (const colorScheme of ['light', 'dark'] as const) {
      const { page } = await signedInAt(server, 'approver', path, {
        viewport: { width, height: 740 },
        colorScheme,
      })
      expect(await violations(page)).toEqual([])
    }
  })

  inBrowser('is decided without JavaScript', async () => {
    const id = await heldCall(server)
    const { page } = await signedInAt(server, 'approver', `/console/approvals/${id}`, {
      javaScriptEnabled: false,
    })
    await page.getByRole('button', { name: 'Reject' }).click()
    await page.getByText('Rejected', { exact: true }).first().waitFor()
    expect(await statusOf(id)).toMatchObject({ status: 'rejected' })
  })
})

describe('a long text', () => {
  inBrowser('takes the place of its beginning when it is opened, and is not cut', async () => {
    const id = await heldCall(server, { command: `git push ${'origin\n'.repeat(200)} the-end` })
    const { page } = await signedInAt(server, 'approver', `/console/approvals/${id}`)
    const long = page.locator('.fields .long').first()
    await long.locator('summary').click()
    await long.locator('details > .text').waitFor()
    expect(await long.locator(':scope > .text').isVisible()).toBe(false)
    const room = 'document.querySelector(".fields .long details > .text")'
    expect(await page.evaluate(`${room}.scrollHeight <= ${room}.clientHeight`)).toBe(true)
  })
})

describe('the header', () => {
  inBrowser('shows the whole address at 1280 px, and begins where the content does', async () => {
    const { page } = await signedInAt(server, 'approver', '/console/approvals', {
      viewport: { width: 1_280, height: 740 },
    })
    const words = 'document.querySelector(".account .words")'
    expect(await page.evaluate(`${words}.scrollWidth <= ${words}.clientWidth`)).toBe(true)
    const left = (selector: string) => `document.querySelector('${selector}').getBoundingClientRect().left`
    expect(await page.evaluate(`${left('.brand')} === ${left('h1')}`)).toBe(true)
  })
})

describe('the pages of an approval and of the list', () => {
  inBrowser('are used by keys alone, which decide nothing before a button is pressed', async () => {
    const id = await heldCall(server, { command: 'git push origin by-keys' })
    const { page } = await signedInAt(server, 'approver', '/console/approvals')
    await page.keyboard.press('j')
    expect(await page.evaluate('document.activeElement.getAttribute("href")')).toBe(
      `/console/approvals/${id}`,
    )
    await page.keyboard.press('a')
    await page.waitForURL(`**/console/approvals/${id}#approve`)
    await page.locator('#approve:focus').waitFor()
    expect(await statusOf(id)).toMatchObject({ status: 'pending' })
    await page.keyboard.press('r')
    await page.locator('#reject:focus').waitFor()
    await page.keyboard.press('Enter')
    await page.getByText('Rejected', { exact: true }).first().waitFor()
    expect(await statusOf(id)).toMatchObject({ status: 'rejected' })
  })

  inBrowser('change by themselves when somebody else decides, and keep what was written', async () => {
    const id = await heldCall(server)
    const { page } = await signedInAt(server, 'approver', `/console/approvals/${id}`)
    await page.getByLabel('Comment').fill('my words')
    await server.call(server.identities.users.admin.api_key, 'POST', `/approvals/${id}/reject`, {
      comment: 'another way, please',
      request_changes: true,
    })
    await page.getByText('An approver requested changes', { exact: false }).waitFor()
    await page.getByText('another way, please').waitFor()
    expect(await page.getByRole('button', { name: 'Approve' }).count()).toBe(0)
  })

  inBrowser.each([360, 1280])('have no violation that axe finds in the list at %d px', async (width) => {
    await heldCall(server)
    for (const colorScheme of ['light', 'dark'] as const) {
      const viewport = { width, height: 740 }
      const { page } = await signedInAt(server, 'owner', '/console/approvals', { viewport, colorScheme })
      expect(await violations(page)).toEqual([])
      const row = await page.locator('.item').first().boundingBox()
      expect(row?.height).toBeLessThan(125)
      expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(width)
    }
  })
})
