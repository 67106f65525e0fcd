import { beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { newId } from '../../../src/contract/ids.ts'
import type { BootstrapName } from '../../../src/governance/people/bootstrap.ts'
import { addKey, addOrganization, addPerson } from '../fixtures.ts'
import type { TestServer } from '../server.ts'
import { codeOf, placesOf, useServer } from '../use-server.ts'

let server: TestServer
const { as, ours, personOf } = useServer((started) => (server = started))

const definition = { steps: [{ id: 'get', tool: 'memory_get', params: { key: 'a' } }] }
const word = (): string => `n${newId('rule').slice(5).toLowerCase()}`

/** One of each kind, with names of their own. */
function files() {
  const name = word()
  const tool = `mcp__s__${name}`
  return {
    name,
    tool,
    group: { kind: 'group', path: 'groups/g.yaml', name, members: ['member@countersign.test'] },
    rule: {
      kind: 'rule',
      path: 'rules/r.yaml',
      name,
      verdict: 'require_approval',
      tools: [tool],
      approvers: [{ group: name, count: 1 }],
    },
    labelRule: { kind: 'label_rule', path: 'labels/l.yaml', name, tools: [tool], add_labels: ['internal'] },
    policy: { kind: 'tool_policy', path: 'policies/p.yaml', tool_name: tool, role: name, allowed: false },
    override: { kind: 'role_override', path: 'policies/o.yaml', tool_name: tool, role: name, allowed: true },
    workflow: { kind: 'workflow', path: 'workflows/w.yaml', slug: name, name: 'W', definition },
    settings: { kind: 'organization', path: 'countersign.yaml', approval_threshold: 2 },
  }
}
type Files = Partial<ReturnType<typeof files>>
const all = (given: Files): object[] => Object.values(given).filter((each) => typeof each === 'object')

/** An object of the list, a change of an answer, or an entry of the audit log. */
interface Shown extends Readonly<
  Record<'action' | 'kind' | 'id' | 'name' | 'slug' | 'role' | 'path' | 'event_type', string>
> {
  readonly lines: readonly string[]
  readonly decided_otherwise: object
  readonly managed_by: { readonly repository: string } | null
  readonly metadata: Readonly<Record<string, unknown>>
}

const repository = () => `https://github.com/acme/${word()}`
const apply = (objects: readonly object[], more: object = {}, who: BootstrapName = 'owner') =>
  ours(who, 'POST', '/apply', { objects, ...more })
const counts = ({ status, body }: Awaited<ReturnType<typeof apply>>) => [
  status,
  body.created,
  body.changed,
  body.deleted,
  body.unchanged,
]
/** Pages of the list, as files without the marks. */
async function pull(): Promise<Shown[]> {
  const found: Shown[] = []
  for (let cursor = ''; ;) {
    const { body } = await ours(
      'owner',
      'GET',
      `/objects?limit=200${cursor === '' ? '' : `&cursor=${cursor}`}`,
    )
    found.push(...body.data)
    if (body.next_cursor === null) return found
    cursor = body.next_cursor
  }
}
const bare = (objects: readonly Shown[]): object[] =>
  objects.map((object) => ({ ...object, managed_by: undefined }))
const events = async (count: number): Promise<Shown[]> =>
  (await ours('owner', 'GET', `/governance/audit`)).body.events.slice(0, count)

beforeEach(async () => {
  // What earlier tests left would come with each list.
  const { db } = server.context
  await db.updateTable('organizations').set({ settings: '{}', managed_by: null }).execute()
  await db
    .updateTable('chain_head')
    .set((eb) => ({ policy_version: eb('policy_version', '+', 1) }))
    .execute()
})

describe('files', () => {
  test('make one of each kind, say so, and change nothing the second time', async () => {
    const given = files()
    const from = { repository: repository(), commit: 'abc123' }
    const planned = await apply(all(given), { ...from, dry_run: true })
    expect(counts(planned)).toEqual([200, 6, 1, 0, 0])
    expect((await apply(all(given), { ...from, dry_run: true })).body.plan).toBe(planned.body.plan)
    const made = await apply(all(given), { ...from, plan: planned.body.plan })
    expect(counts(made)).toEqual([200, 6, 1, 0, 0])
    expect(made.body.plan).toBe(planned.body.plan)
    expect(made.body.changes.map(({ action, kind }: Shown) => `${action} ${kind}`)).toEqual([
      'create group',
      'adopt organization',
      'create label_rule',
      'create rule',
      'create tool_policy',
      'create role_override',
      'create workflow',
    ])
    const rule = made.body.changes.find(({ kind }: Shown) => kind === 'rule')
    expect((await ours('admin', 'GET', `/rules/${rule.id}`)).body).toMatchObject({
      name: given.name,
      managed_by: { repository: from.repository, path: 'rules/r.yaml', commit: 'abc123' },
    })
    expect(rule.decided_otherwise).toMatchObject({
      call: { tool: given.tool },
      before: 'allow',
      after: 'deny',
    })
    const written = await events(20)
    const act = written.find(({ event_type }) => event_type === 'organization.applied')
    expect(act?.metadata).toMatchObject({ created: 6, changed: 1, commit: 'abc123', plan: planned.body.plan })
    const named = written.filter(({ metadata }) => metadata['apply_id'] === act?.metadata['apply_id'])
    expect(named.map(({ event_type }) => event_type).toSorted()).toEqual(
      [
        'governance.updated',
        'group.created',
        'label_rule.created',
        'organization.applied',
        'role_override.created',
        'rule.created',
        'tool_policy.created',
        'workflow.deployed',
      ].sort(),
    )
    expect(counts(await apply(all(given), { ...from, commit: 'def' }))).toEqual([200, 0, 0, 0, 7])
  })

  test('what comes back from the list changes nothing', async () => {
    const given = files()
    const from = { repository: repository() }
    const bodies = all(given).map((object) => ({ ...object, path: undefined }))
    await apply(bodies, from)
    const pulled = (await pull()).filter(({ managed_by }) => managed_by?.repository === from.repository)
    expect(pulled).toHaveLength(7)
    expect(counts(await apply(bare(pulled), from))).toEqual([200, 0, 0, 0, 7])
  })

  test('change, move and delete what they declare, and leave all else alone', async () => {
    const given = files()
    const from = { repository: repository() }
    const byHand = (
      await ours('owner', 'POST', '/rules', { name: word(), verdict: 'deny', tools: [given.tool] })
    ).body
    await apply(all(given), from)
    const id = (await pull()).length
    expect(id).toBeGreaterThan(7)
    const { rule, ...rest } = given
    const changed = { ...rule, verdict: 'deny', approvers: undefined, tools: [given.tool, 'mcp__s__other'] }
    const steps = [...definition.steps, { id: 'more', tool: 'memory_get', params: { key: 'b' } }]
    const next = [
      { ...rest.group, members: ['member@countersign.test', 'viewer@countersign.test'] },
      { ...changed, path: 'rules/moved.yaml' },
      rest.policy,
      { ...rest.override, allowed: false },
      { ...rest.workflow, definition: { steps } },
    ]
    const { status, body } = await apply(next, from)
    expect(status).toBe(200)
    expect(body).toMatchObject({ created: 0, changed: 4, deleted: 2, unchanged: 1 })
    const lines = Object.fromEntries(
      body.changes.map((each: Shown) => [`${each.action} ${each.kind}`, each.lines]),
    )
    expect(lines).toEqual({
      'change group': ['members: + viewer@countersign.test'],
      'delete organization': [expect.stringContaining('stay as they are')],
      'delete label_rule': [],
      'change rule': [
        'file: rules/r.yaml → rules/moved.yaml',
        'tools: + mcp__s__other',
        'verdict: require_approval → deny',
        `approvers: [{"count":1,"group":"${given.name}"}] → nothing`,
      ],
      'change role_override': ['allowed: true → false'],
      'change workflow': ['steps.more: nothing → {"id":"more","params":{"key":"b"},"tool":"memory_get"}'],
    })
    expect((await ours('owner', 'GET', '/governance')).body.approval_threshold).toBe(2)
    expect((await ours('owner', 'GET', `/rules/${byHand.id}`)).body.managed_by).toBeNull()
    // Without any file, all is gone: the rule, the policies and the workflow before the group that they name.
    expect((await apply([], from)).body).toMatchObject({ created: 0, changed: 0, deleted: 5 })
    const left = await pull()
    expect(left.filter(({ managed_by }) => managed_by?.repository === from.repository)).toEqual([])
  })

  test('take over what was made by hand, with its id', async () => {
    const name = word()
    const body = { name, verdict: 'deny', tools: [`mcp__s__${name}`] }
    const { id } = (await ours('owner', 'POST', '/rules', body)).body
    const from = { repository: repository() }
    const same = await apply([{ kind: 'rule', ...body }], { ...from, dry_run: true })
    expect(same.body).toMatchObject({
      changed: 0,
      unchanged: 1,
      changes: [{ action: 'adopt', id, lines: [] }],
    })
    const other = await apply([{ kind: 'rule', ...body, verdict: 'allow' }], from)
    expect(other.body).toMatchObject({
      changed: 1,
      unchanged: 0,
      changes: [
        {
          action: 'adopt',
          id,
          lines: ['verdict: deny → allow'],
          decided_otherwise: { before: 'deny', after: 'allow' },
        },
      ],
    })
    // Another repository cannot have it too.
    const taken = await apply([{ kind: 'rule', path: 'r.yaml', ...body }], { repository: repository() })
    expect(codeOf(taken)).toBe('409 conflict')
    expect(taken.body.error.details).toEqual([
      { path: 'r.yaml', message: expect.stringContaining(`comes from a file in ${from.repository}`) },
    ])
  })
})

describe('files without a repository', () => {
  test('delete nothing, and any repository may take over what they made', async () => {
    const [one, two] = [files().rule, files().rule].map((rule) => ({ ...rule, approvers: undefined }))
    expect(counts(await apply([one as object]))).toEqual([200, 1, 0, 0, 0])
    expect(counts(await apply([two as object]))).toEqual([200, 1, 0, 0, 0])
    expect(counts(await apply([two as object]))).toEqual([200, 0, 0, 0, 1])
    const from = { repository: repository() }
    const taken = await apply([one as object], from)
    expect([taken.status, taken.body.changes[0].action]).toEqual([200, 'adopt'])
    expect(counts(await apply([], from))).toEqual([200, 0, 0, 1, 0])
    expect((await pull()).filter(({ name }) => [one?.name, two?.name].includes(name))).toMatchObject([
      { name: two?.name, managed_by: { repository: null } },
    ])
    // It does not work the other way round.
    await apply([two as object], from)
    expect(codeOf(await apply([two as object]))).toBe('409 conflict')
  })
})

describe('all or nothing', () => {
  test('all mistakes are told at once, by file, and nothing is saved', async () => {
    const given = files()
    const before = await pull()
    const refused = await apply([
      given.group,
      { ...given.group, path: 'groups/twice.yaml' },
      { kind: 'group', path: 'groups/strange.yaml', name: word(), members: ['nobody@example.org'] },
      { ...given.rule, approvers: [{ group: 'nobody', count: 1 }] },
      { kind: 'rule', name: word(), verdict: 'perhaps' },
      { ...given.policy, restrictions: { allowed_domains: ['a.example'] }, allowed: null },
      { ...given.workflow, definition: { steps: [{ id: 'a', tool: 'nothing', params: {} }] } },
      { kind: 'wand' },
      { ...given.settings, loosening: 'never' },
    ])
    expect(codeOf(refused)).toBe('422 validation_error')
    expect(placesOf(refused).sort()).toEqual(
      [
        'groups/twice.yaml',
        'groups/strange.yaml:members.0',
        'rules/r.yaml:approvers.0.group',
        'objects[4].verdict',
        'policies/p.yaml:restrictions.allowed_domains',
        'workflows/w.yaml:definition.steps.0.tool',
        'objects[7].kind',
        'countersign.yaml:loosening',
      ].sort(),
    )
    expect(await pull()).toEqual(before)
  })

  test('what only the last of several may not do undoes what was saved before it', async () => {
    const given = files()
    const before = await pull()
    const objects = [
      { ...given.rule, approvers: undefined },
      { ...given.workflow, protected: true },
    ]
    const plan = await apply(objects, { dry_run: true }, 'admin')
    expect(plan.body.changes.map(({ lines }: Shown) => lines)).toEqual([
      [],
      ['only an owner applies this: it changes `protected`'],
    ])
    expect(codeOf(await apply(objects, {}, 'admin'))).toBe('403 insufficient_role')
    expect(await pull()).toEqual(before)
  })

  test('a plan says what would refuse the application', async () => {
    const given = files()
    const from = { repository: repository() }
    await apply([given.group], from)
    // A rule that was made by hand names the group, so the group cannot go.
    const rule = { ...given.rule, kind: undefined, path: undefined }
    const { id } = (await ours('owner', 'POST', '/rules', rule)).body
    const before = await pull()
    const settings = { kind: 'organization', path: 's.yaml', loosening: 'second_person' }
    const next = [given.workflow, { ...given.rule, name: word(), approvers: undefined }, settings]
    for (const dry_run of [true, false]) {
      const refused = await apply(next, { ...from, dry_run })
      expect(codeOf(refused)).toBe('409 conflict')
      expect(refused.body.error.details).toEqual([
        { path: 'groups/g.yaml', message: expect.stringContaining('is named by the rule') },
        { path: 's.yaml:loosening', message: expect.stringContaining('make a second owner first') },
      ])
    }
    expect(await pull()).toEqual(before)
    // A file that takes the rule over, and names no group, lets the group go.
    const over = { ...given.rule, approvers: undefined }
    expect(counts(await apply([over], { ...from, dry_run: true }))).toEqual([200, 0, 1, 1, 0])
    expect(counts(await apply([over], from))).toEqual([200, 0, 1, 1, 0])
    await ours('owner', 'POST', '/release', { objects: [{ kind: 'rule', name: over.name }] })
    await ours('owner', 'DELETE', `/rules/${id}`)
  })

  test('of two at once, each is whole', async () => {
    const [one, two] = [files(), files()]
    const from = { repository: repository() }
    const answers = await Promise.all([apply(all(one), from), apply(all(two), from)])
    expect(answers.map(({ status }) => status)).toEqual([200, 200])
    const left = (await pull()).filter(({ managed_by }) => managed_by?.repository === from.repository)
    expect(
      new Set(
        left.flatMap(({ kind, slug, name, role }) => (kind === 'organization' ? [] : [role ?? slug ?? name])),
      ).size,
    ).toBe(1)
  })

  test('a plan that is no longer true is refused', async () => {
    const given = files()
    const from = { repository: repository() }
    const { plan } = (await apply([given.rule, given.group], { ...from, dry_run: true })).body
    await ours('owner', 'POST', '/groups', { name: given.name })
    expect(codeOf(await apply([given.rule, given.group], { ...from, plan }))).toBe('409 conflict')
  })

  test('an `Idempotency-Key` makes it once', async () => {
    const given = files()
    const body = { objects: [given.rule, given.group], repository: repository() }
    const path = `/organizations/${server.identities.organization_id}/apply`
    const headers = { 'Idempotency-Key': word() }
    const first = await as('owner', 'POST', path, body, headers)
    expect((await as('owner', 'POST', path, body, headers)).body).toEqual(first.body)
  })
})

describe('what comes from a file', () => {
  const from = { repository: repository(), commit: 'c1' }
  const given = files()
  const idOf = async (kind: string): Promise<string> =>
    (await apply(all(given), from)).status === 200
      ? (await ours('owner', 'GET', `/${kind}?limit=200`)).body.data.find(
          ({ name }: Shown) => name === given.name,
        ).id
      : ''

  test('is changed neither by single requests nor by approvals, until it is released', async () => {
    const [group, rule, labelRule] = [await idOf('groups'), await idOf('rules'), await idOf('label-rules')]
    const { owner } = server.identities.users
    const attempts: [string, string, object?][] = [
      ['PATCH', `/rules/${rule}`, { status: 'inactive' }],
      ['DELETE', `/rules/${rule}`],
      ['POST', `/rules/${rule}/versions/1/restore`, {}],
      ['PATCH', `/label-rules/${labelRule}`, { status: 'inactive' }],
      ['PATCH', `/groups/${group}`, { description: 'd' }],
      ['DELETE', `/groups/${group}`],
      ['PUT', `/groups/${group}/members/${owner.user_id}`],
      ['DELETE', `/groups/${group}/members/member@countersign.test`],
      ['PATCH', `/tool-policies/${given.tool}`, { role: given.name, allowed: null }],
      ['DELETE', `/tool-policies/${given.tool}?role=${given.name}`],
      ['DELETE', `/role-policy-overrides/${given.tool}?role=${given.name}`],
      ['PATCH', '/governance', { approval_threshold: 3 }],
    ]
    for (const [method, path, body] of attempts) {
      const answer = await ours('owner', method, path, body)
      expect([method, path, codeOf(answer)]).toEqual([method, path, '409 conflict'])
      expect(answer.body.error.message).toContain(from.repository)
      expect(answer.body.error.message).toContain('/release')
    }
    const shown = (await ours('owner', 'GET', '/governance')).body
    expect(shown).toMatchObject({ approval_threshold: 2, managed_by: { path: 'countersign.yaml' } })
    const { id: workflow } = (await as('owner', 'GET', `/workflows?limit=200`)).body.data.find(
      ({ slug }: Shown) => slug === given.name,
    )
    for (const [method, path, body] of [
      ['PUT', '', { name: 'x' }],
      ['DELETE', '', undefined],
      ['POST', '/versions/1/rollback', {}],
    ] as const)
      expect(codeOf(await as('owner', method, `/workflows/${workflow}${path}`, body))).toBe('409 conflict')
    expect((await ours('owner', 'POST', '/freeze', { reason: 'r' })).status).toBe(200)
    expect((await ours('owner', 'POST', '/unfreeze', { reason: 'r' })).status).toBe(200)
    const released = await ours('owner', 'POST', '/release', {
      objects: [
        { kind: 'rule', name: given.name },
        { kind: 'tool_policy', name: `${given.tool}/${given.name}` },
        { kind: 'organization', name: 'organization' },
      ],
    })
    expect([released.status, released.body]).toEqual([200, { released: 3 }])
    expect((await ours('owner', 'PATCH', `/rules/${rule}`, { status: 'inactive' })).status).toBe(200)
    const patched = await ours('owner', 'PATCH', '/governance', { approval_threshold: 3 })
    expect([patched.status, patched.body.managed_by]).toEqual([200, null])
    // The files find what has changed meanwhile, and take it back.
    const { body } = await apply(all(given), { ...from, dry_run: true })
    expect(body.changes.map(({ action, kind, lines }: Shown) => [action, kind, lines])).toEqual([
      ['adopt', 'organization', ['approval_threshold: 3 → 2']],
      ['adopt', 'rule', ['status: inactive → active']],
      ['adopt', 'tool_policy', []],
    ])
    expect(codeOf(await ours('owner', 'POST', '/release', { objects: [{ kind: 'rule', name: 'x' }] }))).toBe(
      '422 validation_error',
    )
  })
})

describe('rights', () => {
  const keyWith = async (scopes: string[], who: BootstrapName = 'owner') =>
    (await addKey(server.context, server.identities.organization_id, personOf(who).userId, scopes)).secret
  const withKey = (key: string, path: string, body: object) =>
    server.call(key, 'POST', `/organizations/${server.identities.organization_id}${path}`, body)

  test('each kind needs its scope and role, also one that is only deleted', async () => {
    const given = files()
    const from = { repository: repository() }
    await apply([given.policy, given.group], from)
    const key = await keyWith(['rules:write', 'organizations:*'])
    const rule = { ...given.rule, approvers: undefined }
    const refused = await withKey(key, '/apply', { objects: [rule], ...from })
    expect(codeOf(refused)).toBe('403 missing_scope')
    expect(refused.body.error.details).toEqual([
      { path: 'policies:write', message: expect.stringContaining('`tool_policy`') },
    ])
    expect((await withKey(key, '/apply', { objects: [rule], repository: repository() })).status).toBe(200)
    expect(codeOf(await apply([given.policy], {}, 'admin'))).toBe('403 missing_scope')
    expect(codeOf(await apply([given.rule], {}, 'member'))).toBe('403 missing_scope')
    expect(
      (await apply([{ ...given.workflow, path: undefined }], { repository: repository() }, 'member')).status,
    ).toBe(200)
    // Only an owner protects a workflow.
    const slug = word()
    const guarded = { ...given.workflow, slug, protected: true }
    const protecting = await apply([guarded], { repository: repository() }, 'member')
    expect(codeOf(protecting)).toBe('403 insufficient_role')
    expect(codeOf(await withKey(key, '/release', { objects: [{ kind: 'tool_policy', name: 'x' }] }))).toBe(
      '403 missing_scope',
    )
  })

  test('a protected workflow is taken over and released only by who may change it', async () => {
    const { workflow } = files()
    const { kind: _, path: __, ...body } = workflow
    await as('owner', 'POST', '/workflows', { ...body, protected: true })
    const named = { objects: [{ kind: 'workflow', name: workflow.slug }] }
    const [first, second] = [{ repository: repository() }, { repository: repository() }]
    expect(codeOf(await apply([workflow], first, 'member'))).toBe('403 insufficient_role')
    expect(counts(await apply([workflow], second, 'admin'))).toEqual([200, 0, 0, 0, 1])
    expect(codeOf(await apply([{ ...workflow, path: 'w.yaml' }], second, 'member'))).toBe(
      '403 insufficient_role',
    )
    expect(codeOf(await ours('member', 'POST', '/release', named))).toBe('403 insufficient_role')
    expect((await ours('admin', 'POST', '/release', named)).body).toEqual({ released: 1 })
  })

  test('a service account applies workflows, and plans rules', async () => {
    const given = files()
    const account = (await ours('owner', 'POST', '/service-accounts', { name: word(), role: 'member' })).body
    const keyOf = (...scopes: string[]) =>
      as('owner', 'POST', '/api-keys', {
        ...{ name: 'ci', scopes, service_account: account.id },
        organization_id: server.identities.organization_id,
      })
    const { api_key: key } = (await keyOf('rules:read', 'workflows:read', 'workflows:write')).body
    const rule = { ...given.rule, approvers: undefined }
    const from = { repository: repository() }
    expect((await withKey(key, '/apply', { objects: [given.workflow], ...from })).status).toBe(200)
    const objects = [given.workflow, rule, given.labelRule]
    expect((await withKey(key, '/apply', { objects, ...from, dry_run: true })).status).toBe(200)
    expect(codeOf(await withKey(key, '/apply', { objects, ...from }))).toBe('403 missing_scope')
    for (const scope of ['rules:write', 'policies:write', 'governance:write'])
      expect(codeOf(await keyOf(scope))).toBe('403 insufficient_role')
  })

  test('a dry run reads, and needs no right to write', async () => {
    const given = files()
    const key = await keyWith(['rules:read', 'organizations:read'])
    const objects = [given.rule, given.group]
    expect((await withKey(key, '/apply', { objects, dry_run: true })).status).toBe(200)
    expect(codeOf(await withKey(key, '/apply', { objects }))).toBe('403 missing_scope')
    expect(codeOf(await withKey(key, '/apply', { objects: [given.policy], dry_run: true }))).toBe(
      '403 missing_scope',
    )
  })

  test('another organization is not found', async () => {
    const other = await addOrganization(server.context)
    for (const path of ['/apply', '/release'])
      expect(codeOf(await as('owner', 'POST', `/organizations/${other}${path}`, { objects: [] }))).toBe(
        '404 not_found',
      )
    expect(codeOf(await as('owner', 'GET', `/organizations/${other}/objects`))).toBe('404 not_found')
  })

  test('nobody locks themselves out', async () => {
    for (const setting of ['require_mfa', 'require_sso'])
      expect(codeOf(await apply([{ kind: 'organization', [setting]: true }]))).toBe('409 conflict')
    // One owner alone could not undo it.
    expect(codeOf(await apply([{ kind: 'organization', loosening: 'second_person' }]))).toBe('409 conflict')
  })
})

describe('limits', () => {
  test('of objects, texts and storage', async () => {
    const from = { repository: repository() }
    expect(codeOf(await apply(Array.from({ length: 2_501 }, () => ({}))))).toBe('422 validation_error')
    const long = [{ kind: 'wand', path: 'a'.repeat(301) }]
    expect(placesOf(await apply(long)).sort()).toEqual(['objects[0].kind', 'objects[0].path'])
    expect(codeOf(await apply([], { commit: 'c'.repeat(101) }))).toBe('422 validation_error')
    // Each object has the limit of its own route.
    const step = (value: unknown, at = 0) => ({
      id: `s${at}`,
      tool: 'memory_set',
      params: { key: 'a', value },
    })
    const ones = Array.from({ length: 410 }, () => 1)
    for (const steps of [
      Array.from({ length: 100 }, (_, at) => step(ones, at)),
      [step('x'.repeat(600_000)), step('x'.repeat(600_000), 1)],
    ])
      for (const dry_run of [true, false]) {
        const { status, body } = await apply([{ ...files().workflow, definition: { steps } }], { dry_run })
        expect([status, body.error?.details]).toEqual([
          422,
          [
            {
              path: 'workflows/w.yaml',
              message: 'the object has more than 1 MiB or 40,000 values: make it smaller',
            },
          ],
        ])
      }
    const { db } = server.context
    const { organization_id: id } = server.identities
    const stored = (bytes: number) =>
      db
        .updateTable('chain_head')
        .set((eb) => ({ stored_bytes: eb('stored_bytes', '+', bytes) }))
        .where('organization_id', '=', id)
        .execute()
    await stored(10 ** 14)
    const { approvers: _, ...rule } = files().rule
    const full = await apply([rule], from)
    await stored(-(10 ** 14))
    expect(codeOf(full)).toBe('429 quota_exceeded')
    expect((await events(1))[0]?.event_type).toBe('quota.exceeded')
    expect((await pull()).some(({ name }) => name === rule.name)).toBe(false)
  })
})

describe('with a second person', () => {
  let other: { userId: string; key: string }
  beforeAll(async () => {
    other = await addPerson(server.context, server.identities.organization_id, 'owner')
  })
  const decide = (id: string) => server.call(other.key, 'POST', `/approvals/${id}/approve`, {})

  test('a looser application waits whole, and is made whole', async () => {
    const given = files()
    const from = { repository: repository(), commit: 'c2' }
    await apply(all(given), from)
    await ours('owner', 'POST', '/release', { objects: [{ kind: 'organization', name: 'organization' }] })
    await ours('owner', 'PATCH', '/governance', { loosening: 'second_person' })
    const { settings: _, ...rest } = given
    const rule = { ...given.rule, status: 'shadow' }
    const next = all({ ...rest, rule })
    const asked = await apply(next, { ...from, commit: 'c3' })
    expect([asked.status, asked.body.change.status]).toEqual([202, 'pending'])
    expect((await apply(next, { ...from, commit: 'c3' })).body.change.id).toBe(asked.body.change.id)
    const before = (await pull()).find(({ kind, name }) => kind === 'rule' && name === given.name)
    expect(before).toMatchObject({ status: 'active', managed_by: { commit: 'c2' } })
    expect((await decide(asked.body.change.id)).status).toBe(200)
    const after = (await pull()).find(({ kind, name }) => kind === 'rule' && name === given.name)
    expect(after).toMatchObject({ status: 'shadow', managed_by: { commit: 'c3' } })
    const act = (await events(10)).find(({ event_type }) => event_type === 'organization.applied')
    expect(act).toMatchObject({
      user_id: personOf('owner').userId,
      metadata: { approved_by: other.userId, approval_id: asked.body.change.id, changed: 1 },
    })
  })

  test('an approval covers the members of the groups that its rules name', async () => {
    const [first, second] = [word(), word()]
    for (const name of [first, second])
      await ours('owner', 'POST', '/groups', { name, members: ['approver@countersign.test'] })
    const { rule } = files()
    const by = (group: string) => [{ ...rule, approvers: [{ group, count: 1 }] }]
    const from = { repository: repository() }
    await apply(by(first), from)
    await ours('owner', 'PATCH', '/governance', { loosening: 'second_person' })
    const { body } = await apply(by(second), from)
    const { params } = (await server.call(other.key, 'GET', `/approvals/${body.change.id}`)).body
    expect(params.groups.map(({ name }: Shown) => name).sort()).toEqual([first, second].sort())
    const { id } = (await ours('owner', 'GET', '/groups?limit=200')).body.data.find(
      ({ name }: Shown) => name === second,
    )
    expect((await ours('owner', 'PUT', `/groups/${id}/members/${personOf('owner').userId}`)).status).toBe(200)
    expect(codeOf(await decide(body.change.id))).toBe('409 conflict')
  })

  test('an approval covers the label rules that add what its rules exclude', async () => {
    const { approvers: _, ...rule } = files().rule
    const [label, further, name] = [word(), word(), word()]
    const adding = { name, tools: ['mail_send'], add_labels: [further] }
    const { id } = (await ours('owner', 'POST', '/label-rules', adding)).body
    const from = { repository: repository() }
    await apply([rule], from)
    await ours('owner', 'PATCH', '/governance', { loosening: 'second_person' })
    // Data with the one label gets the other by a rule of the files.
    const labels = { kind: 'label_rule', name: word(), labels: { any_of: [further] }, add_labels: [label] }
    const { body } = await apply([labels, { ...rule, labels: { none_of: [label] } }], from)
    const wider = await ours('owner', 'PATCH', `/label-rules/${id}`, { tools: ['mail_send', 'file_read'] })
    expect(wider.status).toBe(200)
    expect(codeOf(await decide(body.change.id))).toBe('409 conflict')
  })

  test('two rules of which each stands in for the other do not go together', async () => {
    await ours('owner', 'PATCH', '/governance', { loosening: 'second_person' })
    const [one, two] = [files().rule, files().rule].map((rule) => ({
      ...rule,
      approvers: undefined,
      tools: ['mcp__s__both'],
    })) as [object, object]
    const from = { repository: repository() }
    expect((await apply([one, two], from)).status).toBe(200)
    // A stricter one, and one of two equal ones, go at once.
    expect((await apply([one], from)).status).toBe(200)
    expect((await apply([one, two], from)).status).toBe(200)
    expect((await apply([], from)).status).toBe(202)
  })

  test('a single change that waits is not made once a file has the rule', async () => {
    const { approvers: _, ...rule } = files().rule
    const { kind: __, path: ___, ...body } = rule
    const { id } = (await ours('owner', 'POST', '/rules', body)).body
    await ours('owner', 'PATCH', '/governance', { loosening: 'second_person' })
    const asked = await ours('owner', 'DELETE', `/rules/${id}`)
    await apply([rule], { repository: repository() })
    const decided = await decide(asked.body.change.id)
    expect([decided.status, decided.body.error.message]).toEqual([
      409,
      expect.stringContaining('comes from files now'),
    ])
  })

  test('the approval shows the definitions of workflows', async () => {
    const given = files()
    const from = { repository: repository() }
    const { approvers: _, ...rule } = given.rule
    await apply([rule, given.workflow], from)
    await ours('owner', 'PATCH', '/governance', { loosening: 'second_person' })
    const steps = [{ id: 'other', tool: 'memory_get', params: { key: 'b' } }]
    const { body } = await apply([{ ...given.workflow, definition: { steps } }], from)
    const { params } = (await server.call(other.key, 'GET', `/approvals/${body.change.id}`)).body
    const key = `workflow ${given.name}`
    expect([params.before[key].definition, params.after[key].definition]).toEqual([definition, { steps }])
    expect(params.example).toMatchObject({ call: { tool: given.tool }, after: 'allow' })
  })

  test('a large one is not opened for lists and other changes', async () => {
    const { approvers: _, ...rule } = files().rule
    const from = { repository: repository() }
    await apply([rule], from)
    await ours('owner', 'PATCH', '/governance', { loosening: 'second_person' })
    const steps = [{ id: 's', tool: 'memory_set', params: { key: 'a', value: 'x'.repeat(140_000) } }]
    const { body } = await apply([{ ...files().workflow, definition: { steps } }], from)
    const path = `/approvals/${body.change.id}`
    expect((await server.call(other.key, 'GET', path)).body.params.why).toEqual(body.change.why)
    const { db } = server.context
    await db
      .updateTable('approvals')
      .set({ params_sealed: Buffer.alloc(140_000) })
      .where('id', '=', body.change.id)
      .execute()
    const listed = await server.call(other.key, 'GET', '/approvals?kind=change&status=pending')
    const row = listed.body.data.find(({ id }: Shown) => id === body.change.id)
    expect([row.summary, row.params]).toEqual(['Apply files: create 1, change 0, delete 1', undefined])
    const deny = { name: word(), verdict: 'deny', tools: [files().tool] }
    const { id } = (await ours('owner', 'POST', '/rules', deny)).body
    expect((await ours('owner', 'POST', '/rules', { ...deny, name: word() })).status).toBe(201)
    expect((await ours('owner', 'DELETE', `/rules/${id}`)).status).toBe(204)
    // The rule of the files may be gone soon.
    const holds = { name: word(), verdict: 'require_approval', tools: rule.tools }
    const same = await ours('owner', 'POST', '/rules', holds)
    const gone = await ours('owner', 'DELETE', `/rules/${same.body.id}`)
    expect(gone.body.change.why.at(-1)).toBe('a rule whose own change waits does not count')
  })

  test('what moved meanwhile is not applied', async () => {
    await ours('owner', 'PATCH', '/governance', { loosening: 'second_person' })
    const { approvers: _, ...rule } = files().rule
    const from = { repository: repository() }
    await apply([rule], from)
    const { body } = await apply([], from)
    await ours('owner', 'POST', '/release', { objects: [{ kind: 'rule', name: rule.name }] })
    const decided = await decide(body.change.id)
    expect(decided.status).toBe(409)
    expect(decided.body.error.message).toContain('changed meanwhile')
    expect((await pull()).some(({ name }) => name === rule.name)).toBe(true)
  })
})
