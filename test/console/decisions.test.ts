import { afterAll, beforeAll, describe, expect } from '@jest/globals'
import type { Page } from 'playwright-core'
import { addOrganization } from '../api/fixtures.ts'
import { startTestServer, type TestServer } from '../api/server.ts'
import { inBrowser } from '../support/chromium.ts'
import {
  approvalsOf,
  fillSignIn,
  heldCall,
  heldStep,
  holdAgents,
  holdSteps,
  loseAgain,
  lostCall,
  signedInAt,
  violations,
  type Who,
} from './support.ts'

/* The pages for approvers before and after a decision, in a real browser: calls, items, changes, unknown outcomes. */

const phone = { viewport: { width: 360, height: 740 } }
const sizes = [360, 1280] as const

let server: TestServer
beforeAll(async () => {
  server = await startTestServer({ env: { SMTP_URL: 'smtp://127.0.0.1:1' } })
  await holdAgents(server)
  await holdSteps(server, ['mail_send', 'memory_set'])
})
afterAll(() => server?.close())

const press = (page: Page, name: string) => page.getByRole('button', { name, exact: true }).click()
const call = (who: Who, method: string, path: string, body?: unknown) =>
  server.call(server.identities.users[who].api_key, method, path, body)
const mail = (to: unknown = 'ana@a.example') => ({
  tool: 'mail_send',
  params: { to, subject: 'Invoice', text: 'Please pay.' },
})
/** The only approval of a run. */
const approvalOf = async (runId: string): Promise<string> => (await approvalsOf(server, runId))[0] ?? ''
const bottomOf = async (page: Page, name: string): Promise<number> => {
  const box = await page.getByRole('button', { name, exact: true }).boundingBox()
  return (box?.y ?? Number.NaN) + (box?.height ?? 0)
}

describe('the decision', () => {
  inBrowser('stays in reach on a phone, and hides nothing that has the focus', async () => {
    const id = await heldCall(server, { command: 'git push', notes: 'a line\n'.repeat(400) })
    const { page } = await signedInAt(server, 'approver', `/console/approvals/${id}`, phone)
    for (const name of ['Approve', 'Request changes', 'Reject'])
      expect(await bottomOf(page, name)).toBeLessThanOrEqual(740)
    const [approve, changes] = await Promise.all(
      ['Approve', 'Request changes'].map((name) =>
        page.getByRole('button', { name, exact: true }).boundingBox(),
      ),
    )
    expect((changes?.x ?? 0) - (approve?.x ?? 0) - (approve?.width ?? 0)).toBeGreaterThanOrEqual(8)
    const bar = await page.locator('.decide').boundingBox()
    const expiry = await page.getByText('Expires in 1 hour (').boundingBox()
    expect((expiry?.y ?? 999) + (expiry?.height ?? 0)).toBeLessThan(bar?.y ?? 0)
    await page.getByText('Show all', { exact: false }).first().click()
    await page.evaluate('scrollTo(0, 2000)')
    expect(await bottomOf(page, 'Approve')).toBeLessThanOrEqual(740)
    const summary = page.getByText('Exactly as it will run')
    await summary.focus()
    const at = await summary.boundingBox()
    expect((at?.y ?? 999) + (at?.height ?? 0)).toBeLessThanOrEqual(bar?.y ?? 0)
  })

  inBrowser.each([true, false])(
    'that was refused keeps the comment (JavaScript: %s)',
    async (javaScriptEnabled) => {
      const id = await heldCall(server)
      const path = `/console/approvals/${id}`
      const { page } = await signedInAt(server, 'approver', path, { ...phone, javaScriptEnabled })
      await press(page, 'Request changes')
      await page
        .locator('.decide')
        .getByRole('alert')
        .getByText('Say in the comment what should change')
        .waitFor()
      await page.locator('#comment:focus').waitFor()
      await page.getByLabel('Comment').fill('use a branch')
      await press(page, 'Request changes')
      await page.getByText('requested changes. It will not happen as it is.', { exact: false }).waitFor()
      await page.getByText('use a branch').waitFor()
    },
  )

  inBrowser(
    'that is pressed twice counts once, and a page left open elsewhere reads what happened',
    async () => {
      const id = await heldCall(server)
      const path = `/console/approvals/${id}`
      const options = { ...phone, javaScriptEnabled: false }
      const { page: left } = await signedInAt(server, 'owner', path, options)
      const { page } = await signedInAt(server, 'approver', path, options)
      await page.getByRole('button', { name: 'Approve' }).dblclick()
      await page.getByText('Approved', { exact: true }).first().waitFor()
      await press(left, 'Reject')
      await left.getByRole('alert').getByText('already', { exact: false }).waitFor()
      expect((await call('admin', 'GET', `/approvals/${id}`)).body).toMatchObject({
        status: 'approved',
        votes: [{ decision: 'approve' }],
      })
    },
  )
})

describe('a call of a run', () => {
  inBrowser('is called sent only after it was sent', async () => {
    const id = await approvalOf(await heldStep(server, mail()))
    const { page } = await signedInAt(server, 'approver', `/console/approvals/${id}`, phone)
    await page.getByRole('heading', { name: 'Send a mail to ana@a.example' }).waitFor()
    await page.getByRole('heading', { name: 'What would be sent' }).waitFor()
    await page.getByText('Cannot be taken back').waitFor()
    await press(page, 'Approve')
    await page.getByRole('heading', { name: 'What was approved' }).waitFor()
    await page.getByText('Exactly as it was approved').waitFor()
    expect(await page.getByText('What was sent').count()).toBe(0)
  })

  inBrowser('of a list names its item, and the others wait on', async () => {
    const ids = await approvalsOf(
      server,
      await heldStep(server, mail('{{item}}'), {
        items: ['ana@a.example', 'bo@b.example'],
        name: 'Remind them',
      }),
    )
    expect(ids).toHaveLength(2)
    const { page } = await signedInAt(server, 'approver', `/console/approvals/${ids[1] ?? ''}`, phone)
    await page.getByText('item 2', { exact: false }).first().waitFor()
    await page.getByRole('link', { name: 'Remind them' }).waitFor()
    await press(page, 'Reject')
    await page.getByRole('heading', { name: 'What was asked for' }).waitFor()
    await page.getByText('Exactly as it was asked for').waitFor()
    await page.goto(`${server.base}/console/approvals/${ids[0] ?? ''}`)
    await page.getByRole('heading', { name: 'Send a mail to ana@a.example' }).waitFor()
    await page.getByRole('button', { name: 'Approve' }).waitFor()
  })

  inBrowser.each(sizes)('that changes something is drawn as a change, at %d px', async (width) => {
    const before = 'Basic 10 EUR\nTeam 40 EUR\n<b>Enterprise</b> ask'
    await call('member', 'PUT', `/memory/prices-${width}`, { value: before })
    const after = before.replace('10', '12')
    const params = { key: `prices-${width}`, value: after }
    const id = await approvalOf(await heldStep(server, { tool: 'memory_set', params }))
    for (const colorScheme of ['light', 'dark'] as const) {
      const options = { viewport: { width, height: 740 }, colorScheme }
      const { page } = await signedInAt(server, 'approver', `/console/approvals/${id}`, options)
      const line = (kind: string) => page.locator(`.diff-line.${kind}`).allTextContents()
      expect(await line('removed')).toEqual(['−removed: Basic 10 EUR'])
      expect(await line('added')).toEqual(['+added: Basic 12 EUR'])
      expect(await line('same')).toEqual([' Team 40 EUR', ' <b>Enterprise</b> ask'])
      expect(await page.locator('.diff-line mark').allTextContents()).toEqual(['10', '12'])
      expect(await violations(page)).toEqual([])
      expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(width)
    }
  })
})

describe('an unknown outcome', () => {
  inBrowser.each([
    ['It happened: go on', true],
    ['Count it as failed', false],
  ] as const)('is settled from the list by “%s” (JavaScript: %s)', async (choice, javaScriptEnabled) => {
    const runId = await lostCall(server)
    const { page } = await signedInAt(server, 'admin', '/console/approvals', { ...phone, javaScriptEnabled })
    const item = page.locator('.plain-item', { hasText: 'Outcome unknown' }).first()
    if (javaScriptEnabled) expect(await violations(page)).toEqual([])
    await item.getByText('What became of it?').click()
    await item.getByRole('button', { name: choice }).click()
    await page.waitForURL(`**/console/runs/${runId}**`)
    const { body } = await call('admin', 'GET', `/runs/${runId}`)
    expect(body.waiting_for).toEqual([])
    await page.goto(`${server.base}/console/approvals`)
    expect(await page.getByText('Outcome unknown').count()).toBe(0)
  })

  inBrowser.each(['/console/approvals', 'its run'])(
    'is not settled by a form of %s from before it was made again',
    async (place) => {
      const runId = await lostCall(server)
      const path = place === 'its run' ? `/console/runs/${runId}` : place
      const { page } = await signedInAt(server, 'admin', path, { ...phone, javaScriptEnabled: false })
      await loseAgain(server, runId)
      if (place !== 'its run') await page.getByText('What became of it?').first().click()
      await page.getByRole('button', { name: 'It happened: go on' }).first().click()
      await page.getByText('is that of attempt 2, not of attempt 1').waitFor()
      expect((await call('admin', 'GET', `/runs/${runId}`)).body.waiting_for).toHaveLength(1)
      await page.getByText('(attempt 2)').waitFor()
      await page.getByRole('button', { name: 'It happened: go on' }).first().click()
      await page.waitForURL(`**/console/runs/${runId}`)
      expect((await call('admin', 'GET', `/runs/${runId}`)).body.waiting_for).toEqual([])
    },
  )

  inBrowser('is seen by members, who cannot settle it', async () => {
    const runId = await lostCall(server)
    const { page } = await signedInAt(server, 'member', '/console/approvals', phone)
    await page.getByText('An admin or owner says what became of it.').waitFor()
    expect(await page.getByRole('button', { name: 'It happened: go on' }).count()).toBe(0)
    await call('admin', 'POST', `/runs/${runId}/steps/s/resolve`, { outcome: 'done' })
  })
})

describe('the reader', () => {
  inBrowser.each([
    ['member', 200, 'You cannot decide this'],
    ['viewer', 403, 'This is not yours to see'],
    ['approver', 200, 'Approve'],
    ['owner', 200, 'Approve'],
  ] as const)('%s gets %d and reads “%s”', async (who, status, words) => {
    const id = await heldCall(server, { command: 'git push origin only-for-approvers' })
    const { page } = await signedInAt(server, who, '/console/account', phone)
    const answer = await page.goto(`${server.base}/console/approvals/${id}`)
    expect(answer?.status()).toBe(status)
    await page.getByText(words, { exact: true }).first().waitFor()
    const mayDecide = who === 'approver' || who === 'owner'
    expect((await page.content()).includes('only-for-approvers')).toBe(mayDecide)
    expect(await violations(page)).toEqual([])
  })

  inBrowser('of another organization gets the same 404 as for no approval', async () => {
    const id = await heldCall(server)
    const { page } = await signedInAt(server, 'approver', '/console/account', phone)
    const { user_id: user } = server.identities.users.approver
    const { pool } = server.context
    const left = await pool.query('delete from memberships where user_id = $1 returning *', [user])
    try {
      const texts: (string | null)[] = []
      for (const each of [id, 'apr_01M84JRMXWJCN4SAPKWPR67K5S']) {
        const answer = await page.goto(`${server.base}/console/approvals/${each}`)
        expect(answer?.status()).toBe(404)
        texts.push(await page.locator('main').textContent())
      }
      expect(texts[1]).toBe(texts[0])
    } finally {
      for (const { organization_id: organization, role } of left.rows as {
        organization_id: string
        role: string
      }[])
        await pool.query('insert into memberships (organization_id, user_id, role) values ($1, $2, $3)', [
          organization,
          user,
          role,
        ])
    }
  })

  inBrowser('who is signed out meanwhile signs in again, and comes back', async () => {
    const id = await heldCall(server)
    const path = `/console/approvals/${id}`
    const { page } = await signedInAt(server, 'approver', path, phone)
    await page.getByLabel('Comment').fill('fine')
    await page.context().clearCookies()
    await press(page, 'Approve')
    await page.waitForURL(`**/console/sign-in?return=${encodeURIComponent(path)}`)
    expect((await call('admin', 'GET', `/approvals/${id}`)).body.status).toBe('pending')
    await fillSignIn(page, server, 'approver')
    await page.waitForURL(`**${path}`)
    await page.getByRole('button', { name: 'Approve' }).waitFor()
  })

  inBrowser.each([true, false])(
    'with two organizations chooses one of them (JavaScript: %s)',
    async (javaScriptEnabled) => {
      const { id } = await addOrganization(server.context)
      const { user_id: userId } = server.identities.users.admin
      const name = `Second & <b>Sons</b> \u202Eevil ${javaScriptEnabled}`
      await server.context.pool.query('update organizations set name = $2 where id = $1', [id, name])
      await server.context.pool.query(
        `insert into memberships (organization_id, user_id, role) values ($1, $2, 'owner')`,
        [id, userId],
      )
      await heldCall(server)
      const options = { ...phone, javaScriptEnabled }
      const { page } = await signedInAt(server, 'admin', '/console/approvals', options)
      expect(await page.locator('.item').count()).toBeGreaterThan(0)
      await page.locator('.account summary').click()
      const shown = name.replace('\u202E', 'U+202E')
      await page.getByLabel('Organization').selectOption({ label: shown })
      await press(page, 'Switch')
      await page.getByText('Nothing waits for a decision.').waitFor()
      await page.locator('.headline').getByText('Second & <b>Sons</b>', { exact: false }).waitFor()
      await server.context.pool.query('delete from memberships where organization_id = $1', [id])
    },
  )
})
