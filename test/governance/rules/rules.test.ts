import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { labelRuleInput, ruleInput } from '../../../src/policy/rule.ts'
import {
  createRule,
  deleteRule,
  listRules,
  patchRule,
  readRule,
  replaceRule,
} from '../../../src/governance/rules/rules.ts'
import { ruleKinds } from '../../../src/governance/rules/rule-kinds.ts'
import { ruleTemplates } from '../../../src/governance/rules/rule-templates.ts'
import type { Caller } from '../../../src/governance/access/identity.ts'
import { auditOf, testContext, withPeople, type TestContext } from '../support.ts'

let running: TestContext
let admin: Caller
let counter = 0
beforeAll(async () => {
  running = await testContext()
  admin = (await withPeople(running.context)).caller('admin')
})
afterAll(() => running.close())

const aRule = (extra: object = {}) =>
  ruleInput.parse({ name: `rule ${(counter += 1)}`, verdict: 'deny', tools: ['mail_send'], ...extra })

/** The current rules, loaded under the chain’s lock as every process loads them. */
const policyNow = () =>
  running.another().combiner.run(admin.organizationId, 'org.change', (tx) => Promise.resolve(tx.policy))

describe('rules', () => {
  test('a saved rule is loaded for the next decision in every process, and so is each change', async () => {
    const { context } = running
    const start = (await policyNow()).version
    const rule = await createRule(context, 'rule', admin, aRule())
    expect((await policyNow()).version).toBe(start + 1)
    await patchRule(context, 'rule', admin, rule.id, { status: 'inactive' })
    expect((await policyNow()).version).toBe(start + 2)
    await replaceRule(context, 'rule', admin, rule.id, aRule())
    await deleteRule(context, 'rule', admin, rule.id)
    expect((await policyNow()).version).toBe(start + 4)
  })

  test('every change is one audit entry with the new version and the body’s hash, without the body', async () => {
    const { context } = running
    const secret = 'board@acme.com'
    const params = [{ param: 'to', operator: 'equals' as const, value: secret }]
    const { id } = await createRule(context, 'rule', admin, aRule({ params }))
    await patchRule(context, 'rule', admin, id, { status: 'shadow' })
    await deleteRule(context, 'rule', admin, id)
    const entries = await auditOf(context, admin.organizationId, 3)
    expect(entries.map((entry) => entry.event_type)).toEqual(['rule.created', 'rule.updated', 'rule.deleted'])
    const versions = entries.map((entry) => entry.metadata['policy_version'] as number)
    expect(versions).toEqual([versions[0], (versions[0] ?? 0) + 1, (versions[0] ?? 0) + 2])
    for (const entry of entries) {
      expect(entry).toMatchObject({ user_id: admin.userId, ip_address: '127.0.0.1', status: 'success' })
      expect(entry.metadata).toMatchObject({ rule_id: id, verdict: 'deny', api_key_id: admin.keyId })
      expect(entry.canonical).not.toContain(secret)
    }
  })

  test('a name is unique in an organization; label rules have separate names', async () => {
    const { context } = running
    const body = aRule()
    const { id } = await createRule(context, 'rule', admin, body)
    const head = await auditOf(context, admin.organizationId, 1)
    const again = createRule(context, 'rule', admin, body)
    await expect(again).rejects.toMatchObject({
      code: 'validation_error',
      message: expect.stringContaining(`\`PATCH /organizations/${admin.organizationId}/rules/${id}\``),
      details: [{ path: 'name' }],
    })
    expect(await auditOf(context, admin.organizationId, 1)).toEqual(head)
    const labelRule = {
      name: body.name,
      status: 'active' as const,
      tools: ['file_read'],
      add_labels: ['pii'],
    }
    expect(await createRule(context, 'label_rule', admin, labelRule)).toMatchObject({
      ...labelRule,
      id: expect.stringMatching(/^lrule_/),
    })
  })

  test('renaming to a taken name is refused too', async () => {
    const { context } = running
    const [one, two] = [aRule(), aRule()]
    await createRule(context, 'rule', admin, one)
    const { id } = await createRule(context, 'rule', admin, two)
    const taken = { code: 'validation_error', details: [{ path: 'name' }] }
    await expect(patchRule(context, 'rule', admin, id, { name: one.name })).rejects.toMatchObject(taken)
    await expect(replaceRule(context, 'rule', admin, id, one)).rejects.toMatchObject(taken)
  })

  test('a patch removes fields with null, keeps the rest, and must leave a valid rule', async () => {
    const { context } = running
    const { id } = await createRule(
      context,
      'rule',
      admin,
      aRule({ description: 'x', side_effects: ['egress'] }),
    )
    const patched = await patchRule(context, 'rule', admin, id, { description: null, tools: null })
    expect(patched).toMatchObject({ side_effects: ['egress'], verdict: 'deny' })
    expect(patched).not.toHaveProperty('description')
    expect(patched).not.toHaveProperty('tools')
    const bare = patchRule(context, 'rule', admin, id, { side_effects: null })
    await expect(bare).rejects.toMatchObject({ code: 'validation_error', details: [{ path: 'match_all' }] })
    expect(await readRule(context.db, 'rule', admin.organizationId, id)).toEqual(patched)
  })

  test('a rule that is refused now, but was saved before, can be switched off', async () => {
    const { context } = running
    const params = ['a', 'b'].map((value) => ({ param: 'subject', operator: 'equals' as const, value }))
    const { id } = await createRule(context, 'rule', admin, { ...aRule(), params })
    const off = await patchRule(context, 'rule', admin, id, { status: 'inactive' })
    expect(off).toMatchObject({ status: 'inactive', params })
    const invalid = { code: 'validation_error' }
    await expect(patchRule(context, 'rule', admin, id, { tools: ['mail_send'] })).rejects.toMatchObject(
      invalid,
    )
  })

  test('a replaced rule keeps its id and its position', async () => {
    const { context } = running
    const place = async (id: string) =>
      (await context.db.selectFrom('rules').select('position').where('id', '=', id).executeTakeFirstOrThrow())
        .position
    const { id } = await createRule(context, 'rule', admin, aRule())
    const before = await place(id)
    expect((await replaceRule(context, 'rule', admin, id, aRule())).id).toBe(id)
    expect(await place(id)).toBe(before)
  })

  test('of another organization are not found', async () => {
    const { context } = running
    const { id } = await createRule(context, 'rule', admin, aRule())
    const missing = { code: 'not_found' }
    await expect(readRule(context.db, 'rule', 'org_x', id)).rejects.toMatchObject(missing)
    await expect(readRule(context.db, 'label_rule', admin.organizationId, id)).rejects.toMatchObject(missing)
    await expect(deleteRule(context, 'rule', admin, 'rule_x')).rejects.toMatchObject(missing)
    await expect(patchRule(context, 'rule', admin, 'rule_x', {})).rejects.toMatchObject(missing)
  })

  test('are listed newest first, page by page, each once', async () => {
    const { context } = running
    for (let made = 0; made < 5; made += 1) await createRule(context, 'rule', admin, aRule())
    const all = await listRules(context.db, 'rule', admin.organizationId, { limit: 200, cursor: null })
    const ids = all.data.map((rule) => rule.id)
    expect(all.next_cursor).toBeNull()
    expect(ids).toEqual([...ids].sort().reverse())
    const seen: string[] = []
    let cursor: string | null = null
    do {
      const page = await listRules(context.db, 'rule', admin.organizationId, { limit: 2, cursor })
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
      name: `labels ${(counter += 1)}`,
      tools: ['file_read'],
      add_labels: Array.from({ length: 100 }, (_, index) => `label-${start + index}`),
      ...extra,
    })
  const save = (start: number, extra: object = {}) =>
    createRule(running.context, 'label_rule', admin, rule(start, extra))
  const tooMany = { code: 'validation_error', details: [{ path: 'add_labels' }] }

  test('are 1,000 together, however a rule is saved', async () => {
    const { context } = running
    for (const { id } of (
      await listRules(context.db, 'label_rule', admin.organizationId, { limit: 100, cursor: null })
    ).data)
      await deleteRule(context, 'label_rule', admin, id)
    const first = await save(0)
    for (let start = 100; start < 1_000; start += 100) await save(start)
    await expect(save(1_000)).rejects.toMatchObject(tooMany)
    await expect(save(950)).rejects.toThrow('would add 1050 labels together, at most 1000')
    await save(500)
    const idle = await save(1_000, { status: 'inactive' })
    await expect(patchRule(context, 'label_rule', admin, idle.id, { status: 'active' })).rejects.toMatchObject(tooMany) // prettier-ignore
    await expect(replaceRule(context, 'label_rule', admin, idle.id, rule(1_000))).rejects.toMatchObject(tooMany) // prettier-ignore
    await replaceRule(context, 'label_rule', admin, first.id, rule(1_000))
    await expect(patchRule(context, 'label_rule', admin, idle.id, { status: 'active' })).resolves.toMatchObject({ status: 'active' }) // prettier-ignore
    // As saved by an earlier version.
    await context.pool.query(
      `update label_rules set body = jsonb_set(body, '{add_labels}', (body->'add_labels') - 0 - 0 || '["more", "and-more"]') where id = $1`,
      [first.id],
    )
    await patchRule(context, 'label_rule', admin, first.id, { name: 'renamed' })
    await expect(save(2_000)).rejects.toMatchObject(tooMany)
    await deleteRule(context, 'label_rule', admin, first.id)
  })
})
