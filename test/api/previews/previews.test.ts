import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import type { BootstrapName } from '../../../src/governance/people/bootstrap.ts'
import { addKey, aDefinition } from '../fixtures.ts'
import type { TestServer } from '../server.ts'
import { codeOf, placesOf, useServer } from '../use-server.ts'

/* Previews of workflows, most of them of one that reads a report and mails it. */

const definition = {
  inputs: { to: { type: 'string', required: true }, cc: { type: 'string' } },
  steps: [
    { id: 'read', tool: 'file_read', params: { path: 'reports/q3-summary.md' } },
    {
      id: 'send',
      tool: 'mail_send',
      params: { to: '{{input.to}}', subject: 'x', text: '{{steps.read.output.text}}' },
    },
  ],
}

const outside = {
  name: 'internal data stays inside',
  verdict: 'deny',
  side_effects: ['egress'],
  labels: { any_of: ['internal'] },
  params: [{ param: 'to', operator: 'domain_not_in', value: ['acme.com'] }],
}

/** The body of a preview: a definition with the input `v` and these steps. */
const steps = (...all: object[]) => ({ definition: { inputs: { v: { type: 'string' } }, steps: all } })
const note = { id: 'n', tool: 'memory_set', params: { key: 'k', value: '{{input.v}}' } }

let server: TestServer
const { as, ours } = useServer((started) => (server = started), { SMTP_URL: 'smtp://127.0.0.1:9' })

/** Saves a definition. Returns the workflow's id. */
const saved = async (body: object = definition): Promise<string> =>
  (await as('member', 'POST', '/workflows', { name: 'w', definition: body })).body.id
const preview = (id: string, body: object = {}, who: BootstrapName = 'viewer') =>
  as(who, 'POST', `/workflows/${id}/authorization-preview`, body)
const execute = (who: BootstrapName, id: string, inputs: object) =>
  as(who, 'POST', `/workflows/${id}/execute?wait=0`, { inputs })
const policy = (body: object) => ours('owner', 'POST', '/tool-policies', body)
const withoutPolicy = (path: string) => ours('owner', 'DELETE', `/tool-policies/${path}`)
const govern = (body: object) => ours('owner', 'PATCH', '/governance', body)
const addRule = async (body: object): Promise<string> => (await ours('admin', 'POST', '/rules', body)).body.id
const removeRule = (id: string) => ours('admin', 'DELETE', `/rules/${id}`)

describe('a preview', () => {
  let id: string
  let rule: string
  beforeAll(async () => {
    id = await saved()
    rule = await addRule(outside)
  })
  afterAll(() => removeRule(rule))

  test('without inputs shows what is definite and what is possible', async () => {
    const { status, body } = await preview(id)
    expect(status).toBe(200)
    expect(body).toMatchObject({
      verdict: 'deny',
      executable: true,
      not_executable_because: null,
      unknown_inputs: ['to', 'cc'],
      run_approval: {
        required: false,
        certainty: 'definite',
        risk_level: 'high',
        highest_risk_level: 'critical',
      },
      steps: [
        {
          step_id: 'read',
          tool: 'file_read',
          side_effect: 'read',
          verdict: 'allow',
          certainty: 'definite',
          labels: { definite: [], possible: [], others_from: [], left_out: 0 },
          rules: [],
          role_policy: null,
          frozen: null,
          checked_during_call: [],
          connected: true,
          available: true,
        },
        {
          step_id: 'send',
          side_effect: 'egress',
          verdict: 'deny',
          certainty: 'possible',
          labels: { definite: ['internal'], possible: ['internal'] },
          rules: [
            {
              name: outside.name,
              verdict: 'deny',
              certainty: 'possible',
              because:
                'it sends data out, the data is labelled internal and `to` is outside `acme.com` if `input.to` is',
            },
          ],
        },
      ],
    })
  })

  test('with inputs is the run with these inputs, and agrees with `execute`', async () => {
    const inside = await preview(id, { inputs: { to: 'a@acme.com' } })
    expect(inside.body).toMatchObject({ verdict: 'allow', executable: true, unknown_inputs: [] })
    const denied = await preview(id, { inputs: { to: 'b@evil.net' } })
    expect(denied.body).toMatchObject({
      verdict: 'deny',
      executable: false,
      not_executable_because: 'step `send` would be denied by `internal data stays inside`',
      steps: [{}, { verdict: 'deny', certainty: 'definite', rules: [{ certainty: 'definite' }] }],
    })
    expect(codeOf(await execute('member', id, { to: 'b@evil.net' }))).toBe('403 run_denied')
    expect((await execute('member', id, { to: 'a@acme.com' })).status).toBe(202)
  })

  test('while a required input is missing, the inputs that are not given are unknown', async () => {
    const { body } = await preview(id, { inputs: { cc: 'a@acme.com' } })
    expect(body).toMatchObject({ unknown_inputs: ['to'], steps: [{}, { certainty: 'possible' }] })
  })

  test('shows a saved version, or a definition that is not saved', async () => {
    const changed = structuredClone(definition)
    ;(changed.steps[1] as { params: { to: string } }).params.to = 'b@evil.net'
    const unsaved = await preview(id, { definition: changed })
    expect(unsaved.body.steps[1]).toMatchObject({ verdict: 'deny', certainty: 'definite' })
    await as('member', 'PUT', `/workflows/${id}`, { definition: changed })
    expect((await preview(id)).body.executable).toBe(false)
    expect((await preview(id, { version: 1 })).body.executable).toBe(true)
    expect((await preview(id, { version: 9 })).status).toBe(404)
  })

  test.each<[string, object, string]>([
    [
      'an unknown tool',
      { definition: { steps: [{ id: 's', tool: 'none', params: {} }] } },
      'definition.steps.0.tool',
    ],
    [
      'an unknown reference',
      { definition: { steps: [{ id: 's', tool: 'memory_get', params: { key: '{{input.x}}' } }] } },
      'definition.steps.0.params.key',
    ],
    ['a definition without steps', { definition: { steps: [] } }, 'definition.steps'],
    ['an input that the workflow has not', { inputs: { none: 1 } }, 'inputs.none'],
    ['an input of another type', { inputs: { to: 7 } }, 'inputs.to'],
    [
      'labels of an input that the workflow has not',
      { input_labels: { none: ['pii'] } },
      'input_labels.none',
    ],
    ['a version beside a definition', { version: 1, definition }, 'version'],
    ['an unknown field', { colour: 'red' }, 'colour'],
  ])('refuses %s and names its place', async (_, body, path) => {
    const answer = await preview(id, body)
    expect(answer.status).toBe(422)
    expect(placesOf(answer)).toContain(path)
  })

  test('records nothing', async () => {
    const total = async () => (await ours('admin', 'GET', '/governance/audit')).body.total
    const before = await total()
    await preview(id)
    expect(await total()).toBe(before)
  })
})

/** A workflow that no test changes. */
let id: string
beforeAll(async () => {
  id = await saved()
})

describe('what else a preview shows', () => {
  test('tool policies of the caller’s role: a block, and a limit that an input may break', async () => {
    await policy({ tool_name: 'memory_set', role: 'member', allowed: false })
    const limits = { tool_name: 'mail_send', restrictions: { allowed_domains: ['acme.com'] } }
    await policy(limits)
    const send = { id: 's', tool: 'mail_send', params: { to: '{{input.v}}', subject: 'x', text: 'y' } }
    const shown = async (who: BootstrapName, body: object) => {
      const answer = await preview(id, { ...steps(note, send), ...body }, who)
      return answer.body.steps.map(
        (step: { verdict: string; certainty: string; role_policy: { reason: string } }) => [
          step.verdict,
          step.certainty,
          step.role_policy?.reason ?? null,
        ],
      )
    }
    const beyond = 'outside the limits of the organization'
    expect(await shown('member', {})).toEqual([
      ['deny', 'definite', 'tool blocked for role member'],
      ['deny', 'possible', beyond],
    ])
    expect(await shown('admin', { inputs: { v: 'a@acme.com' } })).toEqual([
      ['allow', 'definite', null],
      ['allow', 'definite', null],
    ])
    expect((await shown('admin', { inputs: { v: 'b@evil.net' } }))[1]).toEqual(['deny', 'definite', beyond])
    await withoutPolicy('memory_set?role=member')
    await withoutPolicy('mail_send')
  })

  test('a tool that does not work here, and a step that may not run', async () => {
    const definition = {
      inputs: { go: { type: 'boolean' } },
      steps: [
        {
          id: 'never',
          tool: 'memory_get',
          params: { key: 'k' },
          when: { value: 'a', operator: 'equals', compare: 'b' },
        },
        {
          id: 'maybe',
          tool: 'web_search',
          params: { query: 'x' },
          when: { value: '{{input.go}}', operator: 'exists' },
        },
        { id: 'always', tool: 'memory_get', params: { key: 'k' } },
      ],
    }
    const { body } = await preview(id, { definition })
    expect(body.steps).toMatchObject([
      { runs: 'never', available: true },
      {
        runs: 'possibly',
        connected: false,
        available: false,
        unavailable_because: expect.stringContaining('`web_search`'),
      },
      { runs: 'certainly', available: true, labels: { others_from: [] } },
    ])
    expect(body.executable).toBe(true)
  })

  test('limits that only the call can check: who can read a place, and the size of an output', async () => {
    const domains = { allowed_domains: ['acme.com'] }
    await policy({ tool_name: 'docs_create', restrictions: domains })
    await policy({ tool_name: 'sheets_append', restrictions: domains, role: 'viewer' })
    await policy({ tool_name: 'file_read', restrictions: { max_response_size_kb: 64 } })
    const doc = {
      id: 'd',
      tool: 'docs_create',
      params: { title: 't', content: 'c', folder: '{{input.v}}' },
    }
    const row = { id: 'a', tool: 'sheets_append', params: { spreadsheet: 'S', range: 'A1', rows: [['x']] } }
    const file = { id: 'f', tool: 'file_read', params: { path: 'a' } }
    const never = { ...doc, id: 'n', when: { value: 'a', operator: 'equals', compare: 'b' } }
    const { body } = await preview(id, steps(doc, row, file, never))
    const asked = (tool: string) =>
      `The service is asked who can read what \`${tool}\` writes to: only people in \`acme.com\` may (\`allowed_domains\`).`
    expect(body.steps.map((step: { checked_during_call: string[] }) => step.checked_during_call)).toEqual([
      [asked('docs_create')],
      [asked('sheets_append')],
      ['An output of more than 64 KiB as JSON is refused (`max_response_size_kb`).'],
      [],
    ])
    const forMember = await preview(id, steps(row), 'member')
    expect(forMember.body.steps[0].checked_during_call).toEqual([])
    for (const path of ['docs_create', 'sheets_append?role=viewer', 'file_read']) await withoutPolicy(path)
  })

  test('rules that a tool policy leaves unasked, and shadow rules', async () => {
    const watched = { name: 'watched', verdict: 'deny', status: 'shadow', tools: ['memory_set'] }
    const held = { name: 'held', verdict: 'require_approval', tools: ['memory_set'], params: [{ param: 'value', operator: 'equals', value: 'x' }] } // prettier-ignore
    const rules = [await addRule(watched), await addRule(held)]
    const shown = async () =>
      (await preview(id, steps(note), 'member')).body.steps[0].rules.map((rule: Record<string, unknown>) => [
        rule['name'],
        rule['certainty'],
        rule['shadow'],
      ])
    const both = [
      ['watched', 'definite', true],
      ['held', 'possible', false],
    ]
    expect((await preview(id, steps(note), 'member')).body).toMatchObject({ executable: true, steps: [{ at_least: 'allow' }] }) // prettier-ignore
    expect(await shown()).toEqual(both)
    await policy({ tool_name: 'memory_set', allowed: false })
    expect((await preview(id, steps(note), 'member')).body.steps[0]).toMatchObject({
      certainty: 'definite',
      role_policy: { certainty: 'definite' },
    })
    expect(await shown()).toEqual(both)
    await withoutPolicy('memory_set')
    for (const rule of rules) await removeRule(rule)
  })

  test('an organization that is frozen denies every step, and says so', async () => {
    const rule = await addRule(outside)
    const when = { value: '{{input.v}}', operator: 'exists' }
    const later = { id: 'later', tool: 'memory_get', params: { key: 'k' }, when }
    const skipped = await saved(steps(later).definition)
    await ours('owner', 'POST', '/freeze', { reason: 'an incident' })
    const explanation = 'The organization is frozen, so every call is denied: an incident'
    const { body } = await preview(id)
    expect(body).toMatchObject({
      executable: false,
      not_executable_because: expect.stringContaining('nothing can start until an owner unfreezes'),
      steps: [
        { verdict: 'deny', certainty: 'definite', frozen: explanation },
        { verdict: 'deny', certainty: 'definite', frozen: explanation },
      ],
    })
    // The rules are still listed.
    expect(body.steps[1].rules).toMatchObject([{ name: outside.name, certainty: 'possible' }])
    expect((await preview(id, steps(later))).body).toMatchObject({
      verdict: 'deny',
      executable: false,
      not_executable_because: expect.stringContaining('nothing can start until an owner unfreezes'),
      steps: [{ verdict: 'deny', certainty: 'possible', frozen: explanation }],
    })
    expect(codeOf(await execute('member', skipped, {}))).toBe('403 run_denied')
    await ours('owner', 'POST', '/unfreeze', { reason: 'over' })
    await removeRule(rule)
  })
})

describe('what a preview says of the approval of a whole run', () => {
  test('whether the whole run would wait, who approves it, and why', async () => {
    await govern({ approvals_enabled: true, require_approval_for_external_comm: true })
    const hold = {
      name: 'owner sees mail',
      verdict: 'require_approval',
      tools: ['mail_send'],
      approver: 'owner',
    }
    const rule = await addRule(hold)
    const inputs = { to: 'a@acme.com' }
    const { run_approval } = (await preview(id, { inputs })).body
    expect(run_approval).toEqual({
      required: true,
      certainty: 'definite',
      risk_level: 'high',
      highest_risk_level: 'high',
      possible_reasons: [],
      reasons: expect.arrayContaining([
        '`mail_send` is external communication (`require_approval_for_external_comm`)',
      ]),
      approver: 'owner',
      approvals_needed: 1,
      approvers: [{ role: 'owner', count: 1 }],
    })
    const started = await execute('member', id, inputs)
    const run = (await as('member', 'GET', `/runs/${started.body.execution_id}`)).body
    expect(run).toMatchObject({ status: 'awaiting_approval', risk: { reasons: run_approval.reasons } })
    expect(run.status_reason).toContain('by an owner: `mail_send` is external communication')
    await govern({ approvals_enabled: false })
    expect((await preview(id, { inputs })).body).toMatchObject({
      executable: false,
      not_executable_because:
        'step `send` would be denied by `owner sees mail`; approvals are off: set `approvals_enabled`',
      run_approval: { required: false, risk_level: 'high', approver: null },
    })
    await govern({ require_approval_for_external_comm: false })
    await removeRule(rule)
  })

  const comment = { id: 'c', tool: 'github_comment', params: { repo: 'a/b', number: 1, body: 'x' } }
  const channel = { id: 'c', tool: 'slack_create_channel', params: { name: 'x' } }
  test.each<[string, object, object, string]>([
    ['a risk', { approval_required_from: 'low' }, note, ''],
    ['public writes', { require_approval_for_public_writes: true }, comment, '`github_comment` writes where the public can read (`require_approval_for_public_writes`)'], // prettier-ignore
    ['permission changes', { require_approval_for_permission_changes: true }, channel, '`slack_create_channel` changes permissions (`require_approval_for_permission_changes`)'], // prettier-ignore
    ['a category of the workflow', { category_flags: { financial: true } }, note, 'the workflow is of category `financial` (`category_flags`)'], // prettier-ignore
    ['a category of a tool', { category_flags: { public_writes: true } }, comment, '`github_comment` is of category `public_writes` (`category_flags`)'], // prettier-ignore
  ])('a run that waits for %s, also without inputs', async (_, patch, step, reason) => {
    const off = { approvals_enabled: false, approval_required_from: null, require_approval_for_public_writes: false, require_approval_for_permission_changes: false, category_flags: {} } // prettier-ignore
    const definition = { inputs: { v: { type: 'string' } }, categories: ['financial'], steps: [step] }
    const shown = async () => (await preview(id, { definition })).body.run_approval
    try {
      await govern({ ...off, approvals_enabled: true })
      expect((await shown()).required).toBe(false)
      await govern({ ...patch, approvals_enabled: true })
      const { required, certainty, reasons } = await shown()
      expect({ required, certainty }).toEqual({ required: true, certainty: 'definite' })
      if (reason !== '') expect(reasons).toContain(reason)
    } finally {
      await govern(off)
    }
  })

  test('whether the run may wait, as far as inputs that are not known decide it', async () => {
    await govern({ approvals_enabled: true, approval_required_from: 'critical' })
    const send = {
      id: 's',
      tool: 'mail_send',
      params: { to: 'a@acme.com', subject: 'x', text: '{{input.v}}' },
    }
    const shown = async (body: object) => (await preview(id, { ...steps(send), ...body })).body.run_approval
    expect(await shown({})).toEqual({
      required: false,
      certainty: 'possible',
      risk_level: 'high',
      highest_risk_level: 'critical',
      reasons: ['`mail_send` delivers content to people or places'],
      possible_reasons: [
        '`mail_send` sends confidential data out, if `input.v` brings this label',
        '`mail_send` sends pii data out, if `input.v` brings this label',
      ],
      approver: 'admin',
      approvals_needed: 1,
      approvers: [{ role: 'admin', count: 1 }],
    })
    const inputs = { v: 'x' }
    expect(await shown({ inputs })).toMatchObject({
      required: false,
      certainty: 'definite',
      highest_risk_level: 'high',
      possible_reasons: [],
      approver: null,
    })
    expect(await shown({ inputs, input_labels: { v: ['confidential'] } })).toMatchObject({
      required: true,
      certainty: 'definite',
      risk_level: 'critical',
    })
    await govern({ approvals_enabled: false, approval_required_from: null })
  })
})

describe('blocked steps', () => {
  const block = async (body: object) => {
    await server.context.pool.query('delete from tool_policies')
    expect((await policy(body)).status).toBe(201)
  }
  const start = async (who: BootstrapName, definition: object = aDefinition) => {
    const { id } = (await as(who, 'POST', '/workflows', { name: 'w', definition })).body
    return execute(who, id, { to: 'me' })
  }
  const refusal = async (who: BootstrapName): Promise<{ message: string; details: object[] }> => {
    const answer = await start(who)
    expect(codeOf(answer)).toBe('403 run_denied')
    return answer.body.error
  }

  test('a step that a policy blocks refuses the run up front', async () => {
    await block({ tool_name: 'mail_send', allowed: false })
    expect(await refusal('member')).toMatchObject({
      message:
        'step `send` would be denied: tool blocked by the organization: nothing was started; ' +
        'a tool policy of the organization blocks `mail_send`',
      details: [{ path: 'steps.send' }],
    })
  })

  test('a policy of a role counts only for requesters of this role', async () => {
    await block({ tool_name: 'mail_send', allowed: false, role: 'member' })
    expect((await refusal('member')).message).toContain('tool blocked for role member')
    expect((await start('admin')).status).toBe(202)
  })

  test('the run is refused for a read-only tool, and for a tool that no policy allows', async () => {
    await block({ tool_name: 'mail_send', restrictions: { read_only: true } })
    expect((await refusal('member')).message).toContain('read-only')
    await block({ tool_name: 'file_read', allowed: true })
    await govern({ default_tool_access: 'deny' })
    expect((await refusal('member')).message).toContain(
      'step `send` would be denied: tool not allowed by any policy',
    )
    await govern({ default_tool_access: 'allow' })
  })

  test('the run is not refused if the step may be skipped: then the call is denied when it is made', async () => {
    await block({ tool_name: 'mail_send', allowed: false })
    const [read, send] = aDefinition.steps as [object, object]
    const unknown = { ...send, when: { value: '{{read.output.size}}', operator: 'equals', compare: 1 } }
    expect((await start('member', { ...aDefinition, steps: [read, unknown] })).status).toBe(202)
    const never = { ...send, when: { value: '{{input.to}}', operator: 'equals', compare: 'nobody' } }
    expect((await start('member', { ...aDefinition, steps: [read, never] })).status).toBe(202)
  })
})

describe('with outputs that are assumed (`mocks`)', () => {
  const draft = {
    steps: [
      { id: 'list', tool: 'github_list_issues', params: { repo: 'acme/app' } },
      {
        id: 'each',
        tool: 'memory_set',
        for_each: '{{list.output.issues}}',
        params: { key: 'issue {{item.number}}', value: '{{item.title}} {{today}}' },
        when: { value: '{{item.state}}', operator: 'equals', compare: 'open' },
      },
    ],
  }
  const issue = (number: number, state: string) => ({
    number,
    title: `t${number}`,
    body: '',
    labels: [],
    state,
    url: 'https://github.com/acme/app/issues/1',
  })
  const drafted = (mocks?: object) =>
    as('member', 'POST', '/workflows/preview', {
      definition: draft,
      ...(mocks === undefined ? {} : { mocks }),
    })

  test('each step shows its parameters and whether its condition holds', async () => {
    const { body } = await drafted({
      list: { issues: [issue(1, 'open'), issue(2, 'closed'), issue(3, 'open')] },
    })
    const [list, each] = body.steps
    expect(list.resolved).toEqual({ condition: true, calls: [{ repo: 'acme/app' }], left_out: 0 })
    expect(each).toMatchObject({
      runs: 'certainly',
      resolved: {
        condition: true,
        // What is not known stays as it is written.
        calls: [1, 3].map((number) => ({ key: `issue ${number}`, value: '{{item.title}} {{today}}' })),
        left_out: 0,
      },
    })
    const none = await drafted({ list: { issues: [issue(2, 'closed')] } })
    expect(none.body.steps[1]).toMatchObject({ runs: 'never', resolved: { condition: false, calls: [] } })
    const without = await drafted()
    expect(without.body.steps[1]).toMatchObject({ runs: 'possibly', resolved: null })
    const others = await drafted({})
    expect(others.body.steps[1].resolved).toEqual({
      condition: null,
      calls: [draft.steps[1]?.params],
      left_out: 0,
    })
  })

  test('an output decides for rules, and keeps the labels of its tool', async () => {
    const rule = await addRule({
      name: 'no third issue',
      verdict: 'deny',
      tools: ['memory_set'],
      params: [{ param: 'key', operator: 'equals', value: 'issue 3' }],
    })
    const withIssue = async (number: number) =>
      (await drafted({ list: { issues: [issue(number, 'open')] } })).body.steps[1]
    expect(await withIssue(3)).toMatchObject({ verdict: 'deny', certainty: 'definite' })
    expect(await withIssue(4)).toMatchObject({ verdict: 'allow', certainty: 'definite' })
    expect((await withIssue(4)).labels.possible).toContain('internal')
    await removeRule(rule)
  })

  test.each([
    [{ other: {} }, 'mocks.other', 'is no step of the definition'],
    [{ list: { issues: [{ number: 'x' }] } }, 'mocks.list.issues.0.number', expect.any(String)],
    [{ each: { key: 'k' } }, 'mocks.each', expect.stringContaining('must be a list')],
  ])('%j is no output of these steps', async (mocks, path, message) => {
    const { status, body } = await drafted(mocks)
    expect([status, body.error.details]).toEqual([422, expect.arrayContaining([{ path, message }])])
  })
})

describe('one call is tried', () => {
  const tried = (body: object, who: BootstrapName = 'member', tool = 'mail_send') =>
    as(who, 'POST', `/tools/${tool}/try`, body)
  const mail = { to: 'a@else.test', subject: '{{now}}', text: 't' }
  // A test above blocks it.
  beforeAll(() => withoutPolicy('mail_send'))

  test('its verdict is that of the same call in a run, with these labels', async () => {
    const rule = await addRule(outside)
    expect((await tried({ params: mail, labels: ['internal'] })).body).toMatchObject({
      verdict: 'deny',
      executable: false,
      run_id: null,
      step: { tool: 'mail_send', certainty: 'definite', labels: { definite: ['internal'] } },
    })
    expect((await tried({ params: mail })).body).toMatchObject({ verdict: 'allow', executable: true })
    await removeRule(rule)
    const listed = await as('member', 'GET', '/workflows?name=Try')
    expect(listed.body.data).toEqual([])
  })

  test('with `run` it is a run of one workflow, and a text with braces stays a text', async () => {
    const key = '{{not a template}}'
    const made = await tried({ params: { key, value: [1] }, run: true }, 'member', 'memory_set')
    expect(made.body).toMatchObject({ verdict: 'allow', run_id: expect.stringMatching(/^run_/) })
    const run = await as('member', 'GET', `/runs/${made.body.run_id}`)
    expect(run.body).toMatchObject({ workflow_name: 'Try memory_set', inputs: { key, value: [1] } })
    const again = await tried({ params: { key, value: [2] }, run: true }, 'member', 'memory_set')
    const second = await as('member', 'GET', `/runs/${again.body.run_id}`)
    expect(second.body).toMatchObject({ workflow_id: run.body.workflow_id, workflow_version: 1 })
    const other = await tried({ params: { key, value: 'text' }, run: true }, 'member', 'memory_set')
    const third = await as('member', 'GET', `/runs/${other.body.run_id}`)
    expect(third.body).toMatchObject({ workflow_id: run.body.workflow_id, workflow_version: 2 })
  })

  test('parameters that the tool refuses are named, and nothing is made', async () => {
    const { status, body } = await tried({ params: { to: 'a@b.test', body: 'x' }, run: true })
    expect(status).toBe(422)
    expect(body.error.details.map(({ path }: { path: string }) => path)).toEqual(
      expect.arrayContaining(['params.subject', 'params.body']),
    )
  })

  test('a key that may only read tools makes no call', async () => {
    const { context, identities } = server
    const { secret } = await addKey(context, identities.organization_id, identities.users.member.user_id, [
      'tools:read',
    ])
    const ask = (run: boolean) => server.call(secret, 'POST', '/tools/mail_send/try', { params: mail, run })
    expect((await ask(false)).status).toBe(200)
    expect(codeOf(await ask(true))).toBe('403 missing_scope')
  })
})
