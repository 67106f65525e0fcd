import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import type { Page } from 'playwright-core'
import { plain, startPages, type PagesHome } from '../api/console/pages-home.ts'
import { inBrowser } from '../support/chromium.ts'
import { signedInAt, violations } from './support.ts'

/* `/console/workflows`, and the editor. */

let home: PagesHome
beforeAll(async () => {
  home = await startPages()
})
afterAll(() => home?.server.close())

const path = '/console/workflows'
const phone = { viewport: { width: 390, height: 844 } }
const definition = { steps: [{ id: 'first', tool: 'memory_get', params: { key: 'k' } }] }
const save = async (body: object): Promise<string> =>
  (await home.call('member', 'POST', '/workflows', { name: 'W', definition, ...body })).body.id
const textOf = (...steps: string[]) =>
  `name: Notes\nsteps:\n${steps.map((id) => `  - id: ${id}\n    tool: memory_get\n    params: { key: k }\n`).join('')}`
/** Where the script has put its editor, this one. */
async function fill(page: Page, text: string): Promise<void> {
  const own = page.locator('.cm-content')
  if ((await own.count()) === 0) return page.locator('textarea[name=text]').fill(text)
  await own.press('ControlOrMeta+A')
  await page.keyboard.press('Delete')
  await page.keyboard.insertText(text)
}

test('an empty list says what to do first, and a viewer whom to ask', async () => {
  expect(plain(await home.main(path, 'member'))).toContain('Make the first one')
  const seen = await home.main(path, 'viewer')
  expect(plain(seen)).toContain('Members and above make workflows: ask an owner for that role.')
  expect(seen).not.toContain('/console/workflows/new')
})

test('the list finds a part of a name, and says what was last run and what would fail', async () => {
  const mail = { id: 'm', tool: 'sheets_append', params: { spreadsheet: 's', rows: [['a']] } }
  const id = await save({ name: 'Damson', slug: 'damson-1', definition: { steps: [mail] } })
  await save({ name: 'Elder' })
  const run = (await home.call('member', 'POST', `/workflows/${id}/execute?wait=0`, {})).body.execution_id
  const page = await home.main(`${path}?search=DAMS`, 'viewer')
  expect(page).toContain(`href="/console/runs/${run}"`)
  expect(plain(page)).toMatch(/Damson.*damson-1.*Would fail.*sheets_append.*Queued/)
  expect(plain(page)).not.toContain('Elder')
  expect(plain(await home.main(`${path}?search=fig`, 'viewer'))).toContain('No workflow has this')
})

describe.each([true, false])('the editor with JavaScript: %s', (javaScriptEnabled) => {
  const options = { ...phone, javaScriptEnabled }

  inBrowser(
    'a member starts from the example, and sees mistakes by line and what would be decided',
    async () => {
      const { page } = await signedInAt(home.server, 'member', path, options)
      await page.getByRole('link', { name: 'New workflow' }).click()
      expect(await page.locator('textarea[name=text]').inputValue()).toContain('if_skipped: skip')
      await page.getByText('The definition has no mistake.').waitFor()
      await fill(
        page,
        `${textOf('one')}  - id: two\n    tool: memory_git\n    params: { key: '{{three.output}}' }\n`,
      )
      await page.getByRole('button', { name: 'Save the workflow' }).click()
      await page.getByText('Nothing was saved: change what is named under the mistakes.').waitFor()
      const mistakes = await page.locator('.mistakes li').allTextContents()
      expect(mistakes).toEqual([
        expect.stringMatching(/^Line 7: .*memory_git/),
        expect.stringMatching(/^Line 8: .*three/),
      ])
      if (javaScriptEnabled) expect(await violations(page)).toEqual([])
      await fill(page, 'steps: {{')
      await page.getByRole('button', { name: 'Check' }).click()
      await page.getByText('write a template in quotes').waitFor()
      expect(await page.locator('textarea[name=text]').inputValue()).toBe('steps: {{')
      await fill(page, textOf('one', 'two'))
      await page.locator('summary', { hasText: 'Inputs and outputs' }).click()
      await page.getByLabel('Assumed outputs').fill('{nothing')
      await page.getByRole('button', { name: 'Show what would be decided' }).click()
      await page.getByRole('alert').getByText('is not JSON').waitFor()
      await page.getByLabel('Assumed outputs').fill('')
      await page.getByRole('button', { name: 'Show what would be decided' }).click()
      expect(await page.locator('.row .badge').allTextContents()).toEqual(['Allowed', 'Allowed'])
      await page.getByRole('button', { name: 'Save the workflow' }).click()
      await page.getByRole('heading', { level: 1, name: 'Notes' }).waitFor()
    },
  )

  inBrowser('a step is tried with what it would be called with, and called by its own button', async () => {
    const text = `name: Kept
inputs:
  key: { type: string, required: true }
steps:
  - id: read
    tool: memory_get
    params: { key: '{{input.key}}' }
  - id: keep
    tool: memory_set
    when: "{{ read.output.value == 'x' }}"
    params: { key: copy, value: '{{read.output.value}}' }
`
    const runs = async () => (await home.call('member', 'GET', '/runs?workflow_name=Try')).body.data.length
    const before = await runs()
    const { page } = await signedInAt(home.server, 'member', `${path}/new`, options)
    const rows = page.getByRole('region', { name: 'What would be decided' }).locator('.row')
    await fill(page, text)
    await page.getByRole('button', { name: 'Show what would be decided' }).click()
    expect(await rows.nth(1).innerText()).toContain('Whether its condition holds depends')
    await page.getByRole('button', { name: 'Try this step keep' }).click()
    await page.getByRole('alert').getByText('is not known yet').waitFor()
    await page.locator('summary', { hasText: 'Inputs and outputs' }).click()
    await page.getByLabel('Key (optional)').fill('k')
    await page.getByLabel('Assumed outputs').fill('{"read": {"key": "k", "value": "x"}}')
    await page.getByRole('button', { name: 'Show what would be decided' }).click()
    expect(await rows.nth(1).innerText()).toContain('Its condition holds.')
    await rows.nth(1).locator('summary', { hasText: 'With these parameters' }).click()
    expect(await rows.nth(1).locator('.values').innerText()).toMatch(/value\s*x/)
    await page.getByRole('button', { name: 'Try this step keep' }).click()
    const tried = page.getByRole('region', { name: 'The step keep as one call' })
    expect(await tried.innerText()).toMatch(/value\s*x[^]*This call would be:\s*Allowed/)
    if (javaScriptEnabled) expect(await violations(page)).toEqual([])
    expect(await runs()).toBe(before)
    await tried.locator('summary', { hasText: 'Make this call' }).click()
    await tried.getByRole('button', { name: 'Make the call' }).click()
    const link = tried.getByRole('link', { name: 'see what became of it' })
    const run = (await link.getAttribute('href'))?.split('/').at(-1)
    expect((await home.call('member', 'GET', `/runs/${run}`)).body).toMatchObject({
      workflow_name: 'Try memory_set',
      inputs: { key: 'copy', value: 'x' },
    })
    expect(await page.locator('textarea[name=text]').inputValue()).toBe(text)
  })

  inBrowser('a change says what it is about, and is not saved over another one', async () => {
    const id = await save({ name: 'Shared', slug: `shared-${javaScriptEnabled}`, description: 'old words' })
    const edit = `${path}/${id}/edit`
    const { page } = await signedInAt(home.server, 'member', edit, options)
    await fill(page, textOf('one'))
    await page.getByLabel('What changes').fill('another step')
    await home.call('admin', 'PUT', `/workflows/${id}`, {
      definition: { steps: [{ ...definition.steps[0], id: 'theirs' }] },
    })
    await page.getByRole('button', { name: 'Save a new version' }).click()
    await page.getByText('which is now at version 2').waitFor()
    expect(await page.getByLabel('What changes').inputValue()).toBe('another step')
    await page.goto(`${home.server.base}${edit}`)
    await fill(page, textOf('one'))
    await page.getByLabel('What changes').fill('another step')
    await page.getByRole('button', { name: 'Save a new version' }).click()
    await page.getByRole('heading', { level: 1, name: 'Notes' }).waitFor()
    const { body } = await home.call('member', 'GET', `/workflows/${id}`)
    expect(body).toMatchObject({ name: 'Notes', slug: null, description: '', version: 3 })
    const { versions } = (await home.call('member', 'GET', `/workflows/${id}/versions`)).body
    expect(versions[0].message).toBe('another step')
  })

  inBrowser('nothing that was written is lost when the sign-in ends', async () => {
    const { page } = await signedInAt(home.server, 'member', `${path}/new`, options)
    const text = `# a note\n${textOf('kept')}`
    await fill(page, text)
    const cookies = await page.context().cookies()
    await page.context().clearCookies()
    await page.getByRole('button', { name: 'Save the workflow' }).click()
    await page.getByRole('heading', { level: 1, name: 'Your sign-in has ended' }).waitFor()
    await page.context().addCookies(cookies.filter(({ name }) => name.includes('organization')))
    const other = await signedInAt(home.server, 'admin', `${path}/new`, options)
    await page.context().addCookies(await other.page.context().cookies())
    await page.getByRole('button', { name: 'Go on' }).click()
    await page.getByText('You have signed in anew').waitFor()
    expect(await page.locator('textarea[name=text]').inputValue()).toBe(text)
    await page.getByRole('button', { name: 'Save the workflow' }).click()
    await page.getByRole('heading', { level: 1, name: 'Notes' }).waitFor()
  })
})

inBrowser(
  'as one types, mistakes are underlined, the picture is drawn anew, and words are offered',
  async () => {
    const { page, errors, foreign } = await signedInAt(home.server, 'member', `${path}/new`)
    await fill(page, textOf('one', 'two').replace('memory_get', 'memory_git'))
    await page.locator('.mistakes').getByText('memory_git').waitFor()
    expect(await page.locator('.cm-lintRange-error').innerText()).toContain('memory_git')
    expect(await page.locator('.picture .box').count()).toBe(2)
    expect(await violations(page)).toEqual([])
    await fill(page, textOf('one', 'two', 'three'))
    await page.getByText('The definition has no mistake.').waitFor()
    expect([
      await page.locator('.cm-lintRange-error').count(),
      await page.locator('.picture .box').count(),
    ]).toEqual([0, 3])
    await page.locator('.cm-content').press('ControlOrMeta+End')
    await page.keyboard.type('  - id: four\ntool: memory_s')
    await page.locator('.cm-tooltip-autocomplete').getByText('memory_set').click()
    await page.keyboard.type('\nparams:\n  key: "{{thr')
    await page.locator('.cm-tooltip-autocomplete').getByText('three').waitFor()
    await page.keyboard.press('Escape')
    await page.getByText('What depends on what').waitFor()
    expect(await page.locator('textarea[name=text]').inputValue()).toContain(
      'tool: memory_set\n    params:\n      key: "{{thr',
    )
    await page
      .locator('input[type=file]')
      .setInputFiles({ name: 'a.yaml', mimeType: 'text/yaml', buffer: Buffer.from(textOf('from_file')) })
    await page.locator('.picture').getByText('from_file').waitFor()
    expect([errors, foreign]).toEqual([[], []])
  },
)

inBrowser('while one types and the sign-in ends, the page says so, and the text stays', async () => {
  const { page } = await signedInAt(home.server, 'member', `${path}/new`)
  await page.context().clearCookies()
  await fill(page, textOf('kept'))
  await page.locator('[data-live=editor]').getByText('Your sign-in has ended').waitFor()
  expect(await page.locator('textarea[name=text]').inputValue()).toBe(textOf('kept'))
})

test('a call that was not shown like this is not made', async () => {
  const token = await home.tokenOf(`${path}/new`, 'member')
  const send = async (action: string, more = {}) => {
    const fields = { token, action, text: textOf('one'), once: 'a-tried-step', ...more }
    return plain(await (await home.post(`${path}/new`, fields, {}, await home.cookieOf('member'))).text())
  }
  expect(await send('run:one', { tried_call: '["memory_get",{"key":"other"}]' })).toContain(
    'has changed since you saw it',
  )
  expect(await send('run:none', { tried_call: '["memory_get",{}]' })).toContain('makes no call')
  expect((await home.call('member', 'GET', '/runs?workflow_name=memory_get')).body.data).toEqual([])
})

test('who may not change a workflow is told whom to ask, and a form is refused', async () => {
  const id = await save({ name: 'Guarded' })
  await home.call('owner', 'PUT', `/workflows/${id}`, { protected: true })
  const seen = plain(await home.main(`${path}/${id}/edit`, 'member'))
  expect(seen).toContain('It is protected: only admins and owners change it.')
  expect(seen).not.toContain('Save a new version')
  const token = await home.tokenOf(`${path}/new`, 'member')
  const { updated_at: at } = (await home.call('member', 'GET', `/workflows/${id}`)).body
  const fields = { token, action: 'save', text: textOf('x'), version: `1 ${at}` }
  const answer = await home.post(`${path}/${id}/edit`, fields, {}, await home.cookieOf('member'))
  expect(answer.status).toBe(403)
  expect((await home.call('member', 'GET', `/workflows/${id}`)).body.version).toBe(1)
})

describe('a workflow', () => {
  const steps = [
    { id: 'read', tool: 'memory_get', params: { key: 'k' } },
    { id: 'tell', tool: 'sheets_append', params: { spreadsheet: 's', rows: [['{{read.output.value}}']] } },
  ]

  test('shows what it does, its inputs, runs and triggers, to each role what it may do', async () => {
    const body = { name: 'Medlar', description: 'a fruit', definition: { inputs: { to: { type: 'string', required: true } }, steps } } // prettier-ignore
    const id = await save(body)
    await home.call('member', 'POST', `/workflows/${id}/execute?wait=0`, { inputs: { to: 'x' } })
    const asMember = await home.main(`${path}/${id}`, 'member')
    expect(plain(asMember)).toMatch(/a fruit.*read.*Allowed.*tell.*Would fail.*after read.*no connection/s)
    expect(plain(asMember)).toMatch(
      /Last runs.*Queued.*Versions.*Inputsto.*must be given.*Only people and programs/s,
    )
    expect(asMember).toContain(`href="/console/workflows/${id}/edit"`)
    expect(plain(asMember)).not.toContain('Approve as a template')
    const asViewer = plain(await home.main(`${path}/${id}`, 'viewer'))
    expect(asViewer).toContain('Members and above change it: ask an owner for that role.')
    for (const act of ['Edit', 'Run or preview', 'Delete', 'Triggers', 'Would fail'])
      expect(asViewer).not.toContain(act)
  })

  test('says in words what differs between two versions, to its authors alone', async () => {
    const id = await save({ name: 'Rowan', definition: { inputs: { to: { type: 'string' } }, steps } })
    const after = {
      if_skipped: 'skip',
      steps: [
        { id: 'new', compute: { a: '1' } },
        { id: 'tell', tool: 'memory_get', params: { key: 'k' } },
        { ...steps[0], params: { key: 'other' }, depends_on: ['tell'] },
      ],
    }
    await home.call('member', 'PUT', `/workflows/${id}`, { definition: after, message: 'no sheets' })
    const page = plain(await home.main(`${path}/${id}?from=1&to=2`, 'member'))
    expect(page).toContain('no sheets')
    for (const line of [
      'The input to is gone.',
      'The step new is new: it computes.',
      'The step tell: it calls memory_get, and no longer calls sheets_append.',
      'The step read: params.key was k, and is other.',
      'The step read: depends_on is new: ["tell"].',
      'The steps stand in another order.',
      'if_skipped is new: skip.',
    ])
      expect(page).toContain(line.replaceAll('"', '&quot;'))
    expect(plain(await home.main(`${path}/${id}?from=2&to=2`, 'member'))).toContain('They are the same.')
    const of = await home.call('admin', 'POST', '/workflows', { name: 'Foreign', definition })
    expect(plain(await home.main(`${path}/${of.body.id}?from=1&to=1`, 'member'))).toContain('These versions cannot be compared.') // prettier-ignore
  })

  describe.each([true, false])('with JavaScript: %s', (javaScriptEnabled) => {
    const options = { ...phone, javaScriptEnabled }

    inBrowser('a member goes back to a version, and deletes it', async () => {
      const id = await save({ name: 'Sorrel' })
      await home.call('member', 'PUT', `/workflows/${id}`, { definition: { steps } })
      const { page } = await signedInAt(home.server, 'member', `${path}/${id}`, options)
      await page.locator('summary', { hasText: 'Go back to 1' }).click()
      await page.getByLabel('Why').fill('sheets are away')
      await page.getByRole('button', { name: 'Go back to version 1' }).click()
      await page.getByText('The earlier version is back').waitFor()
      expect(await page.getByRole('row', { name: 'the same as 1' }).innerText()).toContain('sheets are away')
      if (javaScriptEnabled) expect(await violations(page)).toEqual([])
      await page.locator('summary', { hasText: 'Delete the workflow' }).click()
      await page.getByRole('button', { name: 'Delete the workflow' }).click()
      await page.getByText('The workflow is deleted.').waitFor()
      expect((await home.call('member', 'GET', `/workflows/${id}`)).status).toBe(404)
    })

    inBrowser('an owner approves it as a template, which nobody deletes', async () => {
      const id = await save({ name: 'Tansy' })
      const { page } = await signedInAt(home.server, 'owner', `${path}/${id}`, options)
      await page.locator('summary', { hasText: 'Approve as a template' }).click()
      await page.getByLabel('Tags').fill('a, A')
      await page.getByRole('button', { name: 'Approve it' }).click()
      await page.getByRole('alert').waitFor()
      expect(await page.getByLabel('Tags').inputValue()).toBe('a, A')
      await page.getByLabel('Tags').fill('a, b')
      await page.getByRole('button', { name: 'Approve it' }).click()
      await page.getByText('It is a template now').waitFor()
      await page.locator('summary', { hasText: 'Delete the workflow' }).click()
      await page.getByRole('button', { name: 'Delete the workflow' }).click()
      await page.getByText('an owner has to deprecate and archive it first').waitFor()
    })
  })

  test('one that comes from a file says so, and is given back to people', async () => {
    const id = await save({ name: 'Filed', slug: 'filed' })
    const managed = {
      path: 'workflows/filed.yaml',
      repository: null,
      commit: null,
      applied_at: new Date(),
      applied_by: null,
    }
    await home.server.context.pool.query('update workflows set managed_by = $2 where id = $1', [
      id,
      JSON.stringify(managed),
    ])
    for (const place of [`${path}/${id}`, `${path}/${id}/edit`]) {
      const text = plain(await home.main(place, 'member'))
      expect(text).toContain('The workflow comes from workflows/filed.yaml')
      for (const act of ['Save a new version', 'Delete the workflow']) expect(text).not.toContain(act)
    }
    const token = await home.tokenOf(`${path}/${id}`, 'member')
    const answer = await home.post(
      `${path}/${id}`,
      { token, action: 'release' },
      {},
      await home.cookieOf('member'),
    )
    expect(answer.headers.get('location')).toBe(`${path}/${id}?done=release`)
    expect((await home.call('member', 'GET', `/workflows/${id}`)).body.managed_by).toBeNull()
  })
})
