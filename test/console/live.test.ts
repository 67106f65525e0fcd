import { afterAll, afterEach, beforeAll, beforeEach, describe, expect } from '@jest/globals'
import { startTestServer, type TestServer } from '../api/server.ts'
import { inBrowser } from '../support/chromium.ts'
import { approvalsOf, heldCall, heldStep, holdAgents, holdSteps, lostCall, signedInAt } from './support.ts'

/* Pages that stay open show what other people do meanwhile. */

let server: TestServer
beforeAll(async () => {
  server = await startTestServer({ env: { SMTP_URL: 'smtp://127.0.0.1:1' } })
  await holdAgents(server)
  await holdSteps(server, ['mail_send'])
})
afterAll(() => server?.close())

const call = (who: 'owner' | 'admin' | 'member', method: string, path: string, body: object = {}) =>
  server.call(server.identities.users[who].api_key, method, path, body)
const approve = (id: string) => call('admin', 'POST', `/approvals/${id}/approve`)
const governance = (settings: object) =>
  call('owner', 'PATCH', `/organizations/${server.identities.organization_id}/governance`, settings)

describe('an approval that needs two votes', () => {
  beforeEach(() => governance({ approval_threshold: 2 }))
  afterEach(() => governance({ approval_threshold: 1, approval_required_from: null }))

  inBrowser('shows the first vote on the call of a run, whose page reads the run’s events', async () => {
    const runId = await heldStep(server, {
      tool: 'mail_send',
      params: { to: 'ana@a.example', subject: 'Invoice', text: 'Please pay.' },
    })
    const [id = ''] = await approvalsOf(server, runId)
    const { page } = await signedInAt(server, 'approver', `/console/approvals/${id}`)
    expect(await page.locator('[data-events]').count()).toBe(1)
    // The stream begins with the earlier events, which make the page look once.
    const looked = page.waitForResponse((answer) => answer.request().resourceType() === 'fetch')
    await page.reload()
    await looked
    await approve(id)
    await page.getByText('Needs 1 more approval by an admin or owner', { exact: false }).waitFor()
    await page.locator('.vote', { hasText: 'Approves' }).waitFor()
    await call('owner', 'POST', `/approvals/${id}/reject`)
    await page.getByText('rejected it. It will not happen.', { exact: false }).waitFor()
  })
})

describe('the list of approvals', () => {
  inBrowser('shows the first one, and is empty when the last one is decided elsewhere', async () => {
    const { page } = await signedInAt(server, 'owner', '/console/approvals')
    await page.getByText('Nothing waits for a decision.').waitFor()
    const id = await heldCall(server, { command: 'git push origin live' })
    await page.getByRole('link', { name: 'git push origin live' }).waitFor()
    await page.getByText('1 waits').waitFor()
    await approve(id)
    await page.getByText('Nothing waits for a decision.').waitFor()
    expect(await page.locator('.item').count()).toBe(0)
  })

  inBrowser('shows a call whose outcome becomes unknown, until somebody settles it', async () => {
    const { page } = await signedInAt(server, 'owner', '/console/approvals')
    await page.getByText('Nothing waits for a decision.').waitFor()
    const runId = await lostCall(server)
    const other = await lostCall(server)
    await page.getByText('Outcome unknown').nth(1).waitFor()
    // The form that the reader has unfolded stays so when another call leaves the list.
    await page.getByText('What became of it?').nth(1).click()
    await call('admin', 'POST', `/runs/${other}/steps/s/resolve`, { outcome: 'done' })
    await page.locator(`a[href*="${other}"]`).waitFor({ state: 'detached' })
    expect(await page.getByRole('button', { name: 'It happened: go on' }).isVisible()).toBe(true)
    await call('admin', 'POST', `/runs/${runId}/steps/s/resolve`, { outcome: 'done' })
    await page.getByText('Outcome unknown').waitFor({ state: 'detached' })
  })
})
