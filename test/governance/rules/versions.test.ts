import { beforeEach, describe, expect, test } from '@jest/globals'
import { labelRuleInput, ruleInput } from '../../../src/governance/rules/rule-kinds.ts'
import { createRule, deleteRule, patchRule, restoreRule, ruleRows } from './free-changes.ts'
import {
  changeToolPolicy,
  createToolPolicy,
  deleteToolPolicy,
  listToolPolicies,
  policyVersions,
  restoreToolPolicy,
} from '../../../src/governance/rules/tool-policies.ts'
import {
  listPolicyVersions,
  mostDeletedObjects,
  mostVersions,
  readPolicyVersion,
  type Versioned,
} from '../../../src/governance/rules/versions.ts'
import { setFreeze } from '../../../src/governance/rules/freeze.ts'
import { mostRuleBytes } from '../../../src/governance/rules/size-limit.ts'
import { readOwned } from '../../../src/governance/page.ts'
import type { Caller } from '../../../src/governance/access/identity.ts'
import type { Context } from '../../../src/governance/context.ts'
import { asAdmin } from '../../support/postgres.ts'
import { useEngine } from '../runs/engine-fixture.ts'
import { auditOf } from '../support.ts'

/* What each change of a rule, a label rule or a tool policy leaves, and how it is taken back. */

let context: Context
let adminUrl: string
let organizationId: string
let admin: Caller
let owner: Caller
useEngine((started) => {
  ;({ adminUrl, context, organizationId } = started)
  ;[admin, owner] = [started.caller('admin'), started.caller('owner')]
})
beforeEach(async () => {
  for (const table of ['rules', 'label_rules', 'tool_policies', 'policy_versions'] as const)
    await context.db.deleteFrom(table).execute()
})

const aRule = (extra: object = {}) =>
  ruleInput.parse({ name: 'no mail', verdict: 'deny', tools: ['mail_send'], ...extra })
const create = (extra: object = {}) => createRule(context, 'rule', admin, aRule(extra))
const patch = (id: string, body: object) => patchRule(context, 'rule', admin, id, body)
const restore = (id: string, version: number) =>
  restoreRule(context, 'rule', admin, { id, version: `${version}` })
const remove = (id: string) => deleteRule(context, 'rule', admin, id)
const ruleNow = (id: string) => readOwned(context, ruleRows('rule'), admin, id)
const listed = async (object: Versioned) =>
  (await listPolicyVersions(context.db, organizationId, object, { limit: 200, cursor: null })).data
const versionsOf = (id: string) => listed({ kind: 'rule', id })
const versionOf = (id: string, version: number) =>
  readPolicyVersion(context.db, organizationId, { kind: 'rule', id }, `${version}`)
/** Versions are never updated: the service may not do this. */
const rewrite = (set: string, values: unknown[]) =>
  asAdmin(adminUrl, (client) => client.query(`update policy_versions set body = ${set}`, values))
const lastEntry = async () => (await auditOf(context, organizationId, 1))[0]?.metadata

describe('versions of a rule', () => {
  test('each change leaves one, which names who made it; its audit entry holds the rule before and after', async () => {
    const { id } = await create()
    expect(await lastEntry()).toMatchObject({ version: 1, after: aRule() })
    expect(await lastEntry()).not.toHaveProperty('before')
    await patchRule(context, 'rule', owner, id, { status: 'shadow' })
    expect(await lastEntry()).toMatchObject({
      version: 2,
      before: aRule(),
      after: aRule({ status: 'shadow' }),
    })
    await remove(id)
    expect(await lastEntry()).toMatchObject({ version: 3, before: aRule({ status: 'shadow' }) })
    expect(await lastEntry()).not.toHaveProperty('after')
    expect(await versionsOf(id)).toMatchObject([
      { version: 3, change: 'deleted', created_by: admin.userId },
      { version: 2, change: 'updated', created_by: owner.userId },
      { version: 1, change: 'created', created_by: admin.userId },
    ])
    expect(await versionOf(id, 2)).toMatchObject({ before: aRule(), body: aRule({ status: 'shadow' }) })
    expect(await versionOf(id, 3)).toMatchObject({ before: aRule({ status: 'shadow' }), body: null })
  })

  test('of a change that is too long for an entry, the entry has the hashes; the version has all', async () => {
    const values = Array.from({ length: 900 }, (_, index) => `host-${index}.acme.example`)
    const params = [{ param: 'to', operator: 'domain_not_in', value: values }]
    const { id } = await create({ params })
    const entry = await lastEntry()
    expect(entry).toMatchObject({ version: 1, after_hash: expect.stringMatching(/^[0-9a-f]{64}$/) })
    expect(JSON.stringify(entry)).not.toContain('host-1.acme.example')
    expect((await versionOf(id, 1)).body).toMatchObject({ params })
  })

  test('restoring an earlier one is a change like any other', async () => {
    const { id } = await create()
    await patch(id, { verdict: 'allow', name: 'mail' })
    const policy = (await lastEntry())?.['policy_version'] as number
    expect(await restore(id, 1)).toMatchObject({ id, ...aRule() })
    expect(await ruleNow(id)).toMatchObject(aRule())
    expect(await lastEntry()).toMatchObject({
      restored_from: 1,
      version: 3,
      policy_version: policy + 1,
      before: { verdict: 'allow' },
      after: { verdict: 'deny' },
    })
    await remove(id)
    await create()
    const taken = { code: 'validation_error', details: [{ path: 'name' }] }
    await expect(restore(id, 1)).rejects.toMatchObject(taken)
  })

  test('a deleted rule comes back with its id, and a deletion itself cannot be restored', async () => {
    const { id } = await create()
    await remove(id)
    await expect(restore(id, 2)).rejects.toMatchObject({
      code: 'conflict',
      message: 'version 2 is a deletion: restore version 1 instead',
    })
    await restore(id, 1)
    expect(await ruleNow(id)).toMatchObject({ id, ...aRule() })
    expect((await versionsOf(id))[0]).toMatchObject({ version: 3, change: 'created', restored_from: 1 })
  })

  test('a version whose rule is not valid any more is refused with the reason', async () => {
    const { id } = await create()
    const body = JSON.stringify({ ...aRule(), verdict: 'maybe' })
    await rewrite('$1', [body])
    await expect(restore(id, 1)).rejects.toMatchObject({
      code: 'validation_error',
      details: [{ path: 'verdict' }],
    })
  })

  test('nobody restores with a key that has ended, from another organization, or a version of another kind', async () => {
    const { id } = await create()
    const ended = { ...admin, userId: 'usr_of_nobody' }
    await expect(restoreRule(context, 'rule', ended, { id, version: '1' })).rejects.toMatchObject({
      code: 'unauthenticated',
    })
    const elsewhere = { ...admin, organizationId: 'org_elsewhere' }
    await expect(restoreRule(context, 'rule', elsewhere, { id, version: '1' })).rejects.toMatchObject({
      code: 'not_found',
    })
    await expect(restoreRule(context, 'label_rule', admin, { id, version: '1' })).rejects.toMatchObject({
      code: 'not_found',
    })
  })

  test(`the newest ${mostVersions} are kept`, async () => {
    const { id } = await create()
    await context.pool.query(
      `insert into policy_versions (organization_id, kind, object_id, version, change, body, created_by, created_at)
       select organization_id, kind, object_id, v, 'updated', body, created_by, created_at
       from policy_versions, generate_series(2, ${mostVersions}) as v where object_id = $1`,
      [id],
    )
    await patch(id, { status: 'shadow' })
    const versions = (await versionsOf(id)).map(({ version }) => version)
    expect([versions.length, versions.at(0), versions.at(-1)]).toEqual([mostVersions, mostVersions + 1, 2])
  })

  test('so many bytes are kept, and always the newest version', async () => {
    const { id } = await create({ description: 'x'.repeat(500) })
    await rewrite(`body || jsonb_build_object('description', repeat('x', $1))`, [mostRuleBytes])
    await patch(id, { status: 'shadow' })
    expect((await versionsOf(id)).map(({ version }) => version)).toEqual([2])
  })

  test('the versions of what was deleted long ago are forgotten', async () => {
    const { id } = await create()
    await context.pool.query(
      `insert into policy_versions (organization_id, kind, object_id, version, change, created_by, created_at)
       select $1, 'rule', 'rule_' || n, 2, 'deleted', $2, now() - n * interval '1 hour'
       from generate_series(1, ${mostDeletedObjects}) as n`,
      [organizationId, admin.userId],
    )
    await remove(id)
    expect(await versionsOf(id)).toHaveLength(2)
    expect(await versionsOf(`rule_${mostDeletedObjects}`)).toEqual([])
    expect(await versionsOf(`rule_${mostDeletedObjects - 1}`)).toHaveLength(1)
  })
})

test('versions of a label rule are its own', async () => {
  const body = labelRuleInput.parse({ name: 'people', tools: ['file_read'], add_labels: ['pii'] })
  const { id } = await createRule(context, 'label_rule', admin, body)
  await deleteRule(context, 'label_rule', admin, id)
  expect(await restoreRule(context, 'label_rule', admin, { id, version: '1' })).toMatchObject({ id, ...body })
  expect(await listed({ kind: 'label_rule', id })).toHaveLength(3)
})

describe('versions of a tool policy', () => {
  const tool = 'memory_set'
  const restored = (version: string, role?: 'member') =>
    restoreToolPolicy(context, owner, { tool, role, version }, null)

  test('each role has its own, and a deleted policy comes back', async () => {
    const limits = { read_only: true }
    await createToolPolicy(context, owner, { tool_name: tool, allowed: null, restrictions: limits }, null)
    await createToolPolicy(
      context,
      owner,
      { tool_name: tool, allowed: false, restrictions: {}, role: 'member' },
      null,
    )
    await changeToolPolicy(context, owner, tool, { restrictions: {}, allowed: false })
    expect(await lastEntry()).toMatchObject({
      version: 2,
      before: { allowed: null, restrictions: limits },
      after: { allowed: false, restrictions: {} },
    })
    expect(await restored('1')).toMatchObject({ role: null, allowed: null, restrictions: limits })
    await deleteToolPolicy(context, owner, tool, undefined)
    await restored('3')
    const { data } = await listToolPolicies(context, owner, { limit: 10, cursor: null })
    expect(data.map(({ role, allowed }) => [role, allowed])).toEqual(
      expect.arrayContaining([
        [null, null],
        ['member', false],
      ]),
    )
    expect(await listed(policyVersions(tool, undefined))).toHaveLength(5)
    expect(await listed(policyVersions(tool, 'member'))).toHaveLength(1)
    await expect(restored('2', 'member')).rejects.toMatchObject({ code: 'not_found' })
  })

  test('a kept policy that became invalid is refused', async () => {
    await createToolPolicy(context, owner, { tool_name: tool, allowed: false, restrictions: {} }, null)
    const body = JSON.stringify({ allowed: false, restrictions: { read_only: true } })
    await rewrite('$1', [body])
    await expect(restored('1')).rejects.toMatchObject({ code: 'validation_error' })
  })
})

test('the entries of a freeze say what it was before', async () => {
  const given = { askedAt: performance.now(), once: null }
  await setFreeze(context, owner, true, { ...given, reason: 'leak' })
  await setFreeze(context, owner, true, { ...given, reason: 'worse' })
  expect(await lastEntry()).toMatchObject({ reason: 'worse', before: 'leak' })
  await setFreeze(context, owner, false, { ...given, reason: 'over' })
  expect(await lastEntry()).toMatchObject({ reason: 'over', before: 'worse' })
})
