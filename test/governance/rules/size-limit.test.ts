import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { sql } from 'kysely'
import type { Caller } from '../../../src/governance/access/identity.ts'
import { mostRuleBytes, mostRuleValues } from '../../../src/governance/rules/size-limit.ts'
import {
  createRule,
  deleteRule,
  patchRule,
  readRule,
  replaceRule,
} from '../../../src/governance/rules/rules.ts'
import { labelRuleInput, ruleInput } from '../../../src/policy/rule.ts'
import { auditOf, testContext, withPeople, type TestContext } from '../support.ts'

let running: TestContext
let admin: Caller
let counter = 0
beforeAll(async () => {
  running = await testContext()
  admin = (await withPeople(running.context)).caller('admin')
})
afterAll(() => running.close())

const name = () => `rule ${(counter += 1)}`
const among = (count: number, length = 1) =>
  Array.from({ length: Math.ceil(count / 1_000) }, (_, index) => ({
    param: 'to',
    operator: 'in' as const,
    value: Array.from({ length: Math.min(1_000, count - 1_000 * index) }, () => 'x'.repeat(length)),
  }))
const aRule = (params: ReturnType<typeof among>) => ruleInput.parse({ name: name(), verdict: 'deny', params })
const create = (params: ReturnType<typeof among>) => createRule(running.context, 'rule', admin, aRule(params))
const tooMuch = { code: 'validation_error', message: expect.stringContaining('together') as unknown }

describe('the size of all rules of an organization together', () => {
  test('is limited in values, over rules and label rules', async () => {
    const { context } = running
    const { id } = await create(among(mostRuleValues - 3))
    const label = labelRuleInput.parse({ name: name(), tools: ['file_read'], add_labels: ['a', 'b'] })
    const second = await createRule(context, 'label_rule', admin, label)
    const head = await auditOf(context, admin.organizationId, 1)
    await expect(create(among(1))).rejects.toMatchObject(tooMuch)
    const longer = { ...label, add_labels: ['a', 'b', 'c'] }
    await expect(replaceRule(context, 'label_rule', admin, second.id, longer)).rejects.toMatchObject(tooMuch)
    await expect(patchRule(context, 'label_rule', admin, second.id, longer)).rejects.toMatchObject(tooMuch)
    const wider = { params: among(mostRuleValues - 2) }
    await expect(patchRule(context, 'rule', admin, id, wider)).rejects.toMatchObject(tooMuch)
    // The refused change had no effect.
    expect(await readRule(context.db, 'label_rule', admin.organizationId, second.id)).toEqual(second)
    expect(await auditOf(context, admin.organizationId, 1)).toEqual(head)
    const same = { ...label, add_labels: ['c', 'd'] }
    await replaceRule(context, 'label_rule', admin, second.id, same)
    await deleteRule(context, 'rule', admin, id)
    const { id: last } = await create(among(1))
    await deleteRule(context, 'rule', admin, last)
  })

  test('has a limit on its text', async () => {
    const { context } = running
    const ids: string[] = []
    const fill = async () => ids.push((await create(among(1_000, 1_000))).id)
    for (let bytes = 1_000_000; bytes < mostRuleBytes; bytes += 1_010_000) await fill()
    await expect(fill()).rejects.toMatchObject(tooMuch)
    for (const id of ids) await deleteRule(context, 'rule', admin, id)
  })

  test('above the limit, after an upgrade, it can shrink but not grow', async () => {
    const { context } = running
    const { id } = await create(among(2_000))
    const { id: other } = await create(among(1))
    // A rule that was saved before the limit existed.
    const body = JSON.stringify({ params: among(mostRuleValues) })
    await sql`update rules set body = body || ${body}::jsonb where id = ${id}`.execute(context.db)
    await expect(create(among(1))).rejects.toMatchObject(tooMuch)
    await expect(patchRule(context, 'rule', admin, other, { params: among(2) })).rejects.toMatchObject(
      tooMuch,
    )
    await patchRule(context, 'rule', admin, id, { status: 'inactive' })
    await expect(patchRule(context, 'rule', admin, id, { status: 'active' })).rejects.toMatchObject(tooMuch)
    await patchRule(context, 'rule', admin, id, { params: among(mostRuleValues - 10) })
    await patchRule(context, 'rule', admin, id, { status: 'active' })
    await deleteRule(context, 'rule', admin, id)
  })
})
