import { afterEach, describe, expect, test } from '@jest/globals'
import { enterRun } from '../../../src/governance/runs/enter.ts'
import { governancePatch, type GovernancePatch } from '../../../src/governance/settings.ts'
import { readApproval } from '../../../src/governance/approvals/read.ts'
import { auditOf } from '../support.ts'
import { approvalsOf, runOf, useEngine, type Engine } from './engine-fixture.ts'

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

  test('risk and flags together give all their reasons', async () => {
    await engine.settings({ approval_required_from: 'high', require_approval_for_external_comm: true })
    const { status_reason } = await started({ steps: [mail] })
    expect(status_reason).toMatch(/its risk is high \(`mail_send` delivers .*\); `mail_send` is external/)
  })
})

test.each([
  ['a word that is no category', { two__words: true }, 'write a lower-case slug'],
  [
    'more than are kept',
    Object.fromEntries([...Array(101).keys()].map((n) => [`c${n}`, true])),
    'at most 100',
  ],
])('category flags refuse %s', (_, category_flags, message) => {
  const read = governancePatch.safeParse({ category_flags })
  expect(read.error?.issues[0]?.message).toContain(message)
})
