import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { plain, startPages, type PagesHome } from '../api/console/pages-home.ts'
import { inBrowser } from '../support/chromium.ts'
import { heldCall, signedInAt, violations } from './support.ts'

/* `/console/reports`: how much was held, how people decided, and how fast. */

let home: PagesHome
beforeAll(async () => {
  home = await startPages()
  const none = plain(await home.main(path, 'admin'))
  for (const said of ['Nothing was held in this time.', 'No agent began to work in this time.'])
    expect(none).toContain(said)
  for (let call = 0; call < 11; call += 1) {
    const id = await heldCall(home.server)
    if (call < 10) await home.call('approver', 'POST', `/approvals/${id}/approve`, {})
  }
})
afterAll(() => home?.server.close())

const path = '/console/reports'
const today = () => new Date().toISOString().slice(0, 10)

describe.each([true, false])('with JavaScript: %s', (javaScriptEnabled) => {
  inBrowser('an admin reads what was held, chooses a time, and takes a table along', async () => {
    const phone = { viewport: { width: 390, height: 844 } }
    const { page } = await signedInAt(home.server, 'admin', path, { ...phone, javaScriptEnabled })
    await page.getByText('11: 10 approved, 0 rejected, 1 still wait').waitFor()
    await page.getByText('100 % of all approvals came within ten seconds.').waitFor()
    await page.getByText('One rule holds calls that people always approve').waitFor()
    await page.getByRole('row', { name: /Agents ask before they send.*Always approved/ }).waitFor()
    await page.getByRole('img', { name: /^Decisions: 0 allowed, 11 held, 0 denied/ }).waitFor()
    if (javaScriptEnabled) expect(await violations(page)).toEqual([])
    const [file] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('link', { name: 'CSV of “Who approved most”' }).click(),
    ])
    expect(file.suggestedFilename()).toBe('countersign-approvers.csv')

    const month = today().slice(0, 7)
    await page.getByLabel('Time', { exact: true }).selectOption(month)
    await page.getByRole('button', { name: 'Show', exact: true }).click()
    await page.waitForURL(`**${path}?time=${month}`)
    await page.getByText('11: 10 approved').waitFor()
    await page.locator('summary', { hasText: 'Other days' }).click()
    await page.getByLabel('From the day').fill('2020-01-01')
    await page.getByLabel('To the day').fill('2020-01-02')
    await page.getByRole('button', { name: 'Show these days' }).click()
    await page.getByText('How much was held from 2020-01-01 to 2020-01-02').waitFor()
    await page.getByText('Nothing was held in this time.').waitFor()
  })
})

test('the files have the same time, and no cell that a program would compute', async () => {
  const agent = { agent: { name: '=1+1;=2', kind: 'claude-code' }, session_id: 's', tool_name: 'Bash' }
  await home.server.call(home.server.identities.agent_key, 'POST', '/authorize', {
    ...agent,
    tool_input: { command: 'git push' },
  })
  const read = async (place: string) =>
    (await home.get(`${path}/${place}`, await home.cookieOf('admin'))).text()
  expect(await read('agents.csv')).toContain(`"'=1+1;'=2","1","0","1","0","0"\r\n`)
  const days = await read(`days.csv?from=${today()}&to=${today()}`)
  expect(days).toMatch(/^"day","held","approved","rejected","expired","median_decision_seconds"\r\n/)
  expect(days).toContain(`\r\n"${today()}","12","10","0","0",`)
  expect(await read('days.csv?from=2020-01-01&to=2020-01-02')).toBe('"nothing"\r\n')
  expect(await read('rules.csv')).toContain('"Agents ask before they send","12","10","0","true"')
  for (const [place, status] of [
    ['other.csv', 404],
    ['days.csv?time=never', 422],
    // The last day that a date can be.
    ['days.csv?to=%2B275760-09-13', 422],
  ] as const)
    // prettier-ignore
    expect((await home.get(`${path}/${place}`, await home.cookieOf('admin'))).status).toBe(status)
  for (const place of [path, `${path}/days.csv`])
    expect((await home.get(place, await home.cookieOf('member'))).status).toBe(403)
})
