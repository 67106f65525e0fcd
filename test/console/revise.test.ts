import { afterAll, beforeAll, expect } from '@jest/globals'
import { startTestServer, type TestServer } from '../api/server.ts'
import { inBrowser } from '../support/chromium.ts'
import { approvalsOf, decidedAnew, heldStep, sentBack, signedInAt, violations, type Who } from './support.ts'

/* A held call is edited on its page: by the requester, and by an approver. */

let server: TestServer
beforeAll(async () => {
  server = await startTestServer({ env: { SMTP_URL: 'smtp://127.0.0.1:1' } })
  const { admin, owner } = server.identities.users
  const key = admin.api_key
  const settings = `/organizations/${server.identities.organization_id}/governance`
  await server.call(owner.api_key, 'PATCH', settings, { approvals_enabled: true })
  const made = await server.call(key, 'POST', `/organizations/${server.identities.organization_id}/rules`, {
    name: 'What leaves needs a second person',
    verdict: 'require_approval',
    tools: ['mail_send'],
    approver_may_edit: ['subject'],
  })
  expect(made.status).toBe(201)
})
afterAll(() => server?.close())

const open = async (who: Who, path: string, width: number) => {
  const opened = await signedInAt(server, who, path, { viewport: { width, height: 900 } })
  const picture = process.env['PICTURES']
  const name = `${who}-${path.split('/').at(-2)}-${width}-${Date.now()}`
  if (picture !== undefined) await opened.page.screenshot({ path: `${picture}/${name}.png`, fullPage: true })
  expect(await violations(opened.page)).toEqual([])
  expect(await opened.page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(width)
  return opened.page
}
const addressOf = (id: string): string => `/console/approvals/${id}`

inBrowser(
  'the requester reads the comment, edits the call, and approvers see what is different',
  async () => {
    const { runId, ids } = await sentBack(server)
    const [first = '', revision = ''] = ids
    for (const width of [390, 1280]) {
      const run = await open('member', `/console/runs/${runId}`, width)
      expect(await run.textContent('main')).toContain('The numbers are not final: say so, please.')
      expect(await run.textContent('main')).not.toMatch(/Rejected|Ended without an outcome/)
      expect(await (await open('member', '/console/', width)).textContent('main')).toContain(
        'Changes requested',
      )
      const revised = (await (await open('member', addressOf(revision), width)).textContent('main')) ?? ''
      expect(revised.split('asks for changes')).toHaveLength(2)
      await open('admin', addressOf(revision), width)
      const former = await (await open('admin', addressOf(first), width)).textContent('.headline')
      expect([former?.includes('Changes requested'), former?.includes('Rejected')]).toEqual([true, false])
      await open('member', '/console/approvals', width)
    }
    const page = await open('member', addressOf(revision), 390)
    expect(await page.textContent('main')).toContain('The numbers are not final: say so, please.')
    expect(await page.textContent('main')).toContain('The workflow has here: {{input.name}}')
    await page.fill('[name="params.subject"]', 'Third quarter, not final')
    await page.fill(
      '[name="params.text"]',
      'Ana, here is the report of the third quarter.\n\nSome numbers will change.',
    )
    await page.fill('#edit-comment', 'as you say')
    await page.click('button[value=revise]')
    await page.waitForSelector('text=The approval in its place', { state: 'detached' })
    expect(await page.textContent('main')).toContain('edited')
    const second = (await decidedAnew(server, runId)).at(-1) ?? ''
    for (const width of [390, 1280]) {
      const shown = await open('admin', addressOf(second), width)
      const text = (await shown.textContent('main')) ?? ''
      expect(text).toContain('What was edited')
      expect(text).toContain('Some numbers will change.')
      await open('admin', addressOf(revision), width)
    }
  },
)

inBrowser('an approver edits what the rule names, and the requester confirms it', async () => {
  const params = { to: 'ana@larkspur.example', subject: 'Third quarter', text: 'Hello' }
  const runId = await heldStep(server, { tool: 'mail_send', params })
  const [id = ''] = await approvalsOf(server, runId)
  const page = await open('admin', addressOf(id), 390)
  await page.click('text=Edit it, for another person to confirm')
  expect(await page.locator('[name="params.text"]').count()).toBe(0)
  // Nothing is different.
  await page.click('button[value=revise]')
  await page.waitForSelector('[role=alert]')
  await page.fill('[name="params.subject"]', 'Quarter three')
  await page.click('button[value=revise]')
  await page.waitForSelector('#outcome')
  const edit = (await decidedAnew(server, runId)).at(-1) ?? ''
  for (const width of [390, 1280]) await open('admin', addressOf(edit), width)
  const confirming = await open('member', addressOf(edit), 390)
  expect(await confirming.textContent('main')).toContain('Quarter three')
  await confirming.click('#approve')
  await confirming.waitForSelector('#outcome')
  expect(await confirming.textContent('main')).toContain('approved')
})
