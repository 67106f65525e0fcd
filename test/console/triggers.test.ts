import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { timesWords } from '../../src/console/parts/schedule-form.tsx'
import { plain, startPages, type PagesHome } from '../api/console/pages-home.ts'
import { inBrowser } from '../support/chromium.ts'
import type { Page } from 'playwright-core'
import { aWebhookTrigger, signedInAt, violations } from './support.ts'

/* `/console/triggers`, and the page of one. */

let home: PagesHome
let first: { workflow_id: string; service_account: string }
beforeAll(async () => {
  home = await startPages()
  // It makes a workflow and a service account, too.
  first = (await aWebhookTrigger(home.server)).body
})
afterAll(() => home?.server.close())

const path = '/console/triggers'
const phone = { viewport: { width: 390, height: 844 } }

const chooseNotes = async (page: Page) => {
  await page.getByLabel('Workflow that it starts').selectOption(first.workflow_id)
  await page.getByRole('button', { name: 'Continue' }).click()
}

describe.each([true, false])('with JavaScript: %s', (javaScriptEnabled) => {
  inBrowser('an admin makes a schedule, pauses, resumes and deletes it', async () => {
    const { page } = await signedInAt(home.server, 'approver', path, { ...phone, javaScriptEnabled })
    await page.getByRole('link', { name: 'New schedule' }).click()
    await chooseNotes(page)
    await page.getByLabel('Name').fill('nightly')
    // Only the fields of the chosen times are shown.
    expect(await page.getByLabel('Cron pattern').isVisible()).toBe(false)
    await page.getByLabel('How often').selectOption('cron')
    await page.getByLabel('Cron pattern').fill('0 0 9 * * *')
    await page.getByLabel('Version').fill('newest')
    await page.getByRole('button', { name: 'Create the schedule' }).click()
    await page.getByRole('alert').waitFor()
    expect(await page.getByLabel('Version').getAttribute('aria-invalid')).toBe('true')
    await page.getByLabel('Version').fill('latest')
    await page.getByRole('button', { name: 'Create the schedule' }).click()
    await page.locator('#cron-wrong').waitFor()
    if (javaScriptEnabled) expect(await violations(page)).toEqual([])
    await page.getByLabel('How often').selectOption('weekdays')
    await page.getByLabel('At', { exact: true }).fill('09:00')
    await page.getByLabel('Time zone').fill('Europe/Berlin')
    await page.getByLabel('Text').fill('{{ due_at }}')
    await page.getByRole('button', { name: 'Create the schedule' }).click()
    await page.getByRole('heading', { level: 1, name: 'nightly' }).waitFor()
    expect(await page.getByText('from Monday to Friday at 09:00 (Europe/Berlin)').count()).toBe(1)
    await page.locator('summary', { hasText: 'Change …' }).click()
    expect(await page.getByLabel('How often').inputValue()).toBe('weekdays')
    expect(await page.getByLabel('Text').inputValue()).toBe('{{ due_at }}')
    await page.getByLabel('Name').fill('at ten')
    await page.getByLabel('How often').selectOption('monthly')
    await page.getByLabel('Day of the month').fill('40')
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByRole('alert').waitFor()
    expect(await page.getByLabel('Name').inputValue()).toBe('at ten')
    expect(await page.getByLabel('Day of the month').getAttribute('aria-invalid')).toBe('true')
    if (javaScriptEnabled) expect(await violations(page)).toEqual([])
    await page.getByLabel('Day of the month').fill('4')
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByRole('heading', { level: 1, name: 'at ten' }).waitFor()
    expect(await page.getByText('on day 4 of each month at 09:00 (Europe/Berlin)').count()).toBe(1)
    await page.getByRole('button', { name: 'Pause' }).click()
    await page.getByText('paused by').waitFor()
    await page.getByRole('button', { name: 'Resume' }).click()
    await page.getByRole('button', { name: 'Pause' }).waitFor()
    await page.locator('summary', { hasText: 'Delete' }).click()
    await page.getByRole('button', { name: 'Delete the trigger' }).click()
    await page.getByRole('heading', { level: 1, name: 'Triggers' }).waitFor()
    expect(await page.getByText('at ten').count()).toBe(0)
    expect(await page.getByText('The trigger is deleted.').count()).toBe(1)
  })

  inBrowser('a webhook shows its secret once, and its page the firing of a message', async () => {
    const { page } = await signedInAt(home.server, 'approver', path, { ...phone, javaScriptEnabled })
    await page.getByRole('link', { name: 'New webhook' }).click()
    await chooseNotes(page)
    const name = `bugs ${javaScriptEnabled}`
    await page.getByLabel('Name').fill(name)
    await page.getByLabel('Text').fill('{{ body.title }}')
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
    await page.getByText(`The trigger ${name} of clerk`).waitFor()
    await page.getByRole('link', { name }).click()
    await page.getByRole('heading', { level: 1, name }).waitFor()
    await page.goto(`${home.server.base}/console/runs`)
    await page.getByText(`Trigger ${name}, clerk`).waitFor()
  })

  inBrowser('a poll says what is wrong with its fields, and its page what it reads', async () => {
    const { page } = await signedInAt(home.server, 'approver', path, { ...phone, javaScriptEnabled })
    await page.getByRole('link', { name: 'New poll' }).click()
    await page.getByLabel('Tool that it reads with').selectOption('memory_get')
    await chooseNotes(page)
    const name = `rows ${javaScriptEnabled}`
    await page.getByLabel('Name').fill(name)
    await page.getByLabel('List').fill('{{ item.rows }}')
    await page.getByLabel('Id of an item').fill('{{ item.id }}')
    await page.getByRole('button', { name: 'Create the poll' }).click()
    await page.getByRole('alert').waitFor()
    expect(await page.getByLabel('List').getAttribute('aria-invalid')).toBe('true')
    expect(await page.getByLabel('Key').getAttribute('aria-invalid')).toBe('true')
    if (javaScriptEnabled) expect(await violations(page)).toEqual([])
    await page.getByLabel('Key').fill('rows')
    await page.getByLabel('List').fill('{{ output.value }}')
    await page.getByRole('button', { name: 'Create the poll' }).click()
    await page.getByRole('heading', { level: 1, name }).waitFor()
    expect(await page.getByText('memory_get every 5 minutes').count()).toBe(1)
    await page.locator('summary', { hasText: 'Change …' }).click()
    expect(await page.getByLabel('Key').inputValue()).toBe('rows')
    await page.getByLabel('Every how many seconds').fill('60')
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByText('memory_get every minute').waitFor()
    if (javaScriptEnabled) expect(await violations(page)).toEqual([])
    await page.getByRole('link', { name: 'Show the calls' }).click()
    await page.getByText('No run matches.').waitFor()
  })
})

test('the forms say what to change, and workflows with one name are told apart', async () => {
  const cookie = await home.cookieOf('approver')
  const refusal = async (kind: string, fields: Record<string, string>) => {
    const token = await home.tokenOf(`${path}?new=${kind}&workflow=${first.workflow_id}`, 'approver')
    const common = { name: 't', workflow: first.workflow_id, service_account: first.service_account }
    const sent = { token, kind, version: 'latest', time_zone: 'UTC', ...common, ...fields }
    return plain(await (await home.post(path, sent, {}, cookie)).text())
  }
  const modes = { catch_up: 'last', overlap: 'skip', often: 'seconds' }
  const both = await refusal('schedule', { ...modes, every_seconds: '1h', version: 'new' })
  expect(both).toContain('Every how many seconds: Must be a number of seconds.')
  expect(both).toContain('Version: Give the number of a version')
  expect(await refusal('schedule', { ...modes, often: '' })).toContain('How often: Choose how often.')
  expect(await refusal('schedule', { ...modes, every_seconds: '60', version: '7' })).toContain(
    'Version: The workflow has no version 7',
  )
  const definition = { steps: [{ id: 's', compute: { a: 1 } }] }
  await home.call('owner', 'POST', '/workflows', { name: 'notes', slug: 'other-notes', definition })
  const shown = await home.html(`${path}?new=schedule`)
  expect(shown).toContain('>notes (other-notes)</option>')
  expect(shown).toContain(`>notes (${first.workflow_id})</option>`)
  expect(shown).toContain(`href="/console/workflows/${first.workflow_id}"`)
})

test.each([
  ['30 2 * * *', 'every day at 02:30'],
  ['0 9 * * 1-5', 'from Monday to Friday at 09:00'],
  ['5 17 * * 0', 'every Sunday at 17:05'],
  ['0 6 31 * *', 'on day 31 of each month at 06:00'],
  ['0 * * * *', 'every full hour'],
  ['*/5 * * * *', '*/5 * * * *'],
  ['0 9 1 1 *', '0 9 1 1 *'],
  ['0 9 1 * 1', '0 9 1 * 1'],
  ['0 9-17 * * *', '0 9-17 * * *'],
  ['0 9 * * 1,3', '0 9 * * 1,3'],
])('the pattern %s is shown as “%s”', (cron, words) => {
  expect(timesWords({ cron, every_seconds: null })).toBe(words)
})

test('a trigger whose service account was deleted says that it needs another one', async () => {
  const { body: made } = await aWebhookTrigger(home.server, 'lost clerk')
  const place = `/console/workflows/${made.workflow_id}/triggers/${made.id}`
  const read = async (at: string) => plain(await home.html(at))
  expect(await read(place)).not.toContain('another service account')
  await home.call(
    'owner',
    'DELETE',
    `/organizations/${home.server.identities.organization_id}/service-accounts/${made.service_account}`,
  )
  expect(await read(place)).toContain('Needs another service account')
  expect(await read(path)).toContain('Needs another service account')
})

describe('the form changes only what is another one', () => {
  type Trigger = { id: string; workflow_id: string; service_account: string }
  const make = async (more: object): Promise<Trigger> => {
    const asked = { name: 't', service_account: first.service_account, version: 'latest', ...more }
    const { status, body } = await home.call(
      'owner',
      'POST',
      `/workflows/${first.workflow_id}/triggers`,
      asked,
    )
    expect(status).toBe(201)
    return body
  }
  const now = async ({ workflow_id: workflow, id }: Trigger) =>
    (await home.call('owner', 'GET', `/workflows/${workflow}/triggers/${id}`)).body
  const save = async (
    of: Trigger,
    fields: Record<string, string>,
    who: 'approver' | 'owner' = 'approver',
  ) => {
    const place = `/console/workflows/${of.workflow_id}/triggers/${of.id}`
    const common = { name: 't', service_account: of.service_account, version: 'latest' }
    const token = await home.tokenOf(place, who)
    return home.post(place, { token, action: 'save', ...common, ...fields }, {}, await home.cookieOf(who))
  }
  const hourly = {
    often: 'seconds',
    every_seconds: '3600',
    time_zone: 'UTC',
    catch_up: 'last',
    overlap: 'skip',
  }

  test('so a schedule with a new name does not begin anew, and one with other times does', async () => {
    const made = await make({ schedule: { every_seconds: 3_600 } })
    const before = await now(made)
    const saved = await save(made, { ...hourly, name: 'u', 'inputs.text': '{{ due_at }}' })
    expect([saved.status, saved.headers.get('location')]).toEqual([303, expect.stringContaining('done=save')])
    expect(await now(made)).toMatchObject({
      name: 'u',
      inputs: { text: '{{ due_at }}' },
      schedule: before.schedule,
      armed_by: [expect.any(String), expect.any(String)],
    })
    await save(made, { ...hourly, every_seconds: '60', version: '1' })
    expect(await now(made)).toMatchObject({ name: 't', version: 1, schedule: { every_seconds: 60 } })
    expect((await now(made)).schedule.next_due_at).not.toBe(before.schedule.next_due_at)
  })

  test('so nobody arms a trigger who saves it as it is', async () => {
    const made = await make({ schedule: { every_seconds: 3_600 } })
    const before = await now(made)
    expect((await save(made, hourly)).status).toBe(303)
    expect(await now(made)).toEqual(before)
    const list = '{{ output.value }}'
    const poll = { tool: 'memory_get', params: { key: 'k' }, every_seconds: 60, list, id: '{{ item }}' }
    const polls = await make({ poll })
    const shown = await now(polls)
    const fields = { list, id: poll.id, 'params.key': 'k', every_seconds: '60', order: '', first: 'skip' }
    expect((await save(polls, fields)).status).toBe(303)
    expect(await now(polls)).toEqual(shown)
  })

  inBrowser('so values of several inputs and lines stay as they are, and an empty zone is UTC', async () => {
    const definition = {
      inputs: { text: { type: 'string' }, day: { type: 'string' }, of: { type: 'number' } },
      steps: [{ id: 's', compute: { a: 1 } }],
    }
    const { body: workflow } = await home.call('owner', 'POST', '/workflows', { name: 'Several', definition })
    const inputs = { of: '{{ 1 + 1 }}', day: '', text: '\none\ntwo' }
    const more = { name: 'several', version: 'latest', inputs, schedule: { every_seconds: 3_600 } }
    const { body: made } = await home.call('owner', 'POST', `/workflows/${workflow.id}/triggers`, {
      service_account: first.service_account,
      ...more,
    })
    const before = await now(made)
    const place = `/console/workflows/${workflow.id}/triggers/${made.id}`
    const { page } = await signedInAt(home.server, 'approver', place)
    await page.locator('summary', { hasText: 'Change …' }).click()
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByText('The change is saved').waitFor()
    expect(await now(made)).toEqual(before)
    await page.locator('summary', { hasText: 'Change …' }).click()
    await page.getByLabel('How often').selectOption('daily')
    await page.getByLabel('Time zone').fill('')
    await page.getByLabel('How often').selectOption('seconds')
    await page.getByLabel('Every how many seconds').fill('7200')
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByText('every 2 hours').waitFor()
    expect(await now(made)).toMatchObject({ inputs, schedule: { every_seconds: 7_200, time_zone: 'UTC' } })
  })

  test('so the answer of an owner stays, and another proof makes a new secret', async () => {
    const made = await make({ webhook: { verify: 'bearer', answer: 'result' } })
    expect((await save(made, { verify: 'bearer', name: 'u' })).status).toBe(403)
    expect((await save(made, { verify: 'bearer', name: 'u', answer: 'result' }, 'owner')).status).toBe(303)
    expect((await save(made, { verify: 'slack', answer: 'result' }, 'owner')).status).toBe(422)
    const shown = await (await save(made, { verify: 'standard', answer: 'result' }, 'owner')).text()
    expect(/id="secret">(whsec_[^<]+)</.test(shown)).toBe(true)
    expect((await now(made)).webhook).toMatchObject({ verify: 'standard', answer: 'result' })
    expect((await save(made, { verify: 'standard', answer: 'accepted' }, 'owner')).status).toBe(303)
    expect((await save(made, { verify: 'standard', name: 'v' })).status).toBe(303)
    expect(await now(made)).toMatchObject({ name: 'v', webhook: { answer: 'accepted' } })
  })
})
