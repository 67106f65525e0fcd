import { afterEach, describe, expect, test } from '@jest/globals'
import { enterRun } from '../../../../src/governance/runs/start/enter.ts'
import { governancePatch } from '../../../../src/api/schemas/governance.ts'
import type { GovernancePatch } from '../../../../src/policy/settings.ts'
import { readApproval } from '../../../../src/governance/approvals/read.ts'
import { auditOf } from '../../support.ts'
import { approvalsOf, runOf, useEngine, type Engine } from '../engine-fixture.ts'

let engine: Engine
useEngine((started) => (engine = started))
const plain = {
  require_approval_for_external_comm: false,
  category_flags: {},
  approval_required_from: null,
  approvals_enabled: true,
}
afterEach(() => engine.settings(plain))

const mail = { id: 's', tool: 'mail_send', params: { to: 'a@b.test', subject: 'x', text: 'y' } }
const note = { id: 'n', tool: 'memory_set', params: { key: 'k', value: 1 } }
const started = async (definition: object) => runOf(engine.context, await engine.run(definition))

describe('settings that hold whole runs', () => {
  test.each<[string, GovernancePatch, object, string]>([
    [
      'a tool’s category',
      { require_approval_for_external_comm: true },
      { steps: [note, mail] },
      '`mail_send` is external communication (`require_approval_for_external_comm`)',
    ],
    [
      'the workflow’s category',
      { category_flags: { financial: true } },
      { steps: [note], categories: ['internal-only', 'financial'] },
      'the workflow is of category `financial` (`category_flags`)',
    ],
    [
      'a tool’s category among the flags',
      { category_flags: { external_comm: true } },
      { steps: [mail] },
      '`mail_send` is of category `external_comm` (`category_flags`)',
    ],
    [
      'the tool of a step that would be skipped',
      { require_approval_for_external_comm: true },
      { steps: [{ ...mail, when: { value: 'a', operator: 'equals', compare: 'b' } }] },
      '`mail_send` is external communication (`require_approval_for_external_comm`)',
    ],
  ])('%s: the run, its risk, its approval and the audit log say why', async (_, patch, definition, why) => {
    await engine.settings(patch)
    const run = await started(definition)
    expect(run).toMatchObject({ status: 'awaiting_approval', started_at: null, slot: null })
    expect(run.status_reason).toBe(`the run waits for approval: ${why}`)
    expect(run.risk.reasons).toContain(why)
    const entries = await auditOf(engine.context, engine.organizationId, 2)
    const [accepted] = entries.filter(({ event_type }) => event_type === 'workflow.execute')
    expect(accepted).toMatchObject({ status: 'awaiting_approval' })
    expect(accepted?.metadata['risk_reasons']).toContain(why)

    const id = (await approvalsOf(engine.context, run.id))[0]?.id ?? ''
    const approval = await readApproval(engine.context, engine.caller('admin'), id)
    expect(approval).toMatchObject({ kind: 'run', status: 'pending' })
    expect(approval.risk.reasons).toContain(why)
    expect(await enterRun(engine.context, run.id)).toMatchObject({ state: 'wait', waitsFor: 'approval' })
    await engine.vote(id, 'admin')
    expect(await enterRun(engine.context, run.id)).toEqual({ state: 'go' })
  })

  test.each<[string, GovernancePatch, object]>([
    ['false, which is the same as absent', { category_flags: { financial: false } }, { steps: [mail], categories: ['financial'] }], // prettier-ignore
    ['a flag of another category', { category_flags: { financial: true }, require_approval_for_public_writes: true }, { steps: [mail] }], // prettier-ignore
    ['approvals that are off', { approvals_enabled: false, category_flags: { financial: true }, require_approval_for_external_comm: true }, { steps: [mail], categories: ['financial'] }], // prettier-ignore
  ])('%s: no run is held', async (_, patch, definition) => {
    await engine.settings(patch)
    expect(await started(definition)).toMatchObject({ status: 'queued', slot: 'taken' })
  })

  test('a whole run needs an owner, and as many votes, as the rules that hold or may hold one of its steps', async () => {
    const rule = { name: 'outside', verdict: 'require_approval', tools: ['mail_send'], approver: 'owner', approvals_needed: 2, expires_after_seconds: 60 } // prettier-ignore
    await engine.settings({ approval_required_from: 'low' })
    const approvalOf = async (params: object) => {
      const run = await started({ steps: [{ ...mail, params: { ...mail.params, ...params } }, note] })
      const [approval] = await approvalsOf(engine.context, run.id)
      const seconds = (Number(approval?.expires_at) - Number(approval?.created_at)) / 1_000
      return [run.status_reason.split(':')[0], approval?.approver, approval?.approvals_needed, seconds]
    }
    const usual = 7 * 24 * 3600
    await engine.rules(rule)
    expect(await approvalOf({})).toEqual(['the run waits for approval by an owner', 'owner', 2, 60])
    const inside = { ...rule, params: [{ param: 'to', operator: 'domain_not_in', value: ['b.test'] }] }
    await engine.rules(inside, { ...rule, name: 'watched', status: 'shadow' })
    expect(await approvalOf({})).toEqual(['the run waits for approval', 'admin', 1, usual])
    expect((await approvalOf({ to: '{{n.output.key}}' }))[1]).toBe('owner')
    await engine.rules({ ...rule, expires_after_seconds: 0 })
    expect(await approvalOf({})).toEqual(['the run waits for approval by an owner', 'owner', 2, usual])
  })

  test('an admin cannot approve a run that needs an owner', async () => {
    await engine.settings({ approval_required_from: 'low' })
    await engine.rules({ name: 'o', verdict: 'require_approval', tools: ['mail_send'], approver: 'owner' })
    const run = await started({ steps: [mail] })
    const id = (await approvalsOf(engine.context, run.id))[0]?.id ?? ''
    await expect(engine.vote(id, 'admin')).rejects.toMatchObject({ code: 'not_an_approver' })
    await engine.vote(id, 'owner')
    expect(await enterRun(engine.context, run.id)).toEqual({ state: 'go' })
  })

  describe('a rule that is saved while the run waits', () => {
    const waiting = async (inputs = {}) => {
      await engine.settings({ approval_required_from: 'low' })
      await engine.rules()
      const definition = { inputs: { to: { type: 'string', default: 'a@b.test' } }, steps: [{ ...mail, params: { ...mail.params, to: '{{input.to}}' } }] } // prettier-ignore
      const runId = await engine.run(definition, inputs)
      return { runId, id: (await approvalsOf(engine.context, runId))[0]?.id ?? '' }
    }
    const owner = { name: 'o', verdict: 'require_approval', tools: ['mail_send'], approver: 'owner', approvals_needed: 1 } // prettier-ignore
    const enter = (runId: string) => enterRun(engine.context, runId)

    test.each(['before', 'after'])(
      'and needs an owner: a vote of an admin %s it is not enough',
      async (when) => {
        const { runId, id } = await waiting()
        if (when === 'after') await engine.vote(id, 'admin')
        await engine.rules(owner)
        if (when === 'before') await engine.vote(id, 'admin')
        expect(await enter(runId)).toMatchObject({ state: 'wait', waitsFor: 'approval' })
        expect((await approvalsOf(engine.context, runId))[0]).toMatchObject({
          status: 'pending',
          approver: 'owner',
        })
        const run = await runOf(engine.context, runId)
        expect(run.status_reason).toContain('the run waits for approval by an owner')
        await engine.vote(id, 'owner')
        expect(await enter(runId)).toEqual({ state: 'go' })
      },
    )

    test('and needs more votes: they are missing, also in the approval', async () => {
      const { runId, id } = await waiting()
      await engine.vote(id, 'admin')
      await engine.rules({ ...owner, approver: 'admin', approvals_needed: 2 })
      expect(await enter(runId)).toMatchObject({ state: 'wait', waitsFor: 'approval' })
      expect((await approvalsOf(engine.context, runId))[0]).toMatchObject({ approvals_needed: 2 })
      await engine.vote(id, 'owner')
      expect(await enter(runId)).toEqual({ state: 'go' })
    })

    const outside = { name: 'inside', verdict: 'deny', tools: ['mail_send'], params: [{ param: 'to', operator: 'domain_not_in', value: ['b.test'] }] } // prettier-ignore
    test('and denies a step for certain: the run ends as denied, without a call', async () => {
      const denied = await waiting({ to: 'a@evil.test' })
      const allowed = await waiting()
      for (const { id } of [denied, allowed]) await engine.vote(id, 'admin')
      await engine.rules(outside)
      expect(await enter(allowed.runId)).toEqual({ state: 'go' })
      expect(await enter(denied.runId)).toEqual({ state: 'ended' })
      expect(await runOf(engine.context, denied.runId)).toMatchObject({
        status: 'denied',
        status_reason: 'step `s` would be denied by `inside`: nothing was started',
        started_at: null,
      })
      const calls = engine.context.db
        .selectFrom('effects')
        .select('run_id')
        .where('run_id', '=', denied.runId)
      expect(await calls.execute()).toEqual([])
    })

    test('inputs that are too large to keep with the run are read for it too', async () => {
      const many = Array.from({ length: 4_000 }, () => `colleague${'x'.repeat(20)}@b.test`)
      const { runId, id } = await waiting({ to: [...many, 'a@evil.test'].join(', ') })
      await engine.vote(id, 'admin')
      await engine.rules(outside)
      expect(await enter(runId)).toEqual({ state: 'ended' })
    })
  })

  test('with approvals off the risk and its reasons are audited all the same, also of a refused run', async () => {
    await engine.settings({ approvals_enabled: false, approval_required_from: 'low' })
    const risk = { risk: 'high', risk_reasons: ['`mail_send` delivers content to people or places'] }
    const run = await started({ steps: [mail] })
    expect(run).toMatchObject({ status: 'queued', risk: { level: 'high', reasons: risk.risk_reasons } })
    const last = async () => (await auditOf(engine.context, engine.organizationId, 1))[0]
    expect(await last()).toMatchObject({ event_type: 'workflow.execute', metadata: risk })
    await engine.rules({ name: 'no', verdict: 'deny', tools: ['mail_send'] })
    await expect(started({ steps: [mail] })).rejects.toMatchObject({ code: 'run_denied' })
    expect(await last()).toMatchObject({ event_type: 'workflow.refused', metadata: risk })
  })

  test('risk and flags together give all their reasons', async () => {
    await engine.settings({ approval_required_from: 'high', require_approval_for_external_comm: true })
    const { status_reason } = await started({ steps: [mail] })
    expect(status_reason).toMatch(/its risk is high \(`mail_send` delivers .*\); `mail_send` is external/)
  })
})

test.each([
  ['a word that is not a category', { two__words: true }, 'a category is a lower-case slug'],
  [
    'more than the limit',
    Object.fromEntries([...Array(101).keys()].map((n) => [`c${n}`, true])),
    'at most 100',
  ],
])('category flags refuse %s', (_, category_flags, message) => {
  const read = governancePatch.safeParse({ category_flags })
  expect(JSON.stringify(read.error?.issues)).toContain(message)
})
