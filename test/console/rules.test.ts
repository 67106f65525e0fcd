import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import type { Page } from 'playwright-core'
import { conditionsIn, mostConditions, rowOf } from '../../src/console/parts/conditions.tsx'
import type { ParamCondition } from '../../src/policy/operators/index.ts'
import { startPages, type PagesHome } from '../api/console/pages-home.ts'
import { inBrowser } from '../support/chromium.ts'
import { heldCall, signedInAt, violations } from './support.ts'

/* `/console/rules`: an admin makes, changes, deletes and restores a rule; others read them. */

let home: PagesHome
beforeAll(async () => {
  home = await startPages()
})
afterAll(() => home?.server.close())

const path = '/console/rules'
const phone = { viewport: { width: 390, height: 844 } }
const rules = () => `/organizations/${home.server.identities.organization_id}/rules`
const named = async (name: string) => {
  const { body } = await home.call('admin', 'GET', rules())
  return body.data.find((each: { name: string }) => each.name === name)
}
const organization = () => `/organizations/${home.server.identities.organization_id}`

/** Chooses who approves, a line for each. */
async function choose(page: Page, approvers: readonly string[]): Promise<void> {
  for (const [row, name] of approvers.entries())
    await page.getByLabel(`Who approves, line ${row + 1}`).selectOption({ label: name })
}

describe.each([true, false])('with JavaScript: %s', (javaScriptEnabled) => {
  inBrowser('an admin makes a rule, changes, deletes and restores it', async () => {
    await home.call('owner', 'POST', `${organization()}/groups`, { name: 'finance' })
    await home.call('owner', 'POST', `${organization()}/groups`, { name: 'legal' })
    const name = `confidential mails ${javaScriptEnabled}`
    const { page } = await signedInAt(home.server, 'approver', path, { ...phone, javaScriptEnabled })
    await page.getByRole('link', { name: 'Make a rule' }).click()
    await page.getByLabel('Name', { exact: true }).fill(name)
    await page.getByLabel('Tools').fill('mail_sned')
    await page.getByLabel('confidential', { exact: true }).check()
    await choose(page, ['group finance', 'group legal'])
    await page.getByRole('button', { name: 'Make the rule' }).click()
    await page.getByRole('alert').getByRole('link', { name: 'Tools', exact: true }).waitFor()
    expect(await page.getByLabel('Tools').getAttribute('aria-invalid')).toBe('true')
    expect(await page.getByLabel('confidential', { exact: true }).isChecked()).toBe(true)
    await page.getByLabel('Tools').fill('mail_send')
    await page.getByRole('button', { name: 'Make the rule' }).click()
    await page.getByText('The rule is saved').waitFor()
    if (javaScriptEnabled) expect(await violations(page)).toEqual([])
    const made = await named(name)
    expect(made).toMatchObject({
      verdict: 'require_approval',
      tools: ['mail_send'],
      labels: { any_of: ['confidential'] },
      approvers: [
        { group: 'finance', count: 1 },
        { group: 'legal', count: 1 },
      ],
    })

    await page.getByLabel('State').selectOption('shadow')
    await page.getByLabel('Approvers may edit').fill('text\nsubjects')
    await page.getByRole('button', { name: 'Save the rule' }).click()
    await page.getByRole('alert').getByRole('link', { name: 'Approvers may edit' }).waitFor()
    await page.getByLabel('Approvers may edit').fill('text\nsubject')
    await page.getByRole('button', { name: 'Save the rule' }).click()
    await page.getByText('The rule is saved').waitFor()
    await page
      .getByText('Approvers may edit text and subject; another person then confirms the call')
      .waitFor()
    const { updated_at: _, ...before } = made
    const edited = {
      status: 'shadow',
      approver_may_edit: ['text', 'subject'],
      updated_at: expect.any(String),
    }
    expect(await named(name)).toEqual({ ...before, ...edited })

    await page.locator('summary', { hasText: 'Delete the rule' }).click()
    await page.getByRole('button', { name: 'Delete the rule', exact: true }).click()
    await page.getByRole('heading', { name: 'A deleted rule' }).waitFor()
    expect(await named(name)).toBeUndefined()
    await page.getByRole('link', { name: 'Version 1', exact: true }).click()
    await page.getByText('1 member of finance and 1 member of legal').waitFor()
    await page.getByRole('button', { name: 'Restore version 1' }).click()
    await page.getByText('The earlier version is back').waitFor()
    expect(await named(name)).toMatchObject({ id: made.id, status: 'active' })
    expect(await page.locator('main').textContent()).toContain(home.server.identities.users.approver.email)
    await home.call('admin', 'DELETE', `${rules()}/${made.id}`)
  })
})

/* What a rule would change is shown before it is saved. */

const changes = (page: Page) => page.getByRole('status').filter({ hasText: 'What it would change' })
/** An agent runs \`ls\`. */
const listed = () =>
  home.server.call(home.server.identities.agent_key, 'POST', '/authorize', {
    agent: { name: 'Claude Code', kind: 'claude-code' },
    session_id: 'session-of-ls',
    tool_name: 'Bash',
    tool_input: { command: 'ls' },
  })
const wouldBeDenied = 'call that is allowed now would be denied.'

inBrowser('an admin sees which recorded calls a rule would decide otherwise, without a script', async () => {
  await listed()
  const { page } = await signedInAt(home.server, 'approver', `${path}/new`, { javaScriptEnabled: false })
  await page.getByLabel('Name', { exact: true }).fill('no shell')
  await page.getByLabel('Then').selectOption('deny')
  await page.getByLabel('Tools').fill('WebFetch')
  await page.getByRole('button', { name: 'See what it would change' }).click()
  await changes(page).getByText('would be decided otherwise').waitFor()
  expect(await changes(page).textContent()).toContain('None of the newest')
  await page.getByLabel('Tools').fill('Bash')
  await page.getByRole('button', { name: 'See what it would change' }).click()
  await changes(page).getByText(wouldBeDenied).waitFor()
  // Nothing was saved, and what was typed is still there.
  expect(await named('no shell')).toBeUndefined()
  expect(await page.getByLabel('Name', { exact: true }).inputValue()).toBe('no shell')
  await page.getByRole('button', { name: 'Make the rule' }).click()
  await page.getByText('The rule is saved').waitFor()
  // A saved rule is compared without itself.
  await page.getByRole('button', { name: 'See what it would change' }).click()
  await changes(page).getByText('would be decided otherwise').waitFor()
  expect(await changes(page).textContent()).toContain('None of the newest')
  // In shadow it denies no longer what it denies now.
  await page.getByLabel('State').selectOption('shadow')
  await page.getByRole('button', { name: 'See what it would change' }).click()
  await changes(page).getByText('If it were active').waitFor()
  await changes(page).getByText('denied now would run').waitFor()
  const saved = await named('no shell')
  await home.call('admin', 'DELETE', `${rules()}/${saved.id}`)
})

inBrowser('with a script, the page shows it as somebody types', async () => {
  const { page, errors } = await signedInAt(home.server, 'approver', `${path}/new`, phone)
  await page.getByLabel('Then').selectOption('deny')
  await page.getByLabel('Name', { exact: true }).fill('no shell')
  await page.getByLabel('Tools').pressSequentially('Bash')
  await changes(page).getByText(wouldBeDenied).waitFor()
  await changes(page).locator('summary').click()
  await page.getByLabel('Tools').fill('WebFetch')
  await changes(page).getByText('None of the newest').waitFor()
  expect([await named('no shell'), await violations(page), errors]).toEqual([undefined, [], []])
})

inBrowser('an admin starts from a template, whose parts that the form does not show stay', async () => {
  const { page } = await signedInAt(home.server, 'approver', path, { javaScriptEnabled: false })
  await page.locator('summary', { hasText: 'Start from a template' }).click()
  await page.getByRole('link', { name: 'Agents ask before they open files with secrets' }).click()
  const name = await page.getByLabel('Name', { exact: true }).inputValue()
  expect(await page.getByLabel('What it is for').inputValue()).toContain('Holds reads and changes of files')
  await page.getByLabel('What it is for').fill('our secrets')
  await page.getByLabel('Parameter, condition 2').fill('..')
  await page.getByLabel('Values, condition 2').fill('x')
  await page.getByRole('button', { name: 'Make the rule' }).click()
  await page.getByText('a parameter is a dotted path').first().waitFor()
  expect(await page.getByLabel('Parameter, condition 2').getAttribute('aria-invalid')).toBe('true')
  await page.getByLabel('Parameter, condition 2').fill('tool')
  await page.getByLabel('Comparison, condition 2').selectOption('is none of')
  await page.getByLabel('Values, condition 2').fill('one\ntwo')
  await page.getByRole('button', { name: 'Make the rule' }).click()
  await page.getByText('The rule is saved').waitFor()
  const { body: templates } = await home.call('admin', 'GET', '/rule-templates?limit=200')
  const { body } = templates.data.find((each: { body: { name: string } }) => each.body.name === name)
  const made = await named(name)
  const more = { param: 'tool', operator: 'not_in', value: ['one', 'two'] }
  expect(made).toMatchObject({
    ...body,
    params: [...body.params, more],
    description: 'our secrets',
    status: 'active',
  })
  await home.call('admin', 'DELETE', `${rules()}/${made.id}`)
})

test('the rows of a form give back the conditions that they show', () => {
  const scalar = fc.oneof(fc.string({ minLength: 1 }), fc.integer(), fc.boolean(), fc.constantFrom(' ', '5', 'true', '"x"', ' -f', '1e3')) // prettier-ignore
  const condition = fc.oneof(
    fc.record({
      param: fc.constant('to'),
      operator: fc.constantFrom('equals', 'startswith', 'contains'),
      value: scalar,
    }),
    fc.record({ param: fc.constant('a.b'), operator: fc.constantFrom('in', 'not_in', 'contains'), value: fc.array(scalar, { minLength: 1 }) }), // prettier-ignore
    fc.record({ param: fc.constant('*'), operator: fc.constant('exists'), value: fc.boolean() }),
  ) as fc.Arbitrary<ParamCondition>
  fc.assert(
    fc.property(fc.array(condition, { minLength: 1, maxLength: 25 }), fc.boolean(), (conditions, isNew) => {
      const form = new URLSearchParams()
      for (const [row, each] of conditions.slice(0, mostConditions).entries())
        for (const [name, value] of Object.entries(rowOf(each)))
          form.set(`${name}_${row}`, value.replaceAll('\n', '\r\n'))
      const read = conditionsIn(form, isNew ? conditions.slice(mostConditions) : conditions)
      // As a new rule, one value may stand for a list of one.
      const listed = (all: readonly ParamCondition[] = []) => all.map((each) => ({ ...each, value: [each.value].flat() })) // prettier-ignore
      if (isNew) expect(listed(read)).toEqual(listed(conditions.slice(0, mostConditions)))
      else expect(read).toEqual(conditions)
    }),
  )
})

inBrowser('a member tries a call, chosen from the recent ones', async () => {
  const held = await heldCall(home.server, { command: 'git push origin tried' })
  const { page } = await signedInAt(home.server, 'member', '/console/rules/try', { ...phone, javaScriptEnabled: false }) // prettier-ignore
  await page.locator(`a[href$="${held}"]`).click()
  expect(await page.getByLabel('Tool', { exact: true }).inputValue()).toBe('Bash')
  await page.getByRole('button', { name: 'Ask the rules' }).click()
  const answer = page.getByRole('status')
  await answer.getByText('It would wait for approval').waitFor()
  await answer.getByRole('link', { name: 'Agents ask before they send' }).waitFor()
  await page.getByLabel('Parameters').fill('{"command": "ls"}')
  await page.getByRole('button', { name: 'Ask the rules' }).click()
  await page.getByText('It would be allowed').waitFor()
  await page.getByLabel('Parameters').fill('{"command": ')
  await page.getByRole('button', { name: 'Ask the rules' }).click()
  await page.getByRole('alert').getByRole('link', { name: 'Parameters' }).waitFor()
  expect(await page.getByLabel('Parameters').inputValue()).toBe('{"command": ')
})

test('an admin finds rules without effect', async () => {
  const same = { name: 'one of two', verdict: 'deny', tools: ['WebSearch'] }
  const made = [await home.call('admin', 'POST', rules(), same), await home.call('admin', 'POST', rules(), { ...same, name: 'two of two' })] // prettier-ignore
  expect(await home.main(`${path}?findings=1`)).toMatch(/two of two/)
  for (const { body } of made) await home.call('admin', 'DELETE', `${rules()}/${body.id}`)
  expect(await home.main(`${path}?findings=1`)).toContain('None was found.')
})

describe('a form', () => {
  /** With everything that the form does not show. */
  const odd = {
    name: 'odd',
    verdict: 'require_approval',
    tools: ['mail_send'],
    labels: { any_of: ['pii'], none_of: ['public'] },
    params: [{ param: 'to', operator: 'domain_not_in', value: ['acme.com'] }],
    applies_to: ['agents', 'workflows'],
    approver: 'owner',
    approvals_needed: 2,
    expires_after_seconds: 3_600,
    approver_may_edit: ['subject'],
  }
  /** The fields of the form as a browser sends it. */
  async function formOf(id: string): Promise<[string, string][]> {
    const { page } = await signedInAt(home.server, 'approver', `${path}/${id}`, { javaScriptEnabled: false })
    const fields = await page.evaluate(
      `[...new FormData(document.querySelector('form:has([name=seen])')).entries()]`,
    )
    const own = (fields as [string, string][]).filter(([name]) => name !== 'token')
    return [...own, ['token', await home.tokenOf('/console/account', 'approver')], ['action', 'save']]
  }
  const send = async (id: string, fields: [string, string][]) => home.post(`${path}/${id}`, fields)

  inBrowser('changes only what the person has changed, and keeps what it does not show', async () => {
    const { body: made } = await home.call('admin', 'POST', rules(), odd)
    const fields = await formOf(made.id)
    expect((await send(made.id, fields)).status).toBe(303)
    expect(await named('odd')).toEqual({ ...made, updated_at: expect.any(String) })

    const renamed = (await formOf(made.id)).map(([key, value]): [string, string] =>
      key === 'count_0' ? [key, '1'] : [key, value],
    )
    await send(made.id, renamed)
    expect(await named('odd')).toEqual({ ...made, approvals_needed: 1, updated_at: expect.any(String) })
    // The rule has changed since the form was loaded.
    const late = await send(made.id, renamed)
    expect([late.status, (await late.text()).includes('changed it meanwhile')]).toEqual([409, true])

    const denying = (await formOf(made.id)).map(([key, value]): [string, string] =>
      key === 'verdict' ? [key, 'deny'] : [key, value],
    )
    expect((await send(made.id, denying)).status).toBe(303)
    const {
      approver: _,
      approvals_needed: __,
      expires_after_seconds: ___,
      approver_may_edit: ____,
      ...rest
    } = made
    expect(await named('odd')).toEqual({ ...rest, verdict: 'deny', updated_at: expect.any(String) })
    await home.call('admin', 'DELETE', `${rules()}/${made.id}`)
  })
})

test('a member reads a rule and its versions, and changes nothing', async () => {
  const { body: made } = await home.call('admin', 'POST', rules(), {
    name: 'seen',
    verdict: 'deny',
    tools: ['Bash'],
  })
  const one = `${path}/${made.id}`
  const text = await home.main(one, 'member')
  expect(['An admin or owner changes it', 'Version 1', '<button'].map((each) => text.includes(each))).toEqual(
    [true, true, false],
  )
  const token = await home.tokenOf('/console/account', 'member')
  const cookie = await home.cookieOf('member')
  const seen = JSON.stringify(made.updated_at)
  const fields = { token, seen, name: 'other', verdict: 'allow', status: 'active' }
  for (const [place, action] of [
    [one, 'save'],
    [one, 'delete'],
    [`${path}/new`, ''],
    [path, 'approvals-on'],
  ] as const)
    expect((await home.post(place, { ...fields, action }, {}, cookie)).status).toBe(403)
  expect(await named('seen')).toEqual(made)
  await home.call('admin', 'DELETE', `${rules()}/${made.id}`)
})

test('after it is saved, the page says what the rule does now', async () => {
  const rows = [
    ['allow', 'active', true, 'It stops no call'],
    ['deny', 'active', true, 'a call that it matches is denied'],
    ['require_approval', 'active', true, 'a call that it matches waits for approval'],
    ['require_approval', 'shadow', true, 'it only reports, and decides no call'],
    ['deny', 'inactive', true, 'It is inactive, and decides no call'],
    ['require_approval', 'active', false, 'Approvals are off: from the next call on'],
    ['deny', 'active', false, 'a call that it matches is denied'],
  ] as const
  for (const [verdict, status, approvals_enabled, words] of rows) {
    await home.settings({ approvals_enabled })
    const { body } = await home.call('admin', 'POST', rules(), {
      name: 'told',
      verdict,
      status,
      tools: ['mail_send'],
    })
    const text = await home.main(`${path}/${body.id}?done=save`)
    expect(/The rule is saved\.[^<]*/.exec(text)?.[0]).toContain(words)
    await home.call('admin', 'DELETE', `${rules()}/${body.id}`)
  }
})

test('while approvals are off, the page says so, and an owner turns them on', async () => {
  await home.settings({ approvals_enabled: false })
  expect(await home.main(path, 'approver')).toContain('An owner turns them on')
  const token = await home.tokenOf(path, 'owner')
  await home.post(path, { token, action: 'approvals-on' }, {}, await home.cookieOf('owner'))
  expect(await home.main(path, 'owner')).not.toContain('Approvals are off')
})

describe.each([true, false])('the list, with JavaScript: %s', (javaScriptEnabled) => {
  const waits = `list ${javaScriptEnabled}`
  inBrowser('an admin switches a rule off, into shadow and on, and deletes it right there', async () => {
    await home.call('admin', 'POST', rules(), { name: waits, verdict: 'deny', tools: ['mcp__never__x'] })
    const { page } = await signedInAt(home.server, 'approver', path, { ...phone, javaScriptEnabled })
    const row = page.locator('tr', { hasText: waits })
    for (const [button, status] of [
      ['Only record (shadow)', 'shadow'],
      ['Switch it off', 'inactive'],
      ['Make it active', 'active'],
    ] as const) {
      await row.getByText('Change…').click()
      await row.getByRole('button', { name: button }).click()
      await page.getByRole('status').getByText('The rule is').waitFor()
      expect(await named(waits)).toMatchObject({ status, verdict: 'deny', tools: ['mcp__never__x'] })
    }
    await row.getByText('Change…').click()
    await row.getByRole('button', { name: 'Delete it' }).click()
    await page.getByText('The rule is deleted.').waitFor()
    expect(await named(waits)).toBeUndefined()
    expect(await row.count()).toBe(0)
  })

  inBrowser('an admin makes a rule that labels, changes it as text, and deletes it', async () => {
    const name = `salaries ${javaScriptEnabled}`
    const { page } = await signedInAt(home.server, 'approver', path, { ...phone, javaScriptEnabled })
    await page.getByRole('link', { name: 'Make a label rule' }).click()
    await page.getByLabel('Name', { exact: true }).fill(name)
    await page.getByLabel('Tools').fill('file_raed')
    await page.locator('#add_labels').getByLabel('confidential').check()
    await page.locator('#other_add_labels').fill('pay')
    await page.getByLabel('Parameter, condition 1').fill('path')
    await page.getByLabel('Comparison, condition 1').selectOption({ label: 'begins with' })
    await page.getByLabel('Values, condition 1').fill('salaries/')
    await page.getByRole('button', { name: 'Make the rule' }).click()
    await page.getByRole('alert').getByRole('link', { name: 'Tools', exact: true }).waitFor()
    expect(await page.locator('#add_labels').getByLabel('confidential').isChecked()).toBe(true)
    await page.getByLabel('Tools').fill('file_read')
    await page.getByRole('button', { name: 'Make the rule' }).click()
    await page.getByText('The rule is saved.').waitFor()
    const found = async () => {
      const { body } = await home.call('admin', 'GET', `${organization()}/label-rules?search=salaries`)
      return body.data.find((each: { name: string }) => each.name === name)
    }
    expect(await found()).toMatchObject({
      add_labels: ['confidential', 'pay'],
      tools: ['file_read'],
      params: [{ param: 'path', operator: 'startswith', value: 'salaries/' }],
    })
    if (javaScriptEnabled) expect(await violations(page)).toEqual([])
    await page.getByText('The rule as text (YAML)').click()
    const text = await page.getByLabel('Text', { exact: true }).inputValue()
    await page.getByLabel('Text', { exact: true }).fill(`${text}\nnonsense: 1\n`)
    await page.getByRole('button', { name: 'Save the text' }).click()
    await page.getByRole('alert').waitFor()
    expect(await page.getByLabel('Text', { exact: true }).inputValue()).toContain('nonsense: 1')
    await page.getByLabel('Text', { exact: true }).fill(text.replace('pay', 'wages'))
    await page.getByRole('button', { name: 'Save the text' }).click()
    await page.getByText('The text is saved.').waitFor()
    expect(await found()).toMatchObject({ add_labels: ['confidential', 'wages'] })
    await page.getByText('Delete the rule …').click()
    await page.getByRole('button', { name: 'Delete the rule', exact: true }).click()
    await page.getByRole('heading', { name: 'A deleted rule' }).waitFor()
    expect(await found()).toBeUndefined()
    await page
      .getByRole('button', { name: /Restore/ })
      .first()
      .click()
    await page.getByText('The earlier version is back.').waitFor()
    await home.call('admin', 'DELETE', `${organization()}/label-rules/${(await found()).id}`)
  })

  inBrowser('a rule is changed as text, and a refused text stays', async () => {
    const name = `text ${javaScriptEnabled}`
    const { body } = await home.call('admin', 'POST', rules(), {
      name,
      verdict: 'deny',
      tools: ['mcp__never__x'],
    })
    const { page } = await signedInAt(home.server, 'approver', `${path}/${body.id}`, { javaScriptEnabled })
    await page.getByText('The rule as text (YAML)').click()
    const text = page.getByLabel('Text', { exact: true })
    const given = await text.inputValue()
    await text.fill('- 1')
    await page.getByRole('button', { name: 'Save the text' }).click()
    await page.getByRole('alert').getByText('the text is no rule').waitFor()
    expect(await page.getByLabel('Name', { exact: true }).inputValue()).toBe(name)
    expect(await page.getByLabel('Tools').inputValue()).toBe('mcp__never__x')
    expect(await text.inputValue()).toBe('- 1')
    await text.fill(given.replace('deny', 'allow'))
    await page.getByRole('button', { name: 'Save the text' }).click()
    await page.getByText('The text is saved.').waitFor()
    expect(await named(name)).toMatchObject({ verdict: 'allow', tools: ['mcp__never__x'] })
    await home.call('admin', 'DELETE', `${rules()}/${body.id}`)
  })
})

inBrowser('a rule with 900 addresses is saved by its fields, and by its text', async () => {
  const value = Array.from({ length: 900 }, (_, at) => `person-number-${at}@larkspur.example`)
  const params = [{ param: 'to', operator: 'in', value }]
  const { body } = await home.call('admin', 'POST', rules(), { name: 'long', verdict: 'deny', params })
  const { page } = await signedInAt(home.server, 'approver', `${path}/${body.id}`, { javaScriptEnabled: false }) // prettier-ignore
  await page.getByLabel('What it is for').fill('a long list')
  await page.getByRole('button', { name: 'Save the rule' }).click()
  await page.getByText('The rule is saved.').waitFor()
  await page.getByText('The rule as text (YAML)').click()
  const text = page.getByLabel('Text', { exact: true })
  await text.fill((await text.inputValue()).replace('a long list', 'a text'))
  await page.getByRole('button', { name: 'Save the text' }).click()
  await page.getByText('The text is saved.').waitFor()
  expect(await named('long')).toMatchObject({ description: 'a text', params })
  await home.call('admin', 'DELETE', `${rules()}/${body.id}`)
})

inBrowser('the list counts what each rule held and denied', async () => {
  const { body } = await home.call('admin', 'POST', rules(), {
    name: 'counted',
    verdict: 'deny',
    tools: ['mcp__counted__x'],
  })
  await heldCall(home.server, { command: 'x' }, 'mcp__counted__x').catch(() => null)
  const { page } = await signedInAt(home.server, 'approver', `${path}?search=count`, phone)
  const row = page.locator('tr', { hasText: 'counted' })
  await row.getByText('1 denied').waitFor()
  await home.call('admin', 'DELETE', `${rules()}/${body.id}`)
})

inBrowser('the rules for agents are added by one button, and only once', async () => {
  const starters = async () => {
    const { body: templates } = await home.call('admin', 'GET', '/rule-templates?limit=200')
    const { body: saved } = await home.call('admin', 'GET', `${rules()}?limit=200`)
    const names = templates.data.flatMap((each: { starter: boolean; body: { name: string } }) =>
      each.starter ? [each.body.name] : [],
    )
    return saved.data.filter((each: { name: string }) => names.includes(each.name))
  }
  const { page } = await signedInAt(home.server, 'approver', '/console/sessions/install', phone)
  await page.getByRole('button', { name: 'Add the rules for agents' }).click()
  await page.getByText('The rules for agents are in the list.').waitFor()
  const added = await starters()
  expect(added.length).toBeGreaterThan(2)
  expect(added.every((each: { status: string }) => each.status === 'shadow')).toBe(true)
  await page.goto(`${home.server.base}/console/sessions/install`)
  await page.getByLabel('They begin').selectOption('active')
  await page.getByRole('button', { name: 'Add the rules for agents' }).click()
  await page.getByText('The rules for agents are in the list.').waitFor()
  expect(await starters()).toEqual(added)
  for (const { id } of added) await home.call('admin', 'DELETE', `${rules()}/${id}`)
})
