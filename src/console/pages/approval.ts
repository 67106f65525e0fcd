import { h, type ComponentChild } from 'preact'
import type { ApprovalView } from '../../governance/approvals/read.ts'
import type { RuleBody } from '../../policy/rule.ts'
import { describeConditions } from '../../policy/explain.ts'
import { PostForm } from '../parts/layout.ts'
import { ApprovalState, Badge, Risk } from '../parts/state.ts'
import { Time } from '../parts/time.ts'
import { Values } from '../parts/values.ts'
import { LongText, Words } from '../parts/words.ts'
import type { Form, PersonsVisit, Problem, Shown } from '../visit.ts'
import { problemPage } from './problem.ts'
import { Alert } from './sign-in.ts'

/** `GET /console/approvals/{id}`. Reading it decides nothing. */
export async function approvalPage(visit: PersonsVisit, refused: Problem | null = null): Promise<Shown> {
  const id = visit.params['id'] ?? ''
  const found = await visit.api.call<ApprovalView>('GET /approvals/{id}', { params: { id } })
  if (!found.ok) return problemPage(found, visit.place)
  const approval = found.body
  return {
    status: refused?.status ?? 200,
    title: sentenceOf(approval),
    main: h(Approval, { approval, visit, refused, rule: await ruleOf(visit, approval) }),
  }
}

const decisions = new Set(['approve', 'reject', 'request_changes'])

/** `POST /console/approvals/{id}`: one vote. Then the page shows what has become of the approval. */
export async function decideApproval(visit: PersonsVisit, form: Form): Promise<Shown> {
  const id = visit.params['id'] ?? ''
  const decision = form.get('decision') ?? ''
  if (!decisions.has(decision))
    return problemPage(
      { status: 422, code: 'validation_error', message: 'Press one of the buttons.' },
      visit.place,
    )
  const comment = form.get('comment') ?? ''
  const key = decision === 'approve' ? 'POST /approvals/{id}/approve' : 'POST /approvals/{id}/reject'
  const voted = await visit.api.call<ApprovalView>(key, {
    params: { id },
    body: { comment },
    ...onceOf(form),
  })
  if (!voted.ok) return approvalPage(visit, voted)
  return { redirect: `/console/approvals/${id}` }
}

/** A form that is sent twice, by a second tap, acts once. */
const onceOf = (form: Form): { idempotencyKey?: string } => {
  const once = form.get('once') ?? ''
  return /^[\w-]{8,80}$/.test(once) ? { idempotencyKey: once } : {}
}

async function ruleOf({ api }: PersonsVisit, approval: ApprovalView): Promise<RuleBody | null> {
  if (approval.rule_id === null) return null
  const found = await api.call<RuleBody>('GET /organizations/{id}/rules/{rule}', {
    params: { id: approval.organization_id, rule: approval.rule_id },
  })
  return found.ok ? found.body : null
}

const doing: Readonly<Record<string, string>> = {
  read: 'read something',
  write: 'change something',
  egress: 'send something outside',
}

/** What would happen, in one sentence. */
function sentenceOf({ kind, tool, side_effect }: ApprovalView): string {
  if (kind === 'run') return 'Start a whole run'
  return `Let ${tool ?? 'a tool'} ${doing[side_effect ?? 'write'] ?? 'act'}`
}

function Approval({
  approval,
  visit,
  refused,
  rule,
}: {
  readonly approval: ApprovalView
  readonly visit: PersonsVisit
  readonly refused: Problem | null
  readonly rule: RuleBody | null
}): ComponentChild {
  return h('article', { class: 'approval' }, [
    h('header', { class: 'headline' }, [
      h('p', { class: 'badges' }, [
        h(ApprovalState, { status: approval.status }),
        h(Risk, { level: approval.risk.level }),
      ]),
      h('h1', null, h(Words, { text: sentenceOf(approval) })),
    ]),
    h(Alert, { message: refused?.message ?? null }),
    h(Parameters, { approval }),
    h(Why, { approval, rule }),
    h(Votes, { approval, now: visit.now }),
    approval.status === 'pending' ? h(Decide, { approval, visit }) : null,
  ])
}

/** What would be sent or changed. */
function Parameters({
  approval: { params, params_hash },
}: {
  readonly approval: ApprovalView
}): ComponentChild {
  return h('section', { 'aria-labelledby': 'parameters' }, [
    h('h2', { id: 'parameters' }, 'What would be sent or changed'),
    params === undefined
      ? h('p', { class: 'quiet' }, 'Only people who may decide see the parameters.')
      : [
          h(Values, { values: params }),
          h('details', { class: 'exact' }, [
            h('summary', null, 'Exactly as it will run (JSON)'),
            h(LongText, { text: JSON.stringify(params, null, 2) }),
            h('p', { class: 'quiet' }, ['SHA-256 of tool and parameters: ', h('code', null, params_hash)]),
          ]),
        ],
  ])
}

function Why({
  approval,
  rule,
}: {
  readonly approval: ApprovalView
  readonly rule: RuleBody | null
}): ComponentChild {
  return h('section', { 'aria-labelledby': 'why' }, [
    h('h2', { id: 'why' }, 'Why it is held'),
    approval.rule_name === null
      ? null
      : h('p', null, [
          'Rule ',
          h('strong', null, h(Words, { text: approval.rule_name })),
          rule === null
            ? null
            : [': held because ', h(Words, { text: describeConditions(rule), most: 2_000 })],
        ]),
    approval.risk.reasons.length === 0
      ? null
      : h(
          'ul',
          null,
          approval.risk.reasons.map((reason) => h('li', null, h(Words, { text: reason }))),
        ),
    h('p', null, [
      'Labels: ',
      approval.labels.length === 0
        ? 'none'
        : approval.labels.map((label) => h('span', { class: 'label' }, label)),
    ]),
  ])
}

function Votes({ approval, now }: { readonly approval: ApprovalView; readonly now: Date }): ComponentChild {
  const { votes, approvals_needed: needed } = approval
  return h('section', { 'aria-labelledby': 'votes' }, [
    h('h2', { id: 'votes' }, 'Votes'),
    h('p', null, `${votes.filter(({ decision }) => decision === 'approve').length} of ${needed} needed`),
    h(
      'ul',
      { class: 'votes' },
      votes.map((vote) =>
        h('li', null, [
          h(Badge, {
            tone: vote.decision === 'approve' ? 'good' : 'bad',
            word: vote.decision === 'approve' ? 'Approved' : 'Rejected',
          }),
          ' ',
          h(Words, { text: vote.email }),
          ' ',
          h(Time, { at: vote.at, now }),
          vote.comment === '' ? null : h(LongText, { text: vote.comment }),
        ]),
      ),
    ),
    approval.expires_at === null
      ? null
      : h('p', null, ['Expires ', h(Time, { at: approval.expires_at, now, exact: true })]),
  ])
}

function Decide({
  approval,
  visit,
}: {
  readonly approval: ApprovalView
  readonly visit: PersonsVisit
}): ComponentChild {
  return h(PostForm, { action: `/console/approvals/${approval.id}`, token: visit.token, class: 'decide' }, [
    h('input', { type: 'hidden', name: 'once', value: crypto.randomUUID() }),
    h('label', { for: 'comment' }, 'Comment'),
    h('textarea', { id: 'comment', name: 'comment', rows: 2, maxlength: 2000 }),
    h('div', { class: 'buttons' }, [
      h('button', { name: 'decision', value: 'approve', class: 'primary' }, 'Approve'),
      h('button', { name: 'decision', value: 'request_changes' }, 'Request changes'),
      h('button', { name: 'decision', value: 'reject', class: 'danger' }, 'Reject'),
    ]),
  ])
}
