import { afterAll, beforeAll, describe, expect } from '@jest/globals'
import { startTestServer, type TestServer } from '../api/server.ts'
import { inBrowser, openPage } from '../support/chromium.ts'
import { fillSignIn, heldCall, holdAgents, lostCall, signedInAt, violations } from './support.ts'

/* The console's pages in a real browser. */

let server: TestServer
beforeAll(async () => {
  server = await startTestServer({ env: { SMTP_URL: 'smtp://127.0.0.1:1' } })
  await holdAgents(server)
})
afterAll(() => server.close())

const phone = { viewport: { width: 360, height: 740 } }
const sizes = [360, 1280] as const
const call = (method: string, path: string, body: object) =>
  server.call(server.identities.users.admin.api_key, method, path, body)
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

  inBrowser('move by keys from an unknown outcome to the approvals below it, and back', async () => {
    const runId = await lostCall(server)
    const id = await heldCall(server, { command: 'git push origin below' })
    const { page } = await signedInAt(server, 'approver', '/console/approvals')
    const focused = () => page.evaluate('document.activeElement.getAttribute("href")')
    await page.keyboard.press('j')
    expect(await focused()).toBe(`/console/runs/${runId}#waits`)
    await page.keyboard.press('j')
    expect(await focused()).toBe(`/console/approvals/${id}`)
    await page.keyboard.press('k')
    expect(await focused()).toBe(`/console/runs/${runId}#waits`)
    await call('POST', `/runs/${runId}/steps/s/resolve`, { outcome: 'done' })
    await call('POST', `/approvals/${id}/reject`, {})
  })

  inBrowser('show long addresses and names whole at 360 px', async () => {
    const { user_id: userId, email } = server.identities.users.member
    const long = `${'a-very-long-name.'.repeat(3)}of-somebody@a-long-name-of-a-company.example`
    const rename = (to: string) =>
      server.context.pool.query('update users set email = $1 where id = $2', [to, userId])
    await rename(long)
    try {
      const id = await heldCall(server)
      const { page } = await signedInAt(server, 'approver', '/console/approvals', phone)
      await page.locator('.item').getByText(long).first().waitFor()
      const cut = `[...document.querySelectorAll('.item-words, .item-words *')].filter(
        (each) => each.scrollHeight > each.clientHeight + 1 && getComputedStyle(each).overflow !== 'visible',
      ).length`
      expect(await page.evaluate(cut)).toBe(0)
      await call('POST', `/approvals/${id}/reject`, {})
    } finally {
      await rename(email)
    }
  })

  inBrowser('open an approval from anywhere in its row, and choose it at its box', async () => {
    const id = await heldCall(server, { command: 'git push origin row' })
    const { page } = await signedInAt(server, 'approver', '/console/approvals', phone)
    const row = page.locator('.item', { has: page.locator(`a[href$="${id}"]`) })
    const box = await row.boundingBox()
    await row.click({ position: { x: 8, y: (box?.height ?? 0) - 8 } })
    expect(await page.locator(`#choose-${id}`).isChecked()).toBe(true)
    await row.click({ position: { x: (box?.width ?? 0) - 8, y: (box?.height ?? 0) - 8 } })
    await page.waitForURL(`**/console/approvals/${id}`)
    await call('POST', `/approvals/${id}/reject`, {})
  })

  inBrowser(
    'show how many calls are chosen, and that different ones cannot be approved together',
    async () => {
      const ids = [
        await heldCall(server, { command: 'git push origin one' }),
        await heldCall(server, { command: 'git push origin two' }),
        await heldCall(server, { to: 'a@b.example' }, 'mcp__mail__send_mail'),
      ]
      const { page } = await signedInAt(server, 'approver', '/console/approvals')
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
      await call('POST', `/approvals/${ids[2]}/reject`, {})
    },
  )

  inBrowser('change by themselves when somebody else decides, and keep what was written', async () => {
    const id = await heldCall(server)
    const { page } = await signedInAt(server, 'approver', `/console/approvals/${id}`)
    await page.getByLabel('Comment').fill('my words')
    await server.call(server.identities.users.admin.api_key, 'POST', `/approvals/${id}/reject`, {
      comment: 'another way, please',
      request_changes: true,
    })
    await page.getByText('requested changes. It will not happen as it is.', { exact: false }).waitFor()
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
      expect(row?.height).toBeLessThan(140)
      expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(width)
    }
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
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(width)
    // The heading is one line of text, and names hidden marks in words.
    const title = await page.locator('h1').textContent()
    expect(title).toContain('U+202E')
    expect(title).not.toMatch(/[\n\u202E\u2066\u2028]/)
    // The most important field comes first, whatever order the agent sent.
    expect(await page.locator('.fields dt').first().textContent()).toBe('command')
    expect(await page.locator('.badge', { hasText: /^Approved$/ }).count()).toBe(0)
    expect(errors).toEqual([])
    const list = await signedInAt(server, 'approver', '/console/approvals', {
      viewport: { width, height: 740 },
    })
    expect(await list.page.evaluate('document.documentElement.scrollWidth')).toBe(width)
    await call('POST', `/approvals/${id}/reject`, {})
  })

  inBrowser('in a comment stays in its place', async () => {
    const id = await heldCall(server)
    const comment = 'fine\n\nowner@countersign.test approved.\n\u202Eevil <b>bold</b>'
    await call('POST', `/approvals/${id}/reject`, { comment })
    const { page } = await signedInAt(server, 'approver', `/console/approvals/${id}`, phone)
    const quote = page.locator('.vote blockquote')
    expect(await quote.textContent()).toBe(comment.replace('\u202E', 'U+202E'))
    expect(await page.locator('b').count()).toBe(0)
  })
})
