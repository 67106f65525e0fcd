import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import type { Page } from 'playwright-core'
import { decideSteps } from '../../src/calls/runs/effect.ts'
import { plain, startPages, type PagesHome } from '../api/console/pages-home.ts'
import { addOrganization } from '../api/fixtures.ts'
import type { TestServer } from '../api/server.ts'
import { opOf } from '../governance/runs/engine-fixture.ts'
import { exactly } from '../../src/console/parts/time.tsx'
import { inBrowser } from '../support/chromium.ts'
import {
  agentSession,
  heldRun,
  holdMail,
  signedInAt,
  startRun,
  tabTo,
  unknownRun,
  type Who,
} from './support.ts'

/* The pages of runs: over HTTP, and in a real browser. */

let home: PagesHome
let server: TestServer
beforeAll(async () => {
  home = await startPages()
  server = home.server
  await holdMail(server)
})
afterAll(() => home?.server.close())

const main = (path: string, who: Who = 'admin') => home.main(path, who)
const post = async (path: string, fields: Record<string, string>, who: Who = 'admin') =>
  home.post(path, { token: await home.tokenOf(path, who), ...fields }, {}, await home.cookieOf(who))
const runOf = async (id: string) => (await home.call('admin', 'GET', `/runs/${id}`)).body
/** Decides about step `s` of a run, as a worker would. */
const decideStep = (runId: string) =>
  server.context.combiner.join(server.identities.organization_id, decideSteps, opOf(runId))

describe('the list of runs', () => {
  test('is searched by workflow, state, person and day', async () => {
    const id = await heldRun(server)
    const { created_at } = await runOf(id)
    const shows = async (query: string) => (await main(`/console/runs?${query}`)).includes(`/runs/${id}"`)
    const day = created_at.slice(0, 10)
    const fitting = ['workflow_name=the+REPORT', 'status=paused', 'requester_email=MEMBER%40']
    for (const query of ['', ...fitting, `from=${day}&to=${day}`])
      expect([query, await shows(query)]).toEqual([query, true])
    const others = ['workflow_name=%25', 'status=failed', 'requester_email=owner%40', 'to=2020-01-01']
    for (const query of [...others, 'from=2999-01-01'])
      expect([query, await shows(query)]).toEqual([query, false])
    expect(await main('/console/runs?workflow_name=nothing-like-it')).toContain('No run matches.')
    expect(plain(await main('/console/runs'))).toMatch(/Organization: \S/)
    expect((await home.get('/console/runs?from=yesterday')).status).toBe(422)
  })

  test('has pages, and says what waits and for how long', async () => {
    for (let count = 0; count < 51; count += 1) await startRun(server, { name: 'Many' })
    const first = await main('/console/runs?workflow_name=Many')
    const next = /href="([^"]*cursor=[^"]*)"/.exec(first)?.[1]?.replaceAll('&amp;', '&') ?? ''
    expect([first.match(/class="item-link"/g)?.length, next]).toEqual([
      50,
      expect.stringContaining('workflow_name=Many'),
    ])
    expect((await main(next)).match(/class="item-link"/g)).toHaveLength(1)
    await heldRun(server)
    expect(await main('/console/runs?status=paused')).toMatch(
      /waits for approval by an admin or owner.* For <time/,
    )
  })
})

describe('a run’s page', () => {
  test('shows each step in both pictures and in the list, what waits, and values of inputs to few', async () => {
    const id = await heldRun(server)
    const text = await main(`/console/runs/${id}`)
    const [approval] = (await runOf(id)).waiting_for
    for (const step of ['first', 's', 'last'])
      expect(text.match(new RegExp(`/console/runs/${id}/steps/${step}"`, 'g'))).toHaveLength(3)
    // Two lines in each of the two pictures.
    expect(text.match(/class="line/g)).toHaveLength(4)
    expect(text).toContain(`/console/approvals/${approval.approval_id}"`)
    expect(text).toContain('An admin or owner decides')
    // What waits has the sentence of its own page.
    expect(plain(text)).toContain('Sends an emailAn admin or owner decides')
    expect(plain(text)).toContain('In step s · Rule Mail needs a person')
    expect(text).toContain('Held for approval')
    expect(text).toContain('secret-topic')
    expect(await main(`/console/runs/${id}`, 'member')).toContain('secret-topic')
    const viewers = await main(`/console/runs/${id}`, 'viewer')
    expect(viewers).toContain('ask member@countersign.test or admins and owners')
    expect(viewers).not.toContain('secret-topic')
    expect(plain(viewers)).toContain('Approval of step s')
    expect(viewers).not.toContain('Sends an emailAn admin or owner decides')
    // A member sees the values of the own runs alone.
    const others = await heldRun(server, 'admin')
    expect(await main(`/console/runs/${others}`, 'member')).not.toContain('secret-topic')
  })

  test('names the change of another person to the requester, and its approval names the authors', async () => {
    const id = await startRun(server)
    const workflow = `/workflows/${(await runOf(id)).workflow_id}`
    const definition = { steps: [{ id: 's', tool: 'memory_get', params: { key: 'other' } }] }
    await home.call('admin', 'PUT', workflow, { definition, message: '<b>else</b>' })
    const started = await home.call('member', 'POST', `${workflow}/execute?wait=0`, {})
    const again: string = started.body.execution_id
    const textOf = async (run: string, who?: Who) => plain(await main(`/console/runs/${run}`, who))
    for (const words of [
      'admin@countersign.test changed the workflow, and this is your first run since then: version 2',
      'with the message &lt;b>else&lt;/b>',
    ])
      expect(await textOf(again, 'member')).toContain(words)
    expect(await textOf(id, 'member')).not.toContain('changed the workflow')
    expect(await textOf(again)).not.toContain('changed the workflow')
    await decideStep(again)
    const [approval] = (await runOf(again)).waiting_for
    const page = plain(await main(`/console/approvals/${approval.approval_id}`))
    expect(page).toContain('Written by admin@countersign.test.')
    expect(page).toContain('You wrote the version of the workflow that runs, and its authors cannot decide')
    expect(plain(await main('/console/approvals'))).toContain('you wrote what runs, another person decides')
  })

  test('is no place for acts that the reader may not do', async () => {
    const [held, lost] = [await heldRun(server), await unknownRun(server, 1)]
    const viewer = (await Promise.all([held, lost].map((id) => main(`/console/runs/${id}`, 'viewer')))).join()
    expect(viewer).not.toMatch(/<form|\/console\/approvals\/apr_/)
    expect(viewer).toContain('An admin or owner says what became of it.')
    expect(await main(`/console/runs/${held}`, 'member')).toContain('Cancel the run')
    const others = await heldRun(server, 'admin')
    expect(await main(`/console/runs/${others}`, 'member')).not.toContain('Cancel the run')
  })

  test('cancels with a reason, once', async () => {
    const path = `/console/runs/${await heldRun(server)}`
    const sent = { action: 'cancel', reason: 'wrong quarter', once: 'abcdefgh-cancel' }
    expect([(await post(path, sent)).status, (await post(path, sent)).status]).toEqual([303, 303])
    expect(await main(path)).toMatch(/cancelled by .*wrong quarter/)
    expect((await post(path, {}, 'member')).status).toBe(422)
  })

  test('settles unknown outcomes one by one and all of a step', async () => {
    const id = await unknownRun(server, 3)
    const path = `/console/runs/${id}`
    const left = async () =>
      (await runOf(id)).waiting_for.map((each: { item_index: number }) => each.item_index)
    const happened = `${path}/steps/s/happened`
    const asked = await post(path, { outcome: 'done', step: 's', item_index: '1' })
    expect([asked.status, asked.headers.get('location')]).toEqual([303, `${happened}?item_index=1`])
    expect((await post(happened, { item_index: '1' })).status).toBe(422)
    expect(await left()).toEqual([0, 1, 2])
    expect((await post(happened, { item_index: '1', confirmed: 'yes' })).status).toBe(303)
    expect(await left()).toEqual([0, 2])
    expect(await main(path)).toContain('name="all" value="true"')
    expect((await post(path, { outcome: 'fail', step: 's', all: 'true' }, 'member')).status).toBe(403)
    expect((await post(happened, { all: 'true', confirmed: 'yes' })).status).toBe(303)
    expect(await left()).toEqual([])
  })

  test('of a thousand steps has no picture, and the steps in parts', async () => {
    const step = { tool: 'memory_get', params: { key: 'k' } }
    const steps = Array.from({ length: 1_000 }, (_, place) => ({ id: `step-${place}`, ...step }))
    const path = `/console/runs/${await startRun(server, { name: 'Long', steps })}`
    const text = await main(path)
    expect(text).toContain('1,000 steps are too many for a picture.')
    expect(text.match(/class="row"/g)).toHaveLength(100)
    expect(await main(`${path}?steps=10`)).toContain('/steps/step-999"')
  })
})

describe('a step’s page', () => {
  test('shows parameters to the requester and admins alone', async () => {
    const path = `/console/runs/${await heldRun(server)}/steps/s`
    for (const who of ['admin', 'member'] as const) expect(await main(path, who)).toContain('a@b.test')
    const viewer = await main(path, 'viewer')
    expect(viewer).not.toContain('a@b.test')
    expect(viewer).toContain(
      'The values of a run are shown only to the person who started it and admins and owners: ask ',
    )
  })
})

test('runs and sessions of another organization are not found, and viewers see no link to sessions', async () => {
  const [run, session] = [await heldRun(server), await agentSession(server, 'Other')]
  const place = { organization_id: (await addOrganization(server.context)).id }
  await server.context.db.updateTable('runs').set(place).where('id', '=', run).execute()
  await server.context.db.updateTable('agent_sessions').set(place).where('id', '=', session).execute()
  for (const path of [`/runs/${run}`, `/runs/${run}/steps/s`, `/sessions/${session}`])
    expect([path, (await home.get(`/console${path}`)).status]).toEqual([path, 404])
  expect(await home.html('/console/runs', 'viewer')).not.toContain('href="/console/sessions"')
})

describe('in a browser', () => {
  inBrowser('a run is found and cancelled by keys alone, and its page follows it', async () => {
    const id = await heldRun(server)
    const { page } = await signedInAt(server, 'member', '/console/runs', { timezoneId: 'Pacific/Auckland' })
    await tabTo(page, `a[href="/console/runs/${id}"]`)
    await page.keyboard.press('Enter')
    await page.waitForURL(`**/console/runs/${id}`)
    const { created_at } = await runOf(id)
    const shown = page.getByText(`(${exactly(new Date(created_at), 'Pacific/Auckland')})`)
    await shown.first().waitFor()
    await tabTo(page, '#picture')
    await tabTo(page, '.ask > summary')
    await page.keyboard.press('Enter')
    await tabTo(page, '#reason')
    await page.keyboard.type('by keys')
    await tabTo(page, 'button[value="cancel"]')
    await home.call('admin', 'POST', `/runs/${id}/cancel`, { reason: 'by another' })
    await page.getByText('Cancelled', { exact: true }).first().waitFor()
    expect(await page.locator('button[value="cancel"]').count()).toBe(0)
  })

  /** A run whose step `s` waits beside four others. */
  async function wideRun(): Promise<string> {
    const first = { id: 'first', tool: 'memory_get', params: { key: 'k' } }
    const others = ['b', 'c', 'd', 'e', 's'].map((id) => ({ ...first, id, depends_on: ['first'] }))
    const id = await startRun(server, { name: 'Wide', steps: [first, ...others], inputs: { topic: 'words' } })
    await decideStep(id)
    return id
  }
  const isInside = async (page: Page, inner: string, outer: string): Promise<void> => {
    const [box, frame] = [await page.locator(inner).boundingBox(), await page.locator(outer).boundingBox()]
    expect(box?.x).toBeGreaterThanOrEqual(frame?.x ?? Infinity)
    expect((box?.x ?? 0) + (box?.width ?? 0)).toBeLessThanOrEqual((frame?.x ?? 0) + (frame?.width ?? 0))
  }

  inBrowser('a picture that is wider than its frame opens at the step that waits', async () => {
    const { page } = await signedInAt(server, 'admin', `/console/runs/${await wideRun()}`, {
      viewport: { width: 800, height: 740 },
    })
    await page.locator('.picture .box.hold').waitFor()
    await isInside(page, '.picture .box.hold', '.picture')
    expect(await page.evaluate('document.querySelector(".picture").scrollLeft')).toBeGreaterThan(0)
  })

  inBrowser('a phone shows the steps below each other, and nothing scrolls sideways', async () => {
    const { page } = await signedInAt(server, 'admin', `/console/runs/${await wideRun()}`, {
      viewport: { width: 360, height: 740 },
    })
    await page.locator('.rail .box.hold').waitFor()
    expect(await page.locator('.picture').isVisible()).toBe(false)
    await isInside(page, '.rail .box.hold', '.rail')
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(360)
    const tops = `[...document.querySelectorAll('.rail .box')].map((each) => each.getBoundingClientRect().top)`
    const found = await page.evaluate<number[]>(tops)
    expect(found.toSorted((a, b) => a - b)).toEqual(found)
    expect(new Set(found).size).toBe(6)
  })

  inBrowser('names of inputs have the whole width of their card', async () => {
    const { page } = await signedInAt(server, 'admin', `/console/runs/${await wideRun()}`)
    const name = await page.locator('.column:last-child .field dt').boundingBox()
    expect(name?.width).toBeGreaterThan(250)
  })
})
