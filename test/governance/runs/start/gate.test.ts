import { roleOf } from '../../../../src/policy/seats.ts'
import fc from 'fast-check'
import { afterEach, describe, expect, test } from '@jest/globals'
import { enterRun } from '../../../../src/governance/runs/start/enter.ts'
import { governancePatch } from '../../../../src/api/routes/governance.ts'
import { readSettings, type GovernancePatch } from '../../../../src/policy/settings.ts'
import { readApproval } from '../../../../src/governance/approvals/read.ts'
import { auditOf } from '../../support.ts'
import { denyRule, holdRule, opOf, useEngine, type Engine } from '../engine-fixture.ts'
import type { WorkflowDefinition } from '../../../../src/contract/definition.ts'
import { gateOf, possibleReasons, type RunGate } from '../../../../src/governance/runs/start/gate.ts'
import { planRun, type WantedRun } from '../../../../src/governance/runs/start/plan-run.ts'
import { compilePolicy } from '../../../support/compile.ts'
import { builtinsOf } from '../../../../src/policy/builtins.ts'
import { compileToolAccess } from '../../../../src/policy/tool-access.ts'
import type { Json, JsonObject, RiskLevel } from '../../../../src/policy/types.ts'

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
const started = async (definition: object) => engine.runOf(await engine.run(definition))

describe('settings that hold whole runs', () => {
  const flagged = { category_flags: { financial: true } }
  const external = { require_approval_for_external_comm: true }
  const isExternal = '`mail_send` is external communication (`require_approval_for_external_comm`)'
  const ofWorkflow = 'the workflow is of category `financial` (`category_flags`)'
  const ofTool = '`mail_send` is of category `external_comm` (`category_flags`)'
  const when = { value: 'a', operator: 'equals', compare: 'b' }
  const financial = { steps: [mail], categories: ['internal-only', 'financial'] }
  test.each<[string, GovernancePatch, object, string]>([
    ['a tool’s category', external, { steps: [note, mail] }, isExternal],
    ['the workflow’s category', flagged, { ...financial, steps: [note] }, ofWorkflow],
    [
      'a tool’s category among the flags',
      { category_flags: { external_comm: true } },
      { steps: [mail] },
      ofTool,
    ],
    ['the tool of a step that would be skipped', external, { steps: [{ ...mail, when }] }, isExternal],
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

    const id = (await engine.approvalsOf(run.id))[0]?.id ?? ''
    const approval = await readApproval(engine.context, engine.caller('admin'), id)
    expect(approval).toMatchObject({ kind: 'run', status: 'pending' })
    expect(approval.risk.reasons).toContain(why)
    expect(await enterRun(engine.context, run.id)).toMatchObject({ state: 'wait', waitsFor: 'approval' })
    await engine.vote(id, 'admin')
    for (const _ of [1, 2]) expect(await enterRun(engine.context, run.id)).toEqual({ state: 'go' })
    expect((await engine.approvalsOf(run.id))[0]).toMatchObject({ used_by: run.id })
    const events = await engine.eventsOf(run.id)
    expect(events.filter((type) => type === 'run.started')).toHaveLength(1)
  })

  test.each<[string, GovernancePatch, object]>([
    ['a risk below the limit', { approval_required_from: 'critical' }, { steps: [mail] }],
    ['false, which is the same as absent', { category_flags: { financial: false } }, financial],
    [
      'a flag of another category',
      { ...flagged, require_approval_for_public_writes: true },
      { steps: [mail] },
    ],
    ['approvals that are off', { ...external, approvals_enabled: false, ...flagged }, financial],
  ])('%s: no run is held', async (_, patch, definition) => {
    await engine.settings(patch)
    expect(await started(definition)).toMatchObject({ status: 'queued', slot: 'taken' })
  })

  test('a whole run needs an owner, and as many votes, as the rules that hold or may hold one of its steps', async () => {
    const rule = holdRule({ approver: 'owner', approvals_needed: 2, expires_after_seconds: 60 })
    await engine.settings({ approval_required_from: 'low' })
    const approvalOf = async (params: object) => {
      const run = await started({ steps: [{ ...mail, params: { ...mail.params, ...params } }, note] })
      const [approval] = await engine.approvalsOf(run.id)
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
    await engine.rules(holdRule({ approver: 'owner' }))
    const run = await started({ steps: [mail] })
    const id = (await engine.approvalsOf(run.id))[0]?.id ?? ''
    await expect(engine.vote(id, 'admin')).rejects.toMatchObject({ code: 'not_an_approver' })
    await engine.vote(id, 'owner')
    expect(await enterRun(engine.context, run.id)).toEqual({ state: 'go' })
  })

  describe('a rule that is saved while the run waits', () => {
    const waiting = async (inputs = {}) => {
      await engine.settings({ approval_required_from: 'low' })
      await engine.rules()
      const steps = [{ ...mail, params: { ...mail.params, to: '{{input.to}}' } }]
      const runId = await engine.run(
        { inputs: { to: { type: 'string', default: 'a@b.test' } }, steps },
        inputs,
      )
      return { runId, id: (await engine.approvalsOf(runId))[0]?.id ?? '' }
    }
    const owner = holdRule({ approver: 'owner', approvals_needed: 1 })
    const enter = (runId: string) => enterRun(engine.context, runId)

    test.each(['before', 'after'])(
      'and needs an owner: a vote of an admin %s it is not enough',
      async (when) => {
        const { runId, id } = await waiting()
        if (when === 'after') await engine.vote(id, 'admin')
        await engine.rules(owner)
        if (when === 'before') await engine.vote(id, 'admin')
        expect(await enter(runId)).toMatchObject({ state: 'wait', waitsFor: 'approval' })
        expect((await engine.approvalsOf(runId))[0]).toMatchObject({ status: 'pending', approver: 'owner' })
        const run = await engine.runOf(runId)
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
      expect((await engine.approvalsOf(runId))[0]).toMatchObject({ approvals_needed: 2 })
      await engine.vote(id, 'owner')
      expect(await enter(runId)).toEqual({ state: 'go' })
    })

    const params = [{ param: 'to', operator: 'domain_not_in', value: ['b.test'] }]
    const outside = denyRule({ name: 'inside', params })
    test('and denies a step for certain: the run ends as denied, without a call', async () => {
      const denied = await waiting({ to: 'a@evil.test' })
      const allowed = await waiting()
      for (const { id } of [denied, allowed]) await engine.vote(id, 'admin')
      await engine.rules(outside)
      expect(await enter(allowed.runId)).toEqual({ state: 'go' })
      expect(await enter(denied.runId)).toEqual({ state: 'ended' })
      expect(await engine.runOf(denied.runId)).toMatchObject({
        status: 'denied',
        status_reason: 'step `s` would be denied by `inside`: nothing was started',
        started_at: null,
      })
      expect(await engine.effectOf(opOf(denied.runId))).toBeUndefined()
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
    await engine.rules(denyRule())
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

/* What a preview says of the approval of a whole run, beside the gates of the runs that can follow it. */

const levels: readonly RiskLevel[] = ['low', 'medium', 'high', 'critical']

const value = fc.constantFrom<Json>(
  '{{input.v}}',
  '{{input.w}}',
  '{{s0.output}}',
  '{{s1.output}}',
  'note of {{today}}',
  'payroll/{{input.v}}',
  '{{item}}',
  'payroll/x',
  'x',
)
const stepBody = fc.record({
  tool: fc.constantFrom('mail_send', 'memory_get', 'memory_set', 'file_read'),
  value,
  when: fc.option(
    fc.record({
      value: fc.constantFrom<Json>('{{input.w}}', '{{s0.output}}', '{{today}}', 'x'),
      operator: fc.constantFrom('equals' as const, 'exists' as const),
    }),
    { nil: undefined },
  ),
  forEach: fc.option(fc.constantFrom<Json>('{{input.v}}', '{{s0.output}}', ['{{input.w}}'], []), {
    nil: undefined,
    freq: 3,
  }),
  isContinued: fc.boolean(),
})

/** Steps s0..s3. A reference to a step that is not before, and to an item without a list, becomes a constant. */
const definition = fc.array(stepBody, { minLength: 2, maxLength: 4 }).map((bodies): WorkflowDefinition => {
  const steps = bodies.map(({ tool, value, when, forEach, isContinued }, index) => {
    const fits = (each: Json): Json => {
      const text = JSON.stringify(each)
      const later = /\{\{s(\d)/.exec(text)?.[1]
      return later !== undefined && Number(later) >= index ? 'x' : each
    }
    const text = String(value === '{{item}}' && forEach === undefined ? 'x' : fits(value))
    const params: Record<string, JsonObject> = {
      mail_send: { to: 'a@acme.com', subject: 's', text },
      memory_get: { key: text },
      memory_set: { key: 'k', value: text },
      file_read: { path: text },
    }
    return {
      id: `s${index}`,
      tool,
      params: params[tool] ?? {},
      ...(when === undefined ? {} : { when: { ...when, value: fits(when.value), compare: 'x' } }),
      ...(forEach === undefined ? {} : { for_each: fits(forEach) }),
      ...(isContinued ? { on_error: 'continue' } : {}),
    }
  })
  return { inputs: { v: {}, w: {} }, steps } as unknown as WorkflowDefinition
})

const filling = fc.record({
  v: fc.constantFrom<Json>('x', 'payroll/', ['x'], [], null),
  w: fc.constantFrom<Json>('x', 'y', null),
  labels: fc.record({
    v: fc.constantFrom(undefined, 'confidential', 'pii', 'internal'),
    w: fc.constantFrom(undefined, 'confidential', 'internal'),
  }),
  startsAt: fc.constantFrom(new Date('2026-01-02T03:04:05Z'), new Date('2027-01-02T03:04:05Z')),
})
type Filling = typeof filling extends fc.Arbitrary<infer T> ? T : never

interface LabelRule {
  readonly param: string
  readonly text: string
  readonly add: string
}
const labelRule: fc.Arbitrary<LabelRule> = fc.record({
  param: fc.constantFrom('path', 'key', 'value', 'text'),
  text: fc.constantFrom('payroll', '2026', 'x'),
  add: fc.constantFrom('confidential', 'pii'),
})
const heldText = fc.option(fc.constantFrom('payroll', 'x'), { nil: null })

const noMailServer = { smtpUrl: null }

function policyOf(rule: LabelRule, held: string | null) {
  return {
    connections: { installation: new Set<string>(), live: new Map() },
    compiled: compilePolicy({
      rules:
        held === null
          ? []
          : [
              {
                id: 'rule_1',
                name: 'held',
                verdict: 'require_approval',
                status: 'active',
                params: [{ param: '*', operator: 'contains', value: held }],
                approver: 'owner',
                approvals_needed: 2,
                approvers: [{ role: 'owner', count: 2 }],
              },
            ],
      labelRules: [
        {
          id: 'lrule_1',
          name: 'label',
          status: 'active',
          params: [{ param: rule.param, operator: 'contains', value: rule.text }],
          add_labels: [rule.add],
        },
      ],
      approvalsEnabled: true,
    }),
    toolAccess: compileToolAccess({ policies: [], overrides: [], fallback: 'allow' }, () => ({})),
    settings: readSettings({ approvals_enabled: true, approval_required_from: 'critical' }),
  }
}

const own = (label: string) => [{ label, from: [] as string[] }]

/** The run with this filling; for a preview, the part of it that is known. */
function wanted(body: WorkflowDefinition, { v, w, labels, startsAt }: Filling, known: Known): WantedRun {
  const isRun = known === 'all'
  const inputs: JsonObject = known === 'none' ? {} : { v, ...(known === 'one' ? {} : { w }) }
  const labelled = Object.entries(labels).flatMap(([name, label]) =>
    label !== undefined && Object.hasOwn(inputs, name) ? [[name, own(label)] as const] : [],
  )
  return {
    definition: body,
    inputs,
    areInputsComplete: isRun || known === 'all but the date',
    labels: Object.fromEntries(labelled),
    requester: { userId: 'usr_1', role: 'member', email: 'a@acme.com' },
    builtins: isRun
      ? builtinsOf({
          id: 'run_1',
          requesterEmail: 'a@acme.com',
          workflowName: 'w',
          startedAt: startsAt,
          timeZone: 'UTC',
        })
      : undefined,
  }
}
type Known = 'none' | 'one' | 'all but the date' | 'all'

const strictness = ({ waits, risk, terms }: RunGate): number[] => [
  waits === null ? 0 : 1,
  levels.indexOf(risk.level),
  roleOf(terms.seats) === 'owner' ? 1 : 0,
  terms.needed,
]

describe('the approval of a whole run in a preview', () => {
  test('every filling of what is unknown gives a gate between the least and the strictest', () => {
    const seen = { certain: 0, possible: 0, never: 0 }
    fc.assert(
      fc.property(
        definition,
        labelRule,
        heldText,
        fc.array(filling, { minLength: 15, maxLength: 15 }),
        fc.constantFrom<Known>('none', 'one', 'all but the date'),
        (body, rule, held, [first, ...others], known) => {
          if (first === undefined) return
          const policy = policyOf(rule, held)
          const { analysis, gate: most } = planRun(policy, noMailServer, wanted(body, first, known))
          const least = gateOf(policy.settings, body, analysis, 'least')
          seen[least.waits !== null ? 'certain' : most.waits !== null ? 'possible' : 'never'] += 1
          const [lower, upper] = [strictness(least).slice(0, 2), strictness(most)]
          const outside: object[] = []
          for (const each of [first, ...others]) {
            // Known inputs and their labels are the same in every run.
            const { v, w } = each.labels
            const filled: Filling = {
              ...each,
              ...(known === 'none' ? {} : { v: first.v }),
              ...(known === 'all but the date' ? { w: first.w } : {}),
              labels:
                known === 'none' ? { v, w } : { v: first.labels.v, w: known === 'one' ? w : first.labels.w },
            }
            const run = strictness(planRun(policy, noMailServer, wanted(body, filled, 'all')).gate)
            // The terms of `least` are not shown, so only the wait and the risk have a lower bound.
            const isAbove = lower.every((bound, index) => (run[index] ?? 0) >= bound)
            const isBelow = upper.every((bound, index) => (run[index] ?? 0) <= bound)
            if (!isAbove || !isBelow) outside.push({ lower, run, upper, filled })
          }
          expect(outside).toEqual([])
          expect(possibleReasons(body, analysis).length > 0).toBe(
            most.risk.reasons.some((reason) => !least.risk.reasons.includes(reason)),
          )
        },
      ),
      { numRuns: 700 },
    )
    for (const [what, count] of Object.entries(seen)) expect([what, count > 25]).toEqual([what, true])
  })

  const planned = (body: object, inputs: JsonObject | null, label: string | null, rule = noLabelRule) => {
    const policy = policyOf(rule, null)
    const { analysis, gate } = planRun(policy, noMailServer, {
      definition: body as WorkflowDefinition,
      inputs: inputs ?? {},
      areInputsComplete: inputs !== null,
      labels: label === null ? {} : { v: own(label) },
      requester: { userId: 'usr_1', role: 'member', email: 'a@acme.com' },
    })
    const least = gateOf(policy.settings, body as WorkflowDefinition, analysis, 'least')
    return [least.waits !== null, gate.waits !== null, possibleReasons(body as WorkflowDefinition, analysis)]
  }
  const noLabelRule = { param: 'path', text: 'never', add: 'pii' }
  const mail = (text: string, more: object = {}) => ({
    id: 'send',
    tool: 'mail_send',
    params: { to: 'a@acme.com', subject: 's', text },
    ...more,
  })
  const read = (path: string, more: object = {}) => ({
    id: 'read',
    tool: 'file_read',
    params: { path },
    ...more,
  })
  const payroll = { param: 'path', text: 'payroll', add: 'confidential' }
  const inputs = { v: {} }

  test('an unknown input can bring any label; a remembered value does not count', () => {
    const steps = [mail('{{input.v}}')]
    expect(planned({ inputs, steps }, null, null)).toEqual([
      false,
      true,
      [
        '`mail_send` sends confidential data out, if `input.v` brings this label',
        '`mail_send` sends pii data out, if `input.v` brings this label',
      ],
    ])
    expect(planned({ inputs, steps }, null, 'internal').slice(0, 2)).toEqual([false, true])
    expect(planned({ inputs, steps }, null, 'confidential')).toEqual([
      true,
      true,
      ['`mail_send` sends pii data out, if `input.v` brings this label'],
    ])
    expect(planned({ inputs, steps }, { v: 'x' }, null)).toEqual([false, false, []])
    expect(planned({ inputs, steps }, { v: 'x' }, 'confidential')).toEqual([true, true, []])
    const get = { id: 'get', tool: 'memory_get', params: { key: 'k' } }
    expect(planned({ steps: [get, mail('{{get.output}}')] }, {}, null)).toEqual([false, false, []])
  })

  test('a label rule that only may match makes the wait possible, and certain if the run cannot know more', () => {
    const steps = [read('{{input.v}}'), mail('{{read.output.text}}')]
    expect(planned({ inputs, steps }, null, null, payroll).slice(0, 2)).toEqual([false, true])
    const later = [read('x'), { ...read('{{read.output.text}}'), id: 'next' }, mail('{{next.output.text}}')]
    // Only the output of a step decides, and the plan of the run does not know it either.
    expect(planned({ steps: later }, {}, null, payroll)).toEqual([true, true, []])
    expect(
      planned({ steps: [read('payroll/x'), mail('{{read.output.text}}')] }, null, null, payroll),
    ).toEqual([true, true, []])
  })

  test('a step whose `when` depends on an output alone counts as in the plan of the run', () => {
    const when = { value: '{{look.output.text}}', operator: 'exists' }
    const look = { ...read('y'), id: 'look' }
    const steps = [look, read('payroll/x', { on_error: 'continue', when }), mail('{{read.output.text}}')]
    expect(planned({ inputs, steps }, null, null, payroll).slice(0, 2)).toEqual([true, true])
    const byInput = { value: '{{input.v}}', operator: 'exists' }
    const skipped = [read('payroll/x', { when: byInput }), mail('{{read.output.text}}')]
    expect(planned({ inputs, steps: skipped }, null, null, payroll).slice(0, 2)).toEqual([false, true])
  })
})
