import { afterAll, beforeAll, describe, expect } from '@jest/globals'
import { startPages, type PagesHome } from '../api/console/pages-home.ts'
import { inBrowser } from '../support/chromium.ts'
import { aWebhookTrigger, signedInAt, violations } from './support.ts'

/* `/console/triggers`, and the page of one. */

let home: PagesHome
beforeAll(async () => {
  home = await startPages()
  // It makes a workflow and a service account, too.
  await aWebhookTrigger(home.server)
})
afterAll(() => home?.server.close())

const path = '/console/triggers'
const phone = { viewport: { width: 390, height: 844 } }

describe.each([true, false])('with JavaScript: %s', (javaScriptEnabled) => {
  inBrowser('an admin makes a schedule, pauses, resumes and deletes it', async () => {
    const { page } = await signedInAt(home.server, 'approver', path, { ...phone, javaScriptEnabled })
    await page.getByRole('link', { name: 'New schedule' }).click()
    await page.getByLabel('Name').fill('nightly')
    await page.getByLabel('Cron pattern').fill('0 0 9 * * *')
    await page.getByRole('button', { name: 'Create the schedule' }).click()
    await page.getByRole('alert').waitFor()
    expect(await page.getByLabel('Cron pattern').getAttribute('aria-invalid')).toBe('true')
    if (javaScriptEnabled) expect(await violations(page)).toEqual([])
    await page.getByLabel('Cron pattern').fill('0 9 * * *')
    await page.getByLabel('Time zone').fill('Europe/Berlin')
    await page.getByRole('button', { name: 'Create the schedule' }).click()
    await page.getByRole('heading', { level: 1, name: 'nightly' }).waitFor()
    expect(await page.getByText('0 9 * * * (Europe/Berlin)').count()).toBe(1)
    await page.getByRole('button', { name: 'Pause' }).click()
    await page.getByText('paused by').waitFor()
    await page.getByRole('button', { name: 'Resume' }).click()
    await page.getByRole('button', { name: 'Pause' }).waitFor()
    await page.locator('summary', { hasText: 'Delete' }).click()
    await page.getByRole('button', { name: 'Delete the trigger' }).click()
    await page.getByRole('heading', { level: 1, name: 'Triggers' }).waitFor()
    expect(await page.getByText('nightly').count()).toBe(0)
  })

  inBrowser('a webhook shows its secret once, and its page the firing of a message', async () => {
    const { page } = await signedInAt(home.server, 'approver', path, { ...phone, javaScriptEnabled })
    await page.getByRole('link', { name: 'New webhook' }).click()
    const name = `bugs ${javaScriptEnabled}`
    await page.getByLabel('Name').fill(name)
    await page.getByLabel('Inputs').fill('{"text": "{{ body.title }}"}')
    await page.getByLabel('The sender proves itself by').selectOption('bearer')
    await page.getByRole('button', { name: 'Create the webhook' }).click()
    await page.getByText('Copy it now.').waitFor()
    const secret = await page.locator('#secret').innerText()
    await page.getByRole('link', { name: 'Go to the trigger' }).click()
    await page.getByRole('heading', { level: 1, name }).waitFor()
    expect(await page.content()).not.toContain(secret)
    const id = new URL(page.url()).pathname.split('/').at(-1)
    const sent = await fetch(`${home.server.base}/api/v1/deliveries/${id}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${secret}`, 'content-type': 'application/json' },
      body: '{"title": "A bug"}',
    })
    expect(sent.status).toBe(202)
    await page.reload()
    await page.getByRole('link', { name: 'Open the run' }).waitFor()
    if (javaScriptEnabled) expect(await violations(page)).toEqual([])
    await page.getByRole('link', { name: 'Open the run' }).click()
    await page.getByText(`The trigger ${name} of clerk-`).waitFor()
    await page.getByRole('link', { name }).click()
    await page.getByRole('heading', { level: 1, name }).waitFor()
    await page.goto(`${home.server.base}/console/runs`)
    await page.getByText(`Trigger ${name}, clerk-`).waitFor()
  })
})
