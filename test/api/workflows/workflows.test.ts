import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import type { BootstrapName } from '../../../src/governance/people/bootstrap.ts'
import { addOrganization, aDefinition } from '../fixtures.ts'
import type { TestServer } from '../server.ts'
import { codeOf, placesOf, useServer } from '../use-server.ts'

let server: TestServer
const { as: call, ours } = useServer((started) => (server = started), { SMTP_URL: 'smtp://127.0.0.1:1' })

const workflow = async (): Promise<string> =>
  (await call('member', 'POST', '/workflows', { name: 'W', definition: aDefinition })).body.id
const move = (id: string, name: string, body: unknown, who: BootstrapName = 'owner') =>
  call(who, 'POST', `/workflow-registry/${id}/${name}`, body)
const template = async (name = 'T'): Promise<string> => {
  const id = await workflow()
  expect((await move(id, 'approve-template', { template_name: name })).status).toBe(200)
  return id
}
const execute = (who: BootstrapName, id: string, body: object = {}) =>
  call(who, 'POST', `/workflows/${id}/execute?wait=0`, body)
const rollBack = (who: BootstrapName, id: string, version: number | string, body: object = {}) =>
  call(who, 'POST', `/workflows/${id}/versions/${version}/rollback`, body)
const idsOf = (answer: { body: { data: { id: string }[] } }) => answer.body.data.map((each) => each.id)

describe('the registry', () => {
  test('from approval to archive, as its users see it', async () => {
    const [id, next] = [await template('Old'), await template('New')]
    const used = await move(id, 'use', {}, 'member')
    expect(used.status).toBe(201)
    expect(used.body).toMatchObject({ name: 'Old', template_id: id, template_version: 1, version: 1 })
    expect(used.body).not.toHaveProperty('warning')

    const why = { reason: 'there is a better one', replacement_id: next }
    expect((await move(id, 'deprecate', why)).body).toMatchObject({ id, state: 'deprecated', ...why })
    const warned = await move(id, 'use', { name: 'Mine' }, 'member')
    expect(warned.body).toMatchObject({ name: 'Mine', replacement_id: next })
    expect(warned.body.warning).toContain(next)
    expect(idsOf(await call('viewer', 'GET', '/workflow-registry')).slice(0, 2)).toEqual([next, id])

    expect((await move(id, 'archive', {})).body).toMatchObject({ id, state: 'archived' })
    expect(codeOf(await move(id, 'use', {}, 'member'))).toBe('409 conflict')
    expect(idsOf(await call('viewer', 'GET', '/workflow-registry'))).not.toContain(id)
    expect(idsOf(await call('viewer', 'GET', '/workflow-registry?include_archived=false'))).not.toContain(id)
    expect(idsOf(await call('viewer', 'GET', '/workflow-registry?include_archived=true'))).toContain(id)
    expect((await call('viewer', 'GET', `/workflows/${id}`)).status).toBe(200)
  })

  test('refuses an invalid transition with 409, and a personal workflow with 400', async () => {
    const id = await template()
    for (const [name, body] of [
      ['approve-template', { template_name: 'T' }],
      ['archive', {}],
    ] as const) {
      expect(codeOf(await move(id, name, body))).toBe('409 bad_transition')
    }
    const elsewhere = await addOrganization(server.context)
    await server.context.pool.query('update organizations set personal = true where id = $1', [elsewhere.id])
    const theirs = (path: string, body: unknown) => server.call(elsewhere.owner.key, 'POST', path, body)
    const personal = (await theirs('/workflows', { name: 'W', definition: aDefinition })).body.id
    expect(
      codeOf(await theirs(`/workflow-registry/${personal}/approve-template`, { template_name: 'T' })),
    ).toBe('400 personal_workflow')
  })

  test('a template in use cannot be deleted, 409', async () => {
    const id = await template()
    const answer = await call('member', 'DELETE', `/workflows/${id}`)
    expect(codeOf(answer)).toBe('409 conflict')
    expect(answer.body.error.message).toContain('archive it first')
  })

  test.each<[string, object, string]>([
    ['approve-template', {}, 'template_name'],
    ['approve-template', { template_name: ' ' }, 'template_name'],
    ['approve-template', { template_name: 'x'.repeat(201) }, 'template_name'],
    ['approve-template', { template_name: 'T', description: 'x'.repeat(2001) }, 'description'],
    ['approve-template', { template_name: 'T', tags: ['a', 'b', 'a'] }, 'tags.2'],
    ['approve-template', { template_name: 'T', tags: ['Mail', ' mail'] }, 'tags.1'],
    ['approve-template', { template_name: 'T', tags: [''] }, 'tags.0'],
    ['approve-template', { template_name: 'T', tags: ['x'.repeat(51)] }, 'tags.0'],
    ['approve-template', { template_name: 'T', tags: Array.from({ length: 21 }, (_, n) => `t${n}`) }, 'tags'],
    ['approve-template', { template_name: 'T', tags: 'a' }, 'tags'],
    ['approve-template', { template_name: 'T', version: 2 }, 'version'],
    ['approve-template', { template_name: 'T', version: 0 }, 'version'],
    ['approve-template', { template_name: 'T', nonsense: 1 }, 'nonsense'],
    ['deprecate', {}, 'reason'],
    ['deprecate', { reason: '' }, 'reason'],
    ['deprecate', { reason: 'r', replacement_id: '' }, 'replacement_id'],
    ['deprecate', { reason: 'r', replacement_id: 'wf_x' }, 'replacement_id'],
    ['archive', { really: true }, 'really'],
    ['use', { name: '' }, 'name'],
  ])('%s %j names %s', async (name, body, path) => {
    const id = name === 'approve-template' ? await workflow() : await template()
    const answer = await move(id, name, body)
    expect([codeOf(answer), placesOf(answer)[0]]).toEqual(['422 validation_error', path])
  })

  test('is listed page by page, latest approval first', async () => {
    const made = [await template(), await template(), await template()].reverse()
    const first = await call('viewer', 'GET', '/workflow-registry?limit=2')
    const rest = `/workflow-registry?limit=1&cursor=${first.body.next_cursor}`
    expect([...idsOf(first), ...idsOf(await call('viewer', 'GET', rest))]).toEqual(made)
    const foreign = (await call('member', 'GET', '/workflows?limit=1')).body.next_cursor
    expect((await call('viewer', 'GET', `/workflow-registry?cursor=${foreign}`)).status).toBe(422)
    expect((await call('viewer', 'GET', '/workflow-registry?include_archived=yes')).status).toBe(422)
  })
})

describe('the list', () => {
  test('finds a part of a name or slug, and has the last run, triggers and what does not work', async () => {
    const definition = { steps: [{ id: 's', tool: 'memory_get', params: { key: 'k' } }] }
    const save = async (body: object) =>
      (await call('member', 'POST', '/workflows', { definition, ...body })).body.id
    const [named, slugged] = [
      await save({ name: 'Quince JAM 100%' }),
      await save({ name: 'W', slug: 'quince-jelly' }),
    ]
    const found = async (text: string) =>
      idsOf(await call('viewer', 'GET', `/workflows?search=${encodeURIComponent(text)}`))
    expect(await found('qUInce')).toEqual([slugged, named])
    expect(await found('jam 100%')).toEqual([named])
    expect([await found('quince%'), await found('w\nquince')]).toEqual([[], []])
    const run = (await execute('member', named)).body.execution_id
    const mail = { id: 'm', tool: 'sheets_append', params: { spreadsheet: 's', rows: [['a']] } }
    const failing = await save({ name: 'Quince bill', definition: { steps: [mail, { ...mail, id: 'n' }] } })
    const { body } = await call('viewer', 'GET', '/workflows?search=quince&limit=2')
    expect(body.data).toMatchObject([
      {
        id: failing,
        last_run: null,
        trigger_count: 0,
        warnings: [expect.stringMatching(/`sheets_append` has no conn/)],
      },
      { id: slugged, last_run: null, warnings: [], created_by_email: server.identities.users.member.email },
    ])
    const rest = await call('viewer', 'GET', `/workflows?search=quince&cursor=${body.next_cursor}`)
    expect(rest.body.data).toMatchObject([{ id: named, last_run: { id: run, status: 'queued' } }])
  })

  test('tells a key without `runs:read` no run', async () => {
    const definition = { steps: [{ id: 's', tool: 'memory_get', params: { key: 'k' } }] }
    await execute('member', (await call('member', 'POST', '/workflows', { name: 'W', definition })).body.id)
    const made = await call('member', 'POST', '/api-keys', { name: 'k', scopes: ['workflows:read'] })
    const listed = await server.call(made.body.api_key, 'GET', '/workflows?limit=1')
    expect(listed.body.data[0].last_run).toBeNull()
    expect((await call('member', 'GET', '/workflows?limit=1')).body.data[0].last_run).not.toBeNull()
  })
})

describe('the versions of a workflow', () => {
  const remembering = (...ids: string[]) => ({
    steps: ids.map((id) => ({ id, tool: 'memory_get', params: { key: 'k' } })),
  })
  /** Saves a workflow whose version 1 has the step `one` and whose version 2 has the step `two`. */
  const twoVersions = async (): Promise<string> => {
    const first = { name: 'W', definition: remembering('one') }
    const { id } = (await call('member', 'POST', '/workflows', first)).body
    await call('member', 'PUT', `/workflows/${id}`, { definition: remembering('two'), message: 'second' })
    return id
  }
  /** Starts a run, and returns the workflow version and the steps of that run. */
  const acceptedAs = async (id: string, body: object) => {
    const { execution_id: runId } = (await execute('member', id, body)).body
    const run = (await call('viewer', 'GET', `/runs/${runId}`)).body
    return [run.workflow_version, run.steps.map((step: { id: string }) => step.id)]
  }

  describe('a run', () => {
    test('uses the current version, or the older one that it names', async () => {
      const id = await twoVersions()
      expect(await acceptedAs(id, {})).toEqual([2, ['two']])
      expect(await acceptedAs(id, { version: 1 })).toEqual([1, ['one']])
      await rollBack('admin', id, 1)
      expect(await acceptedAs(id, {})).toEqual([3, ['one']])
      expect(await acceptedAs(id, { version: 2 })).toEqual([2, ['two']])
    })

    test('keeps its version while others are deployed', async () => {
      const id = await twoVersions()
      const { execution_id: runId } = (await execute('member', id, {})).body
      await call('member', 'PUT', `/workflows/${id}`, { definition: remembering('three') })
      expect((await call('viewer', 'GET', `/runs/${runId}`)).body).toMatchObject({ workflow_version: 2, steps: [{ id: 'two' }] }) // prettier-ignore
    })

    test.each([
      [3, 404],
      [0, 422],
      ['1', 422],
      [1.5, 422],
    ])('of version %j is refused with %i', async (version, status) => {
      expect((await execute('member', await twoVersions(), { version })).status).toBe(status)
    })
  })

  test('are deleted with it; until then, the list shows the newest', async () => {
    const id = await twoVersions()
    const [newest] = (await call('viewer', 'GET', '/workflows')).body.data
    expect(newest).toMatchObject({ id, name: 'W', description: '', version: 2 })
    expect((await call('member', 'DELETE', `/workflows/${id}`)).status).toBe(204)
    expect((await call('viewer', 'GET', `/workflows/${id}/versions`)).status).toBe(404)
  })

  describe('a version', () => {
    test('is listed to every member, and inspected by its author and by admins', async () => {
      const id = await twoVersions()
      const { versions } = (await call('viewer', 'GET', `/workflows/${id}/versions`)).body
      const { user_id, email } = server.identities.users.member
      const authors = [{ user_id, role: 'member' }]
      const by = { deployed_by: user_id, deployed_by_email: email }
      const deployed = { deployed_at: expect.any(String), ...by, authors }
      expect(versions).toEqual([
        { version: 2, message: 'second', ...deployed, rolled_back_from: null, rolled_back_to: null },
        { version: 1, message: '', ...deployed, rolled_back_from: null, rolled_back_to: null },
      ])
      const one = await call('admin', 'GET', `/workflows/${id}/versions/1`)
      const { deployed_by_email: _, ...first } = versions[1]
      expect(one.body).toMatchObject({ ...first, workflow_id: id, definition: remembering('one') })
      expect((await call('member', 'GET', `/workflows/${id}/versions/1`)).status).toBe(200)
      expect((await call('viewer', 'GET', `/workflows/${id}/versions/1`)).status).toBe(403)
    })

    test('shows the versions of a rollback', async () => {
      const id = await twoVersions()
      const back = await rollBack('admin', id, 1, { message: 'm' })
      expect(back.status).toBe(200)
      expect(back.body).toEqual({ new_version: 3, rolled_back_from: 2, deployed_at: expect.any(String) })
      const three = (await call('admin', 'GET', `/workflows/${id}/versions/3`)).body
      expect(three).toMatchObject({
        rolled_back_from: 2,
        rolled_back_to: 1,
        deployed_at: back.body.deployed_at,
      })
    })

    test.each(['3', '0', 'x', '1%00'])('%s that does not exist is 404', async (version) => {
      const id = await twoVersions()
      expect((await call('admin', 'GET', `/workflows/${id}/versions/${version}`)).status).toBe(404)
      expect((await rollBack('admin', id, version)).status).toBe(404)
    })
  })
})

describe('who wrote what', () => {
  /* The authors of a version are no second person, lend nobody their rights, and are named after a change. */

  beforeAll(() => govern({ approvals_enabled: true }))

  const govern = (settings: object) => ours('owner', 'PATCH', '/governance', settings)
  const mail = (to: string, more: object = {}) => ({
    steps: [{ id: 'send', tool: 'mail_send', params: { to, subject: `to ${to}`, text: to }, ...more }],
  })
  const look = (key: string) => ({ steps: [{ id: 'look', tool: 'memory_get', params: { key } }] })
  const save = async (who: BootstrapName, definition: object, more: object = {}): Promise<string> => {
    const saved = await call(who, 'POST', '/workflows', { name: 'w', definition, ...more })
    expect(saved.status).toBe(201)
    return saved.body.id
  }
  const change = (who: BootstrapName, id: string, definition: object, message = '') =>
    call(who, 'PUT', `/workflows/${id}`, { definition, message })
  const use = async (who: BootstrapName, id: string): Promise<string> => {
    await call('owner', 'POST', `/workflow-registry/${id}/approve-template`, { template_name: `t ${id}` })
    return (await call(who, 'POST', `/workflow-registry/${id}/use`, {})).body.id
  }

  /** Somebody saves a definition, rolls back to a version, or uses the workflow as a template. */
  type Act = readonly [BootstrapName, object | number | 'use']
  /** Does this with one workflow, and returns the id of the last one. */
  const history = async (...acts: readonly Act[]): Promise<string> => {
    let id = ''
    for (const [who, what] of acts)
      if (what === 'use') id = await use(who, id)
      else if (typeof what === 'number') expect((await rollBack(who, id, what)).status).toBe(200)
      else if (id === '') id = await save(who, what)
      else expect((await change(who, id, what)).status).toBe(200)
    return id
  }

  describe('an approval of a run', () => {
    const vote = (who: BootstrapName, id: string) => call(who, 'POST', `/approvals/${id}/approve`, {})
    /** Starts a run that waits for its approval, and returns the approval's id. */
    const waiting = async (id: string, body: object = {}): Promise<string> => {
      await govern({ approval_required_from: 'low' })
      const run = (await execute('member', id, body)).body.execution_id
      await govern({ approval_required_from: null })
      return (await call('owner', 'GET', `/approvals?run_id=${run}`)).body.data[0].id
    }
    const refusal = async (who: BootstrapName, id: string) => (await vote(who, id)).body.error?.code

    const byAdmin = mail('evil@x.test')
    const washed: readonly [string, ...Act[]][] = [
      ['edited it', ['member', mail('a@b.test')], ['admin', byAdmin]],
      ['wrote what another person saved again', ['admin', byAdmin], ['member', byAdmin]],
      [
        'wrote what another person changed a little',
        ['admin', byAdmin],
        ['member', mail('evil@x.test', { summary: 'a mail' })],
      ],
      [
        'wrote what a person restored by hand',
        ['admin', byAdmin],
        ['member', mail('a@b.test')],
        ['member', byAdmin],
      ],
      ['rolled back to it', ['member', mail('a@b.test')], ['member', mail('c@d.test')], ['admin', 1]],
      [
        'wrote the version that another person rolled back to',
        ['admin', byAdmin],
        ['member', mail('a@b.test')],
        ['owner', 1],
      ],
      ['wrote the template', ['admin', byAdmin], ['member', 'use']],
    ]
    test.each(washed)('is not for the admin who %s, and for another one', async (_, ...acts) => {
      const id = await waiting(await history(...acts))
      const { authors, detail } = (await call('admin', 'GET', `/approvals/${id}`)).body
      expect(authors.map(({ email }: { email: string }) => email)).toContain('admin@countersign.test')
      expect(detail.vote_refused).toMatch(/^you wrote the version of the workflow that runs/)
      const { data } = (await call('admin', 'GET', '/approvals?mine=true')).body
      expect(data.map((each: { id: string }) => each.id)).not.toContain(id)
      expect(await refusal('admin', id)).toBe('self_approval')
      expect((await vote('approver', id)).status).toBe(200)
    })

    test('is for the author of another version, and for every author if the setting allows it', async () => {
      const id = await save('admin', byAdmin)
      await change('member', id, mail('a@b.test'))
      expect((await vote('admin', await waiting(id))).status).toBe(200)
      const earlier = await waiting(id, { version: 1 })
      expect(await refusal('admin', earlier)).toBe('self_approval')
      await govern({ allow_self_approval: true })
      expect((await vote('admin', earlier)).status).toBe(200)
      await govern({ allow_self_approval: false })
    })

    test('hides the run’s inputs, outputs and its calls’ parameters from people who may not decide it', async () => {
      const definition = { inputs: { to: { type: 'string' } }, ...mail('{{input.to}}') }
      const id = await waiting(await save('member', definition), { inputs: { to: 'secret@x.test' } })
      const { run_id: run } = (await call('owner', 'GET', `/approvals/${id}`)).body
      const seen = async (who: BootstrapName) =>
        JSON.stringify((await call(who, 'GET', `/runs/${run}`)).body).includes('secret@x.test')
      expect(await Promise.all((['owner', 'admin', 'member', 'viewer'] as const).map(seen))).toEqual([true, true, true, false]) // prettier-ignore
      const output = (who: BootstrapName) => call(who, 'GET', `/runs/${run}/steps/send/output`)
      const shown = (await call('owner', 'GET', `/runs/${run}`)).body
      const hidden = (await call('viewer', 'GET', `/runs/${run}`)).body
      expect(Object.keys(shown).filter((field) => !(field in hidden))).toEqual([
        'inputs',
        'outputs',
        'result',
      ])
      expect([(await output('owner')).status, (await output('viewer')).status]).toEqual([200, 403])
      await server.context.pool.query("update approvals set approver = 'owner' where id = $1", [id])
      expect((await output('admin')).body.error.code).toBe('not_an_approver')
      expect(await Promise.all((['owner', 'admin', 'member', 'viewer'] as const).map(seen))).toEqual([true, false, true, false]) // prettier-ignore
    })
  })

  describe('with a tool that is blocked for members, the run of an admin', () => {
    beforeAll(() => ours('owner', 'POST', '/role-policy-overrides', { tool_name: 'mail_send', role: 'member', allowed: false })) // prettier-ignore
    afterAll(() => ours('owner', 'DELETE', '/role-policy-overrides/mail_send?role=member'))

    const byMember = mail('m@x.test')
    const both = (key: string) => ({ steps: [...look(key).steps, ...mail('a@b.test').steps] })
    const withMore = { steps: [...byMember.steps, ...look('more').steps] }
    const borrowed: readonly [string, ...Act[]][] = [
      ['after a member has put it in', ['admin', look('daily')], ['member', byMember]],
      ['after an admin has saved a member’s text again', ['member', byMember], ['admin', withMore]],
      [
        'after an admin has rolled back to a member’s text',
        ['member', byMember],
        ['admin', look('daily')],
        ['admin', 1],
      ],
      ['after a member has changed a step before it', ['admin', both('mine')], ['member', both('theirs')]],
      ['of a member’s template', ['member', byMember], ['admin', 'use']],
    ]
    test.each(borrowed)('is refused %s', async (_, ...acts) => {
      const id = await history(...acts)
      const { status, body } = await execute('admin', id)
      expect([status, body.error.code]).toEqual([403, 'run_denied'])
      expect(body.error.message).toContain('blocks `mail_send`, and somebody with this role wrote the step')
      const preview = (await call('admin', 'POST', `/workflows/${id}/authorization-preview`, {})).body
      expect(preview.executable).toBe(false)
    })

    test('is accepted for what an admin wrote, also anew', async () => {
      expect((await execute('admin', await save('admin', mail('a@b.test')))).status).toBe(202)
      const id = await save('member', byMember)
      await change('admin', id, mail('a@b.test'))
      expect((await execute('admin', id)).status).toBe(202)
    })

    test('shows in the preview of a draft that the draft would keep a member’s step', async () => {
      const id = await save('member', byMember)
      const preview = async (definition: object) =>
        (await call('admin', 'POST', `/workflows/${id}/authorization-preview`, { definition })).body
          .executable
      expect([await preview(byMember), await preview(mail('a@b.test'))]).toEqual([false, true])
    })
  })

  describe('a change by another person', () => {
    const named = async (who: BootstrapName, id: string, body: object = {}) => {
      const preview = (await call(who, 'POST', `/workflows/${id}/authorization-preview`, body)).body
      const { body: run } = await execute(who, id, body)
      const kept = (await call(who, 'GET', `/runs/${run.execution_id}`)).body
      expect(preview.changed_since_your_last_run).toEqual(run.changed_since_your_last_run)
      expect(kept.changed_since_your_last_run).toEqual(run.changed_since_your_last_run)
      return run.changed_since_your_last_run
    }

    test('is named by the preview and by the first run after it', async () => {
      const id = await save('admin', look('a'))
      expect(await named('admin', id)).toBeNull()
      await change('member', id, look('b'), 'looks elsewhere')
      expect(await named('admin', id, { version: 1 })).toBeNull()
      const change2 = { version: 2, author: 'member@countersign.test', message: 'looks elsewhere' }
      expect(await named('admin', id)).toMatchObject(change2)
      expect(await named('admin', id)).toBeNull()
      expect(await named('member', id)).toBeNull()
      // The approver has never run it, so the change is new to them.
      expect(await named('approver', id)).toMatchObject(change2)
    })

    test('is named to the requester alone, and not after they have saved a later version', async () => {
      const id = await save('admin', look('a'))
      await change('member', id, look('b'))
      const { body } = await execute('admin', id)
      const seen = (await call('owner', 'GET', `/runs/${body.execution_id}`)).body
      expect(seen.changed_since_your_last_run).toBeNull()
      await change('member', id, look('c'))
      await change('admin', id, look('d'))
      expect(await named('admin', id)).toBeNull()
    })

    test('names everybody whose text it has, so that a later change hides no earlier one', async () => {
      const id = await save('admin', look('a'))
      await change('member', id, mail('evil@x.test'))
      await change('approver', id, { steps: [...mail('evil@x.test').steps, ...look('b').steps] })
      const others = ['member@countersign.test']
      expect(await named('admin', id)).toMatchObject({
        version: 3,
        author: 'approver@countersign.test',
        others,
      })
      await change('owner', id, look('c'))
      expect(await named('admin', id)).toMatchObject({ author: 'owner@countersign.test', others: [] })
    })

    test('is named by the refusal of the run', async () => {
      const id = await save('admin', look('a'))
      await change('member', id, mail('a@b.test'))
      await ours('owner', 'POST', '/tool-policies', { tool_name: 'mail_send', allowed: false })
      const { body } = await execute('admin', id)
      expect(body.error.details[1]).toMatchObject({
        path: 'version',
        message: expect.stringContaining(
          '`member@countersign.test` changed the workflow, and you have not run the change yet: version 2',
        ),
      })
      await ours('owner', 'DELETE', '/tool-policies/mail_send')
    })
  })

  describe('a protected workflow', () => {
    test.each<[string, BootstrapName, string, string, object | undefined]>([
      ['changed by a member', 'member', 'PUT', '', { definition: look('b') }],
      ['renamed by a member', 'member', 'PUT', '', { name: 'mine' }],
      ['deleted by a member', 'member', 'DELETE', '', undefined],
      ['freed by an admin', 'admin', 'PUT', '', { protected: false }],
    ])('is not %s', async (_, who, method, path, body) => {
      const id = await save('owner', look('a'), { protected: true })
      const before = (await call('owner', 'GET', `/workflows/${id}`)).body
      const { status, body: answer } = await call(who, method, `/workflows/${id}${path}`, body)
      expect([status, answer.error.code]).toEqual([403, 'insufficient_role'])
      expect(answer.error.details[0].path).toBe(who === 'admin' ? 'owner' : 'admin')
      expect((await call('owner', 'GET', `/workflows/${id}`)).body).toEqual(before)
    })

    test('is changed by admins, and protected and freed by owners alone', async () => {
      for (const who of ['member', 'admin'] as const) {
        const body = { name: 'w', definition: look('a'), protected: true }
        expect(codeOf(await call(who, 'POST', '/workflows', body))).toBe('403 insufficient_role')
      }
      const id = await save('member', look('a'))
      expect((await call('owner', 'PUT', `/workflows/${id}`, { protected: true })).body).toMatchObject({ protected: true, version: 1 }) // prettier-ignore
      expect((await change('admin', id, look('b'))).body).toMatchObject({ protected: true, version: 2 })
      expect((await rollBack('admin', id, 1)).status).toBe(200)
      const freed = await call('owner', 'PUT', `/workflows/${id}`, { protected: false })
      expect(freed.body.protected).toBe(false)
      expect((await change('member', id, look('c'))).status).toBe(200)
    })
  })
})
