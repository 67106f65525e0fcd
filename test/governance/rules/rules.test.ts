import { describe, expect, test, afterEach, beforeEach, jest } from '@jest/globals'
import { sql } from 'kysely'
import {
  labelRuleInput,
  ruleInput,
  ruleKinds,
  type RuleKindName,
} from '../../../src/governance/rules/rule-kinds.ts'
import {
  createRule,
  deleteRule,
  patchRule,
  replaceRule,
  ruleRows,
  type RuleView,
  patchedBody,
} from './free-changes.ts'
import { listOwned, readOwned, type Page } from '../../../src/governance/page.ts'
import { ruleTemplates } from '../../../src/governance/rules/rule-templates.ts'
import type { Caller } from '../../../src/governance/access/identity.ts'
import type { Context } from '../../../src/governance/context.ts'
import { useEngine, type Engine } from '../runs/engine-fixture.ts'
import { auditOf } from '../support.ts'
import { mostRuleBytes, mostRuleValues } from '../../../src/governance/rules/size-limit.ts'
import { readGovernance } from '../../../src/governance/audit/policy-cache.ts'
import { changeGovernance } from './free-changes.ts'
import { addOrganization, enrolPeople } from '../../api/fixtures.ts'
import { DomainError } from '../../../src/governance/errors.ts'
import { createShares } from '../../../src/governance/limits/shares.ts'
import { inSlices, mostWork } from '../../../src/governance/rules/long-work.ts'

let engine: Engine
let context: Context
let owner: Caller
let admin: Caller
let organizationId: string
const readRule = (kind: RuleKindName, id: string, of = organizationId) =>
  readOwned(context, ruleRows(kind), { ...owner, organizationId: of }, id)
useEngine((started) => {
  engine = started
  ;({ context, organizationId } = started)
  ;[owner, admin] = [started.caller('owner'), started.caller('admin')]
})

beforeEach(() => context.db.deleteFrom('label_rules').execute())

let counter = 0
const name = () => `rule ${(counter += 1)}`
const create = (extra: object = {}) => createRule(context, 'rule', admin, aRule(extra))
const patch = (id: string, body: object) => patchRule(context, 'rule', admin, id, body)
const patchLabels = (id: string, body: object) => patchRule(context, 'label_rule', admin, id, body)
const lastEntry = () => auditOf(context, organizationId, 1)
const aRule = (extra: object = {}) =>
  ruleInput.parse({ name: name(), verdict: 'deny', tools: ['mail_send'], ...extra })

/** The current rules, loaded under the chain’s lock as every process loads them. */
const policyNow = () =>
  engine.another().combiner.run(organizationId, 'org.change', (tx) => Promise.resolve(tx.policy))

describe('rules', () => {
  test('a saved rule is loaded for the next decision in every process, and so is each change', async () => {
    const start = (await policyNow()).version
    const rule = await create()
    expect((await policyNow()).version).toBe(start + 1)
    await patch(rule.id, { status: 'inactive' })
    expect((await policyNow()).version).toBe(start + 2)
    await replaceRule(context, 'rule', admin, rule.id, aRule())
    await deleteRule(context, 'rule', admin, rule.id)
    expect((await policyNow()).version).toBe(start + 4)
  })

  test('every change is one audit entry with the new version', async () => {
    const { id } = await create()
    await patch(id, { status: 'shadow' })
    await deleteRule(context, 'rule', admin, id)
    const entries = await auditOf(context, organizationId, 3)
    expect(entries.map((entry) => entry.event_type)).toEqual(['rule.created', 'rule.updated', 'rule.deleted'])
    const versions = entries.map((entry) => entry.metadata['policy_version'] as number)
    expect(versions).toEqual([versions[0], (versions[0] ?? 0) + 1, (versions[0] ?? 0) + 2])
    for (const entry of entries) {
      expect(entry).toMatchObject({ user_id: admin.userId, ip_address: '127.0.0.1', status: 'success' })
      expect(entry.metadata).toMatchObject({ rule_id: id, verdict: 'deny', api_key_id: admin.keyId })
    }
  })

  test('a name is unique in an organization; label rules have separate names', async () => {
    const body = aRule()
    const { id } = await createRule(context, 'rule', admin, body)
    const head = await lastEntry()
    const again = createRule(context, 'rule', admin, body)
    await expect(again).rejects.toMatchObject({
      code: 'validation_error',
      message: expect.stringContaining(`\`PATCH /organizations/${organizationId}/rules/${id}\``),
      details: [{ path: 'name' }],
    })
    expect(await lastEntry()).toEqual(head)
    const label = labelRuleInput.parse({ name: body.name, tools: ['file_read'], add_labels: ['pii'] })
    const { id: labelId, ...saved } = await createRule(context, 'label_rule', admin, label)
    expect([labelId, saved]).toEqual([expect.stringMatching(/^lrule_/), expect.objectContaining(label)])
  })

  test('renaming to a taken name is refused too', async () => {
    const [one, two] = [aRule(), aRule()]
    await createRule(context, 'rule', admin, one)
    const { id } = await createRule(context, 'rule', admin, two)
    const taken = { code: 'validation_error', details: [{ path: 'name' }] }
    await expect(patch(id, { name: one.name })).rejects.toMatchObject(taken)
    await expect(replaceRule(context, 'rule', admin, id, one)).rejects.toMatchObject(taken)
  })

  test('a patch removes fields with null, keeps the rest, and must leave a valid rule', async () => {
    const { id } = await create({ description: 'x', side_effects: ['egress'] })
    const patched = await patch(id, { description: null, tools: null })
    expect(patched).toMatchObject({ side_effects: ['egress'], verdict: 'deny' })
    expect(patched).not.toHaveProperty('description')
    expect(patched).not.toHaveProperty('tools')
    const bare = patch(id, { side_effects: null })
    await expect(bare).rejects.toMatchObject({ code: 'validation_error', details: [{ path: 'match_all' }] })
    expect(await readRule('rule', id)).toEqual(patched)
  })

  test('a rule that is refused now, but was saved before, can be switched off', async () => {
    const params = ['a', 'b'].map((value) => ({ param: 'subject', operator: 'equals' as const, value }))
    const { id } = await createRule(context, 'rule', admin, { ...aRule(), params })
    const off = await patch(id, { status: 'inactive' })
    expect(off).toMatchObject({ status: 'inactive', params })
    const invalid = { code: 'validation_error' }
    await expect(patch(id, { tools: ['mail_send'] })).rejects.toMatchObject(invalid)
  })

  test('a replaced rule keeps its id and its position', async () => {
    const place = async (id: string) =>
      (await context.db.selectFrom('rules').select('position').where('id', '=', id).executeTakeFirstOrThrow())
        .position
    const { id } = await create()
    const before = await place(id)
    expect((await replaceRule(context, 'rule', admin, id, aRule())).id).toBe(id)
    expect(await place(id)).toBe(before)
  })

  test('of another organization are not found', async () => {
    const { id } = await create()
    const missing = { code: 'not_found' }
    await expect(readRule('rule', id, 'org_x')).rejects.toMatchObject(missing)
    await expect(readRule('label_rule', id)).rejects.toMatchObject(missing)
    await expect(deleteRule(context, 'rule', admin, 'rule_x')).rejects.toMatchObject(missing)
    await expect(patchRule(context, 'rule', admin, 'rule_x', {})).rejects.toMatchObject(missing)
  })

  test('are listed newest first, page by page, each once', async () => {
    for (let made = 0; made < 5; made += 1) await create()
    const all = await listOwned(context, ruleRows('rule'), owner, { limit: 200, cursor: null })
    const ids = all.data.map((rule) => rule.id)
    expect(all.next_cursor).toBeNull()
    expect(ids).toEqual([...ids].sort().reverse())
    const seen: string[] = []
    let cursor: string | null = null
    do {
      const page: Page<RuleView> = await listOwned(context, ruleRows('rule'), owner, { limit: 2, cursor })
      seen.push(...page.data.map((rule) => rule.id))
      cursor = page.next_cursor
    } while (cursor !== null)
    expect(seen).toEqual(ids)
  })
})

describe('rule templates', () => {
  test('are valid and inactive, and have different names', () => {
    for (const { kind, body } of ruleTemplates) {
      expect(ruleKinds[kind].input.parse(body)).toEqual(body)
      expect(body.status).toBe('inactive')
    }
    expect(new Set(ruleTemplates.map(({ body }) => body.name)).size).toBe(ruleTemplates.length)
  })
})

describe('labels that label rules add', () => {
  const rule = (start: number, extra: object = {}) =>
    labelRuleInput.parse({
      name: name(),
      tools: ['file_read'],
      add_labels: Array.from({ length: 100 }, (_, index) => `label-${start + index}`),
      ...extra,
    })
  const save = (start: number, extra: object = {}) =>
    createRule(context, 'label_rule', admin, rule(start, extra))
  const tooMany = { code: 'validation_error', details: [{ path: 'add_labels' }] }

  test('are 1,000 together, however a rule is saved', async () => {
    const first = await save(0)
    for (let start = 100; start < 1_000; start += 100) await save(start)
    await expect(save(1_000)).rejects.toMatchObject(tooMany)
    await expect(save(950)).rejects.toThrow('would add 1050 labels together, at most 1000')
    await save(500)
    const idle = await save(1_000, { status: 'inactive' })
    await expect(patchLabels(idle.id, { status: 'active' })).rejects.toMatchObject(tooMany)
    const replaced = replaceRule(context, 'label_rule', admin, idle.id, rule(1_000))
    await expect(replaced).rejects.toMatchObject(tooMany)
    await replaceRule(context, 'label_rule', admin, first.id, rule(1_000))
    expect(await patchLabels(idle.id, { status: 'active' })).toMatchObject({ status: 'active' })
    // Another rule than the service would save.
    await context.pool.query(
      `update label_rules set body = jsonb_set(body, '{add_labels}', (body->'add_labels') - 0 - 0 || '["more", "and-more"]') where id = $1`,
      [first.id],
    )
    await patchLabels(first.id, { name: 'renamed' })
    await expect(save(2_000)).rejects.toMatchObject(tooMany)
    await deleteRule(context, 'label_rule', admin, first.id)
  })
})

const among = (count: number, length = 1) =>
  Array.from({ length: Math.ceil(count / 1_000) }, (_, index) => ({
    param: 'to',
    operator: 'in' as const,
    value: Array.from({ length: Math.min(1_000, count - 1_000 * index) }, () => 'x'.repeat(length)),
  }))
const createAmong = (...numbers: [number, number?]) => create({ tools: undefined, params: among(...numbers) })
const tooMuch = { code: 'validation_error', message: expect.stringContaining('together') as unknown }

describe('the size of all rules of an organization together', () => {
  test('is limited in values, over rules and label rules', async () => {
    const { id } = await createAmong(mostRuleValues - 3)
    const label = labelRuleInput.parse({ name: name(), tools: ['file_read'], add_labels: ['a', 'b'] })
    const second = await createRule(context, 'label_rule', admin, label)
    const head = await lastEntry()
    await expect(createAmong(1)).rejects.toMatchObject(tooMuch)
    const longer = { ...label, add_labels: ['a', 'b', 'c'] }
    await expect(replaceRule(context, 'label_rule', admin, second.id, longer)).rejects.toMatchObject(tooMuch)
    await expect(patchLabels(second.id, longer)).rejects.toMatchObject(tooMuch)
    const wider = { params: among(mostRuleValues - 2) }
    await expect(patch(id, wider)).rejects.toMatchObject(tooMuch)
    // The refused change had no effect.
    expect(await readRule('label_rule', second.id)).toEqual(second)
    expect(await lastEntry()).toEqual(head)
    const same = { ...label, add_labels: ['c', 'd'] }
    await replaceRule(context, 'label_rule', admin, second.id, same)
    await deleteRule(context, 'rule', admin, id)
    await createAmong(1)
  })

  test('has a limit on its text', async () => {
    for (let bytes = 1_000_000; bytes < mostRuleBytes; bytes += 1_010_000) await createAmong(1_000, 1_000)
    await expect(createAmong(1_000, 1_000)).rejects.toMatchObject(tooMuch)
  })

  test('above the limit, after an upgrade, it can shrink but not grow', async () => {
    const { id } = await createAmong(2_000)
    const { id: other } = await createAmong(1)
    // A rule that was saved before the limit existed.
    const body = JSON.stringify({ params: among(mostRuleValues) })
    await sql`update rules set body = body || ${body}::jsonb where id = ${id}`.execute(context.db)
    await expect(createAmong(1)).rejects.toMatchObject(tooMuch)
    await expect(patch(other, { params: among(2) })).rejects.toMatchObject(tooMuch)
    await patch(id, { status: 'inactive' })
    await expect(patch(id, { status: 'active' })).rejects.toMatchObject(tooMuch)
    await patch(id, { params: among(mostRuleValues - 10) })
    await patch(id, { status: 'active' })
  })
})

const saved = ruleInput.parse({ name: 'saved', verdict: 'deny', tools: ['mail_send'] })

test('a body is checked once, and again if it has changed', () => {
  const after = patchedBody('rule', { verdict: 'allow' })
  const first = after(saved)
  expect(first).toEqual({ ...saved, verdict: 'allow' })
  // The same object shows that nothing was checked again.
  expect(after({ ...saved })).toBe(first)
  expect(after({ ...saved, name: 'renamed' })).toEqual({ ...saved, name: 'renamed', verdict: 'allow' })
})

test('an error is kept too, and does not stay for another body', async () => {
  const after = patchedBody('rule', { tools: null })
  const thrown = () =>
    Promise.resolve(saved)
      .then(after)
      .catch((error: unknown) => error)
  const error = await thrown()
  expect(error).toMatchObject({ code: 'validation_error' })
  expect(await thrown()).toBe(error)
  expect(after({ ...saved, side_effects: ['egress'] })).not.toHaveProperty('tools')
})

describe('governance settings', () => {
  test('start with the documented defaults', async () => {
    const { id } = await addOrganization(context)
    expect(await readGovernance(context.db, id)).toEqual({
      require_approval_for_external_comm: false,
      require_approval_for_public_writes: false,
      require_approval_for_permission_changes: false,
      allow_self_approval: false,
      approval_threshold: 1,
      category_flags: {},
      approvals_enabled: false,
      approval_required_from: null,
      slack_approval_notifications: true,
      mail_approval_notifications: true,
      external_tools: {},
      default_tool_access: 'allow',
      default_agent_access: 'allow',
      loosening: 'free',
      require_mfa: false,
      require_sso: false,
      restricted_labels: ['confidential', 'pii'],
      trust_answers: false,
      run_values: 'participants',
      keep_decision_params: 'all',
    })
  })

  test('a change holds for the next decision in every process, and its audit entry names it', async () => {
    await engine.settings({ approvals_enabled: false })
    expect((await policyNow()).settings.approvals_enabled).toBe(false)
    const answer = await changeGovernance(context, owner, { approvals_enabled: true, approval_threshold: 1 })
    expect(answer).toMatchObject({ approvals_enabled: true, approval_threshold: 1 })
    expect((await policyNow()).settings.approvals_enabled).toBe(true)
    const [entry] = await lastEntry()
    expect(entry).toMatchObject({ event_type: 'governance.updated', user_id: owner.userId })
    expect(entry?.metadata['changes']).toEqual({ approvals_enabled: { from: false, to: true } })
  })

  test.each([{}, { approvals_enabled: true }])('%j, which changes nothing, is not audited', async (patch) => {
    await changeGovernance(context, owner, { approvals_enabled: true })
    const before = await lastEntry()
    expect(await changeGovernance(context, owner, patch)).toMatchObject({ approvals_enabled: true })
    expect(await lastEntry()).toEqual(before)
  })

  test('unnamed settings stay', async () => {
    await changeGovernance(context, owner, { category_flags: { pii: true } })
    await changeGovernance(context, owner, { approval_threshold: 2, category_flags: undefined })
    const settings = { category_flags: { pii: true }, approval_threshold: 2 }
    expect(await readGovernance(context.db, organizationId)).toMatchObject(settings)
  })

  test('a person without a second factor cannot require one: nothing changes', async () => {
    const before = await lastEntry()
    const requiring = changeGovernance(context, owner, { require_mfa: true, default_tool_access: 'deny' })
    await expect(requiring).rejects.toMatchObject({
      code: 'conflict',
      message: expect.stringContaining('enrol a second factor first'),
      details: [{ path: 'require_mfa' }],
    })
    const unchanged = { require_mfa: false, default_tool_access: 'allow' }
    expect(await readGovernance(context.db, organizationId)).toMatchObject(unchanged)
    expect(await lastEntry()).toEqual(before)
    await changeGovernance(context, owner, { require_mfa: false })
  })

  test('concurrent changes all hold', async () => {
    await enrolPeople(context, [owner.userId])
    const changes = { require_mfa: true, default_tool_access: 'deny', allow_self_approval: true } as const
    await Promise.all(
      Object.entries(changes).map((change) =>
        changeGovernance(engine.another(), owner, Object.fromEntries([change])),
      ),
    )
    expect(await readGovernance(context.db, organizationId)).toMatchObject(changes)
  })
})

describe('long work', () => {
  /** The time of the thread in this test. Each value of the generator takes one millisecond. */
  let now = 0
  beforeEach(() => void jest.spyOn(performance, 'now').mockImplementation(() => now))
  afterEach(() => void jest.restoreAllMocks())

  function* values(count: number): Generator<number> {
    for (let value = 1; value <= count; value += 1) {
      now += 1
      yield value
    }
  }

  /** Follows the generator. Returns the result, and the values after which the thread worked for others. */
  async function followed(count: number, see: (value: number) => 'enough' | null, signal?: AbortSignal) {
    let last = 0
    let isDone = false
    const pauses = new Set<number>()
    const look = (): void => {
      pauses.add(last)
      if (!isDone) setImmediate(look)
    }
    look()
    const request = {
      chargedTo: 'org_a',
      callerNow: async () => ({ role: 'member' }) as const,
      signal: signal ?? new AbortController().signal,
    }
    const work = inSlices({ shares: createShares() }, request, (slices) =>
      slices.follow(values(count), (value) => {
        last = value
        return see(value)
      }),
    )
    try {
      return { result: await work, last, pauses: [...pauses] }
    } finally {
      isDone = true
    }
  }

  test.each<[string, number, number | null, unknown]>([
    [
      'works for others after each 5 milliseconds',
      23,
      null,
      { result: null, last: 23, pauses: [0, 5, 10, 15, 20] },
    ],
    ['ends with the first result', 23, 7, { result: 'enough', last: 7 }],
    ['ends when its time is over', mostWork * 2, null, { result: 'time', last: mostWork }],
  ])('the thread %s', async (_, count, enoughAt, expected) => {
    expect(await followed(count, (value) => (value === enoughAt ? 'enough' : null))).toMatchObject(
      expected as object,
    )
  })

  test('the work ends at the next pause when its client has gone', async () => {
    const client = new AbortController()
    const leave = (value: number) => (value === 7 ? (client.abort(), null) : null)
    await expect(followed(23, leave, client.signal)).rejects.toMatchObject({ code: 'unavailable' })
  })

  describe('the rights of the caller', () => {
    const lost = new DomainError('unauthenticated', 'the key has ended')
    /** Does work for which the check of rights gives these results, one after the other. */
    const work = (...results: (Pick<Caller, 'role'> | DomainError)[]) => {
      const callerNow = async () => {
        const result = results.shift()
        if (result === undefined || result instanceof DomainError) throw result
        return result
      }
      const request = { chargedTo: 'org_a', callerNow, signal: new AbortController().signal }
      return inSlices({ shares: createShares() }, request, async ({ role }) => `done as ${role}`)
    }
    const [admin, owner] = [{ role: 'admin' }, { role: 'owner' }] as const

    test('are checked before the work, and again after it', async () => {
      await expect(work(lost)).rejects.toBe(lost)
      await expect(work(admin, lost)).rejects.toBe(lost)
    })

    test('must not become fewer during the work', async () => {
      await expect(work(owner, admin)).rejects.toMatchObject({ code: 'unavailable' })
      expect(await work(admin, owner)).toBe('done as admin')
    })
  })
})
