import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import type { Caller } from '../../../src/governance/access/identity.ts'
import { readGovernance } from '../../../src/governance/access/settings.ts'
import { changeGovernance } from '../../../src/governance/rules/settings.ts'
import { enrolPeople } from '../../api/fixtures.ts'
import { auditOf, testContext, withPeople, type TestContext } from '../support.ts'

let running: TestContext
let owner: Caller
beforeAll(async () => {
  running = await testContext()
  owner = (await withPeople(running.context)).caller('owner')
})
afterAll(() => running.close())

describe('governance settings', () => {
  test('start with the documented defaults', async () => {
    expect(await readGovernance(running.context.db, owner.organizationId)).toEqual({
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
      require_mfa: false,
      keep_decision_params: true,
    })
  })

  test('a change holds for the next decision in every process, and its audit entry names it', async () => {
    const { context } = running
    const other = running.another()
    const load = () =>
      other.combiner.run(owner.organizationId, 'org.change', (tx) => Promise.resolve(tx.policy))
    expect((await load()).settings.approvals_enabled).toBe(false)
    const answer = await changeGovernance(context, owner, { approvals_enabled: true, approval_threshold: 1 })
    expect(answer).toMatchObject({ approvals_enabled: true, approval_threshold: 1 })
    expect((await load()).settings.approvals_enabled).toBe(true)
    const [entry] = await auditOf(context, owner.organizationId, 1)
    expect(entry).toMatchObject({ event_type: 'governance.updated', user_id: owner.userId })
    expect(entry?.metadata['changes']).toEqual({ approvals_enabled: { from: false, to: true } })
  })

  test.each([{}, { approvals_enabled: true }])('%j, which changes nothing, is not audited', async (patch) => {
    const { context } = running
    await changeGovernance(context, owner, { approvals_enabled: true })
    const before = await auditOf(context, owner.organizationId, 1)
    expect(await changeGovernance(context, owner, patch)).toMatchObject({ approvals_enabled: true })
    expect(await auditOf(context, owner.organizationId, 1)).toEqual(before)
  })

  test('unnamed settings stay', async () => {
    const { context } = running
    await changeGovernance(context, owner, { category_flags: { pii: true } })
    await changeGovernance(context, owner, { approval_threshold: 2, category_flags: undefined })
    expect(await readGovernance(context.db, owner.organizationId)).toMatchObject({
      category_flags: { pii: true },
      approval_threshold: 2,
    })
  })

  test('a person without a second factor cannot require one: nothing changes', async () => {
    const { context } = running
    const before = await auditOf(context, owner.organizationId, 1)
    const requiring = changeGovernance(context, owner, { require_mfa: true, default_tool_access: 'deny' })
    await expect(requiring).rejects.toMatchObject({
      code: 'conflict',
      message: expect.stringContaining('enrol a second factor first'),
      details: [{ path: 'require_mfa' }],
    })
    expect(await readGovernance(context.db, owner.organizationId)).toMatchObject({
      require_mfa: false,
      default_tool_access: 'allow',
    })
    expect(await auditOf(context, owner.organizationId, 1)).toEqual(before)
    await changeGovernance(context, owner, { require_mfa: false })
  })

  test('concurrent changes all hold', async () => {
    await enrolPeople(running.context, [owner.userId])
    await Promise.all([
      changeGovernance(running.another(), owner, { require_mfa: true }),
      changeGovernance(running.another(), owner, { default_tool_access: 'deny' }),
      changeGovernance(running.another(), owner, { allow_self_approval: true }),
    ])
    expect(await readGovernance(running.context.db, owner.organizationId)).toMatchObject({
      require_mfa: true,
      default_tool_access: 'deny',
      allow_self_approval: true,
    })
  })
})
