import { afterAll, afterEach, beforeAll, beforeEach, describe, expect } from '@jest/globals'
import type { Page } from 'playwright-core'
import { addOrganization } from '../api/fixtures.ts'
import { startTestServer, type TestServer } from '../api/server.ts'
import { inBrowser, openPage } from '../support/chromium.ts'
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

/* The pages for approvers in a real browser: before a decision, after it, and while others decide. */

const phone = { viewport: { width: 360, height: 740 } }
/** Tests with JavaScript and without. */
const eitherWay = inBrowser.each([true, false])
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
const vote = (id: string, decision: 'approve' | 'reject', body: object = {}) =>
  call('admin', 'POST', `/approvals/${id}/${decision}`, body)
const settle = (runId: string) => call('admin', 'POST', `/runs/${runId}/steps/s/resolve`, { outcome: 'done' })
const statusOf = async (id: string): Promise<unknown> => (await call('admin', 'GET', `/approvals/${id}`)).body
/** The page of an approval, as this person sees it. */
const pageOf = async (id: string, options: Parameters<typeof openPage>[0] = {}, who: Who = 'approver') =>
  (await signedInAt(server, who, `/console/approvals/${id}`, options)).page
const listOf = async (who: Who, options: Parameters<typeof openPage>[0] = {}) =>
  (await signedInAt(server, who, '/console/approvals', options)).page
/** A call of an agent that pushes to this branch. Returns the id of its approval. */
const push = (branch: string) => heldCall(server, { command: `git push origin ${branch}` })
const mail = (to: unknown = 'ana@a.example') => ({
  tool: 'mail_send',
  params: { to, subject: 'Invoice', text: 'Please pay.' },
})
/** The only approval of a run. */
const approvalOf = async (runId: string): Promise<string> => (await approvalsOf(server, runId))[0] ?? ''
const widthOf = (page: Page) => page.evaluate('document.documentElement.scrollWidth')

const governance = (settings: object) =>
  call('owner', 'PATCH', `/organizations/${server.identities.organization_id}/governance`, settings)

describe('an approval that needs two votes', () => {
  beforeEach(() => governance({ approval_threshold: 2 }))
  afterEach(() => governance({ approval_threshold: 1, approval_required_from: null }))

  inBrowser('shows the first vote on the call of a run, whose page reads the run’s events', async () => {
    const id = await approvalOf(await heldStep(server, mail()))
    const page = await pageOf(id)
    expect(await page.locator('[data-events]').count()).toBe(1)
    // The stream begins with the earlier events, which make the page look once.
    const looked = page.waitForResponse((answer) => answer.request().resourceType() === 'fetch')
    await page.reload()
    await looked
    await vote(id, 'approve')
    await page.getByText('Needs 1 more approval by an admin or owner').waitFor()
    await page.locator('.vote', { hasText: 'Approves' }).waitFor()
    await call('owner', 'POST', `/approvals/${id}/reject`, {})
    await page.getByText('rejected it. It will not happen.').waitFor()
  })
})

describe('the list of approvals that stays open', () => {
  inBrowser('shows the first one, and is empty when the last one is decided elsewhere', async () => {
    const page = await listOf('owner')
    await page.getByText('Nothing waits for a decision.').waitFor()
    const id = await push('live')
    await page.getByRole('link', { name: 'git push origin live' }).waitFor()
    await page.getByText('1 waits').waitFor()
    await vote(id, 'approve')
    await page.getByText('Nothing waits for a decision.').waitFor()
    expect(await page.locator('.item').count()).toBe(0)
  })

  inBrowser('shows a call whose outcome becomes unknown, until somebody settles it', async () => {
    const page = await listOf('owner')
    await page.getByText('Nothing waits for a decision.').waitFor()
    const runId = await lostCall(server)
    const other = await lostCall(server)
    await page.getByText('Outcome unknown').nth(1).waitFor()
    // The form that the reader has unfolded stays so when another call leaves the list.
    await page.getByText('What became of it?').nth(1).click()
    await settle(other)
    await page.locator(`a[href*="${other}"]`).waitFor({ state: 'detached' })
    expect(await page.getByRole('button', { name: 'It happened…' }).isVisible()).toBe(true)
    await settle(runId)
    await page.getByText('Outcome unknown').waitFor({ state: 'detached' })
  })
})

const bottomOf = async (page: Page, name: string): Promise<number> => {
  const box = await page.getByRole('button', { name, exact: true }).boundingBox()
  return (box?.y ?? Number.NaN) + (box?.height ?? 0)
}

describe('the decision', () => {
  inBrowser('stays in reach on a phone, and hides nothing that has the focus', async () => {
    const id = await heldCall(server, { command: 'git push', notes: 'a line\n'.repeat(400) })
    const page = await pageOf(id, phone)
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
    await page.getByText('Show all').first().click()
    await page.evaluate('scrollTo(0, 2000)')
    expect(await bottomOf(page, 'Approve')).toBeLessThanOrEqual(740)
    const summary = page.getByText('Exactly as it will run')
    await summary.focus()
    const at = await summary.boundingBox()
    expect((at?.y ?? 999) + (at?.height ?? 0)).toBeLessThanOrEqual(bar?.y ?? 0)
  })

  eitherWay('that was refused keeps the comment (JavaScript: %s)', async (javaScriptEnabled) => {
    const id = await heldCall(server)
    const page = await pageOf(id, { ...phone, javaScriptEnabled })
    await press(page, 'Request changes')
    const alert = page.locator('.decide').getByRole('alert')
    await alert.getByText('Say in the comment what should change').waitFor()
    await page.locator('#comment:focus').waitFor()
    await page.getByLabel('Comment').fill('use a branch')
    await press(page, 'Request changes')
    await page.getByText('requested changes. It will not happen as it is.').waitFor()
    await page.getByText('use a branch').waitFor()
  })

  inBrowser('pressed twice counts once, and a page left open elsewhere reads what happened', async () => {
    const id = await heldCall(server)
    const options = { ...phone, javaScriptEnabled: false }
    const [left, page] = [await pageOf(id, options, 'owner'), await pageOf(id, options)]
    await page.getByRole('button', { name: 'Approve' }).dblclick()
    await page.getByText('Approved', { exact: true }).first().waitFor()
    await press(left, 'Reject')
    await left.getByRole('alert').getByText('already').waitFor()
    expect(await statusOf(id)).toMatchObject({ status: 'approved', votes: [{ decision: 'approve' }] })
  })
})

describe('a call of a run', () => {
  inBrowser('is called sent only after it was sent', async () => {
    const id = await approvalOf(await heldStep(server, mail()))
    const page = await pageOf(id, phone)
    await page.getByRole('heading', { name: 'Send a mail to ana@a.example' }).waitFor()
    await page.getByRole('heading', { name: 'What would be sent' }).waitFor()
    await page.getByText('Cannot be taken back').waitFor()
    await press(page, 'Approve')
    await page.getByRole('heading', { name: 'What was approved' }).waitFor()
    await page.getByText('Exactly as it was approved').waitFor()
    expect(await page.getByText('What was sent').count()).toBe(0)
  })

  inBrowser('of a list names its item, and the others wait on', async () => {
    const items = ['ana@a.example', 'bo@b.example']
    const runId = await heldStep(server, mail('{{item}}'), { items, name: 'Remind them' })
    const ids = await approvalsOf(server, runId)
    expect(ids).toHaveLength(2)
    const page = await pageOf(ids[1] ?? '', phone)
    await page.getByText('item 2').first().waitFor()
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
      const page = await pageOf(id, { viewport: { width, height: 740 }, colorScheme })
      const line = (kind: string) => page.locator(`.diff-line.${kind}`).allTextContents()
      expect(await line('removed')).toEqual(['−removed: Basic 10 EUR'])
      expect(await line('added')).toEqual(['+added: Basic 12 EUR'])
      expect(await line('same')).toEqual([' Team 40 EUR', ' <b>Enterprise</b> ask'])
      expect(await page.locator('.diff-line mark').allTextContents()).toEqual(['10', '12'])
      expect(await violations(page)).toEqual([])
      expect(await widthOf(page)).toBe(width)
    }
  })
})

describe('an unknown outcome', () => {
  const waitsOf = async (runId: string) => (await call('admin', 'GET', `/runs/${runId}`)).body.waiting_for

  inBrowser.each([
    ['It happened…', true],
    ['Count it as failed', false],
  ] as const)('is settled from the list by “%s” (JavaScript: %s)', async (choice, javaScriptEnabled) => {
    const runId = await lostCall(server)
    const page = await listOf('admin', { ...phone, javaScriptEnabled })
    const item = page.locator('.plain-item', { hasText: 'Outcome unknown' }).first()
    if (javaScriptEnabled) expect(await violations(page)).toEqual([])
    await item.getByText('What became of it?').click()
    await item.getByRole('button', { name: choice }).click()
    if (choice === 'It happened…') {
      await page.getByText('It left no mark at').waitFor()
      await page.getByRole('button', { name: 'It happened: go on' }).click()
      await page.getByText('look at the service first').first().waitFor()
      expect(await waitsOf(runId)).toHaveLength(1)
      await page.getByLabel('Message id').fill('<1@b.test>')
      await page.getByLabel('I have looked').check()
      await page.getByLabel('Accepted').fill('["a@b.test"]')
      await page.getByRole('button', { name: 'It happened: go on' }).click()
    }
    await page.waitForURL(`**/console/runs/${runId}`)
    expect(await waitsOf(runId)).toEqual([])
    const said = choice === 'It happened…' ? 'said that it happened' : 'counted it as failed'
    await page.getByText(said).first().waitFor()
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
      await page.getByRole('button', { name: 'It happened…' }).first().click()
      await page.getByText('The call was made again meanwhile').waitFor()
      expect(await waitsOf(runId)).toHaveLength(1)
      await page.getByText('(attempt 2)').waitFor()
      await page.getByRole('button', { name: 'It happened…' }).first().click()
      await page.getByLabel('I have looked').check()
      await page.getByRole('button', { name: 'It happened: go on' }).click()
      await page.waitForURL(`**/console/runs/${runId}`)
      expect(await waitsOf(runId)).toEqual([])
    },
  )
})

describe('the reader', () => {
  inBrowser('who is signed out meanwhile signs in again, and comes back', async () => {
    const id = await heldCall(server)
    const path = `/console/approvals/${id}`
    const page = await pageOf(id, phone)
    await page.getByLabel('Comment').fill('fine')
    await page.context().clearCookies()
    await press(page, 'Approve')
    await page.waitForURL(`**/console/sign-in?return=${encodeURIComponent(path)}`)
    expect(await statusOf(id)).toMatchObject({ status: 'pending' })
    await fillSignIn(page, server, 'approver')
    await page.waitForURL(`**${path}`)
    await page.getByRole('button', { name: 'Approve' }).waitFor()
  })

  eitherWay('with two organizations chooses one of them (JavaScript: %s)', async (javaScriptEnabled) => {
    const { id } = await addOrganization(server.context)
    const { user_id: userId } = server.identities.users.admin
    const name = `Second & <b>Sons</b> \u202Eevil ${javaScriptEnabled}`
    await server.context.pool.query('update organizations set name = $2 where id = $1', [id, name])
    const join = `insert into memberships (organization_id, user_id, role) values ($1, $2, 'owner')`
    await server.context.pool.query(join, [id, userId])
    await heldCall(server)
    const page = await listOf('admin', { ...phone, javaScriptEnabled })
    expect(await page.locator('.item').count()).toBeGreaterThan(0)
    await page.locator('.account summary').click()
    const shown = name.replace('\u202E', 'U+202E')
    await page.getByLabel('Organization').selectOption({ label: shown })
    await press(page, 'Switch')
    await page.getByText('Nothing waits for your decision.').waitFor()
    await page.locator('.headline').getByText('Second & <b>Sons</b>').waitFor()
    await server.context.pool.query('delete from memberships where organization_id = $1', [id])
  })
})

describe('an approval', () => {
  inBrowser('is decided by somebody who follows its link, signs in, reads and approves', async () => {
    const id = await push('main')
    const { page, foreign, errors } = await openPage(phone)
    await page.goto(`${server.base}/console/approvals/${id}`)
    await fillSignIn(page, server, 'approver')
    await page.waitForURL(`${server.base}/console/approvals/${id}`)
    await page.getByText('git push origin main').first().waitFor()
    await page.getByText('Agents ask before they send').waitFor()
    expect(await widthOf(page)).toBe(360)
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
})

describe('a long text', () => {
  inBrowser('takes the place of its beginning when it is opened, and is not cut', async () => {
    const id = await heldCall(server, { command: `git push ${'origin\n'.repeat(200)} the-end` })
    const page = await pageOf(id)
    const long = page.locator('.fields .long').first()
    await long.locator('summary').click()
    await long.locator('details > .text').waitFor()
    expect(await long.locator(':scope > .text').isVisible()).toBe(false)
    const room = 'document.querySelector(".fields .long details > .text")'
    expect(await page.evaluate(`${room}.scrollHeight <= ${room}.clientHeight`)).toBe(true)
  })
})

describe('the header', () => {
  inBrowser('shows the whole address at 1280 px', async () => {
    const page = await listOf('approver', { viewport: { width: 1_280, height: 740 } })
    const words = 'document.querySelector(".account .words")'
    expect(await page.evaluate(`${words}.scrollWidth <= ${words}.clientWidth`)).toBe(true)
  })
})

describe('the pages of an approval and of the list', () => {
  inBrowser('are used by keys alone, which decide nothing before a button is pressed', async () => {
    const id = await push('by-keys')
    const page = await listOf('approver')
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

  inBrowser('move by keys from an unknown outcome to the approvals below it, and back', async () => {
    const runId = await lostCall(server)
    const id = await push('below')
    const page = await listOf('approver')
    const focused = () => page.evaluate('document.activeElement.getAttribute("href")')
    await page.keyboard.press('j')
    expect(await focused()).toBe(`/console/runs/${runId}#waits`)
    await page.keyboard.press('j')
    expect(await focused()).toBe(`/console/approvals/${id}`)
    await page.keyboard.press('k')
    expect(await focused()).toBe(`/console/runs/${runId}#waits`)
    await settle(runId)
    await vote(id, 'reject')
  })

  inBrowser('show long addresses and names whole at 360 px', async () => {
    const { user_id: userId, email } = server.identities.users.member
    const long = `${'a-very-long-name.'.repeat(3)}of-somebody@a-long-name-of-a-company.example`
    const rename = (to: string) =>
      server.context.pool.query('update users set email = $1 where id = $2', [to, userId])
    await rename(long)
    try {
      const id = await heldCall(server)
      const page = await listOf('approver', phone)
      await page.locator('.item').getByText(long).first().waitFor()
      const cut = `[...document.querySelectorAll('.item-words, .item-words *')].filter(
        (each) => each.scrollHeight > each.clientHeight + 1 && getComputedStyle(each).overflow !== 'visible',
      ).length`
      expect(await page.evaluate(cut)).toBe(0)
      await vote(id, 'reject')
    } finally {
      await rename(email)
    }
  })

  inBrowser.each(sizes)('open an approval from anywhere in its low row, at %d px', async (width) => {
    const id = await push('row')
    const page = await listOf('approver', { viewport: { width, height: 740 } })
    const row = page.locator('.item', { has: page.locator(`a[href$="${id}"]`) })
    const box = await row.boundingBox()
    expect(box?.height).toBeLessThan(140)
    await row.click({ position: { x: 8, y: (box?.height ?? 0) - 8 } })
    expect(await page.locator(`#choose-${id}`).isChecked()).toBe(true)
    await row.click({ position: { x: (box?.width ?? 0) - 8, y: (box?.height ?? 0) - 8 } })
    await page.waitForURL(`**/console/approvals/${id}`)
    await vote(id, 'reject')
  })

  inBrowser('show how many calls are chosen, and that different ones are not approved together', async () => {
    const ids = [
      await push('one'),
      await push('two'),
      await heldCall(server, { to: 'a@b.example' }, 'mcp__mail__send_mail'),
    ]
    const page = await listOf('approver')
    const approve = page.getByRole('button', { name: 'Approve the chosen' })
    expect(await approve.isVisible()).toBe(false)
    await page.locator(`#choose-${ids[0]}`).check()
    await approve.waitFor()
    await page.locator(`#choose-${ids[1]}`).check()
    await page.locator('.bulk').getByText('(2 chosen)').waitFor()
    expect(await approve.isEnabled()).toBe(true)
    const mixed = page.getByText('so they cannot be approved together')
    expect(await mixed.isVisible()).toBe(false)
    await page.locator(`#choose-${ids[2]}`).check()
    await mixed.waitFor()
    expect(await approve.isEnabled()).toBe(false)
    expect(await page.getByRole('button', { name: 'Reject the chosen' }).isEnabled()).toBe(true)
    expect(await violations(page)).toEqual([])
    await page.locator(`#choose-${ids[2]}`).uncheck()
    await approve.click()
    await page.getByText('You approved 2 calls.').waitFor()
    await vote(ids[2] ?? '', 'reject')
  })

  inBrowser('change by themselves when somebody else decides, and keep what was written', async () => {
    const id = await heldCall(server)
    const page = await pageOf(id)
    await page.getByLabel('Comment').fill('my words')
    await vote(id, 'reject', { comment: 'another way, please', request_changes: true })
    await page.getByText('requested changes. It will not happen as it is.').waitFor()
    await page.getByText('another way, please').waitFor()
    expect(await page.getByRole('button', { name: 'Approve' }).count()).toBe(0)
  })
})

describe('text of strangers', () => {
  inBrowser.each(sizes)('forges no line at %d px, and a megabyte does not break the page', async (width) => {
    const hostile =
      'curl x\u202Egpj.exe\u2066\n\nApproved\u2028by owner \u{1F1E9}\u{1F1EA} </h1><script>window.forged=1</script>'
    const id = await heldCall(server, {
      command: hostile,
      'note</dt><dd>Approved': 'x'.repeat(1_000_000),
      '\u202Ereversed': 'y',
    })
    const { page, errors } = await signedInAt(server, 'approver', `/console/approvals/${id}`, {
      viewport: { width, height: 740 },
    })
    expect(await page.evaluate('window.forged')).toBeUndefined()
    expect(await widthOf(page)).toBe(width)
    // The heading is one line of text, and names hidden marks in words.
    const title = await page.locator('h1').textContent()
    expect(title).toContain('U+202E')
    expect(title).not.toMatch(/[\n\u202E\u2066\u2028]/)
    // The most important field comes first, whatever order the agent sent.
    expect(await page.locator('.fields dt').first().textContent()).toBe('command')
    expect(await page.locator('.badge', { hasText: /^Approved$/ }).count()).toBe(0)
    expect(errors).toEqual([])
    expect(await widthOf(await listOf('approver', { viewport: { width, height: 740 } }))).toBe(width)
    await vote(id, 'reject')
  })

  inBrowser('in a comment stays in its place', async () => {
    const id = await heldCall(server)
    const comment = 'fine\n\nowner@countersign.test approved.\n\u202Eevil <b>bold</b>'
    await vote(id, 'reject', { comment })
    const page = await pageOf(id, phone)
    const quote = page.locator('.vote blockquote')
    expect(await quote.textContent()).toBe(comment.replace('\u202E', 'U+202E'))
    expect(await page.locator('b').count()).toBe(0)
  })
})
