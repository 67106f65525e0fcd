import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { plain, startPages, type PagesHome } from '../api/console/pages-home.ts'
import { inBrowser } from '../support/chromium.ts'
import { heldRun, holdMail, signedInAt, violations } from './support.ts'

/* `/console/runs/cancel`: many runs are cancelled together. */

let home: PagesHome
beforeAll(async () => {
  home = await startPages()
  await holdMail(home.server)
})
afterAll(() => home?.server.close())

const path = '/console/runs/cancel'
const statusOf = async (id: string) => (await home.call('admin', 'GET', `/runs/${id}`)).body.status
const send = async (fields: [string, string][], who: 'admin' | 'member' = 'admin', action = 'cancel') => {
  const token = await home.tokenOf(path, who)
  const all: [string, string][] = [['token', token], ['action', action], ...fields]
  return home.post(path, all, {}, await home.cookieOf(who))
}

test('a viewer is told who may, a member finds their own runs, and an admin all that are open', async () => {
  expect(plain(await home.main(path, 'viewer'))).toContain('embers cancel their own runs')
  const [own, other] = [await heldRun(home.server, 'member'), await heldRun(home.server, 'owner')]
  const ended = await heldRun(home.server, 'member')
  await home.call('member', 'POST', `/runs/${ended}/cancel`, {})
  const asMember = await home.main(path, 'member')
  expect([own, other, ended].map((id) => asMember.includes(id))).toEqual([true, false, false])
  const asAdmin = await home.main(path, 'admin')
  expect([own, other, ended].map((id) => asAdmin.includes(id))).toEqual([true, true, false])
  expect(await home.main(`${path}?status=queued`, 'admin')).toContain('No open run matches.')
  expect(await home.main(`${path}?workflow_name=nothing`, 'admin')).toContain('No open run matches.')
  const link = `href="${path}?workflow_name=report&amp;status=paused"`
  expect(await home.main('/console/runs?workflow_name=report&status=paused', 'member')).toContain(link)
})

test('what could not be cancelled is said, and the others are cancelled', async () => {
  const [own, other] = [await heldRun(home.server, 'member'), await heldRun(home.server, 'owner')]
  const answer = await send([['id', own], ['id', other]], 'member') // prettier-ignore
  expect(plain(await answer.text())).toMatch(
    new RegExp(`One run is cancelled.*not:.*${other}.*role.*admin`, 's'),
  )
  expect([await statusOf(own), await statusOf(other)]).toEqual(['cancelled', 'paused'])
})

test('without a run, or with more than the page shows, nothing is cancelled', async () => {
  expect(plain(await (await send([])).text())).toContain('choose at least one run')
  const many = Array.from({ length: 51 }, (_, place): [string, string] => ['id', `run_${place}`])
  expect(plain(await (await send(many)).text())).toContain('choose at most 50 runs')
})

test('"All of these" asks about each run that matches, and about no other', async () => {
  const [own, other] = [await heldRun(home.server, 'member'), await heldRun(home.server, 'owner')]
  const ask = async (...fields: [string, string][]) =>
    plain(await (await send(fields, 'member', 'ask')).text())
  expect(await ask()).toContain('choose at least one run')
  const all = await ask(['all', 'yes'])
  expect([all.includes(own), all.includes(other)]).toEqual([true, false])
  expect(all).toMatch(/Cancel (one|\d+) runs? for good/)
  expect(await ask(['id', own], ['id', other])).toMatch(/chose, one run ended.*Cancel one run for good/s)
  expect([await statusOf(own), await statusOf(other)]).toEqual(['paused', 'paused'])
})

describe.each([true, false])('with JavaScript: %s', (javaScriptEnabled) => {
  inBrowser('an admin chooses two, is asked with their number, and cancels them with a reason', async () => {
    const ids = [await heldRun(home.server, 'member'), await heldRun(home.server, 'owner')]
    const kept = await heldRun(home.server, 'owner')
    const phone = { viewport: { width: 390, height: 844 }, javaScriptEnabled }
    const { page } = await signedInAt(home.server, 'admin', '/console/runs', phone)
    await page.getByRole('link', { name: 'Cancel many' }).click()
    expect(await page.locator('input:checked').count()).toBe(0)
    for (const id of ids) await page.locator(`input[value="${id}"]`).check()
    if (javaScriptEnabled) expect(await violations(page)).toEqual([])
    await page.getByRole('button', { name: 'Cancel the chosen runs' }).click()
    await page.getByLabel('Reason').fill('the report is wrong')
    if (javaScriptEnabled) expect(await violations(page)).toEqual([])
    await page.getByRole('button', { name: 'Cancel 2 runs for good' }).click()
    await page.getByText('The chosen runs are cancelled.').waitFor()
    expect(await Promise.all([...ids, kept].map(statusOf))).toEqual(['cancelled', 'cancelled', 'paused'])
    const { body } = await home.call('admin', 'GET', `/runs/${ids[0]}`)
    expect(body.status_reason).toContain('the report is wrong')
  })
})
