import { h } from 'preact'
import type { ApprovalView } from '../../governance/approvals/read.ts'
import type { RunSummary } from '../parts/outcome.ts'
import { Approval, sentenceOf } from '../parts/approval.ts'
import type { RuleBody } from '../../policy/rule.ts'
import type { Form, PersonsVisit, Problem, Shown } from '../visit.ts'
import { problemPage } from './problem.ts'

/** `GET /console/approvals/{id}`. Reading it decides nothing. */
export async function approvalPage(visit: PersonsVisit, refused: Problem | null = null): Promise<Shown> {
  const id = visit.params['id'] ?? ''
  const found = await visit.api.call<ApprovalView>('GET /approvals/{id}', { params: { id } })
  if (!found.ok) return problemPage(found, visit.place)
  const approval = found.body
  if (approval.kind === 'resolution') return { redirect: `/console/runs/${approval.run_id ?? ''}` }
  const [rule, run] = await Promise.all([ruleOf(visit, approval), runOf(visit, approval)])
  return {
    status: refused?.status ?? 200,
    title: sentenceOf(approval),
    main: h(Approval, { approval, rule, run, visit, refused }),
  }
}

const decisions = new Set(['approve', 'reject', 'request_changes'])

/** `POST /console/approvals/{id}`: one vote. Then the page shows what has become of the approval. */
export async function decideApproval(visit: PersonsVisit, form: Form): Promise<Shown> {
  const id = visit.params['id'] ?? ''
  const decision = form.get('decision') ?? ''
  if (!decisions.has(decision)) {
    const message = 'No decision was sent: press one of the buttons.'
    return approvalPage(visit, { status: 422, code: 'validation_error', message })
  }
  const comment = (form.get('comment') ?? '').replaceAll('\r\n', '\n')
  if (decision === 'request_changes' && comment.trim() === '') {
    const message = 'Say in the comment what should change.'
    return approvalPage(visit, { status: 422, code: 'validation_error', message })
  }
  const voted = await visit.api.call<ApprovalView>(
    decision === 'approve' ? 'POST /approvals/{id}/approve' : 'POST /approvals/{id}/reject',
    {
      params: { id },
      body: decision === 'request_changes' ? { comment, request_changes: true } : { comment },
      ...onceOf(form),
    },
  )
  return voted.ok ? { redirect: `/console/approvals/${id}` } : approvalPage(visit, voted)
}

/** A form that is sent twice, by a second tap, acts once. */
const onceOf = (form: Form): { idempotencyKey?: string } => {
  const once = form.get('once') ?? ''
  return /^[\w-]{8,80}$/.test(once) ? { idempotencyKey: once } : {}
}

/** The rule as it is now. It may be deleted, or changed since the call was held. */
async function ruleOf({ api }: PersonsVisit, approval: ApprovalView): Promise<RuleBody | null> {
  if (approval.rule_id === null) return null
  const found = await api.call<RuleBody>('GET /organizations/{id}/rules/{rule}', {
    params: { id: approval.organization_id, rule: approval.rule_id },
  })
  return found.ok ? found.body : null
}

/** What became of the run, once the approval is no longer pending. */
async function runOf({ api }: PersonsVisit, approval: ApprovalView): Promise<RunSummary | null> {
  if (approval.run_id === null || approval.status === 'pending') return null
  const found = await api.call<RunSummary>('GET /runs/{id}', {
    params: { id: approval.run_id },
    only: ['id', 'status', 'status_reason', 'steps'],
  })
  return found.ok ? found.body : null
}
