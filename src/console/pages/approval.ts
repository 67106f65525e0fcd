import { h } from 'preact'
import type { ApprovalView } from '../../governance/approvals/read.ts'
import { summaryFields, type RunSummary } from '../parts/outcome.ts'
import { Approval, sentenceOf } from '../parts/approval.ts'
import { onceOf } from '../parts/ask.ts'
import type { RuleBody } from '../../policy/rule.ts'
import type { Form, PersonsVisit, Problem, Shown } from '../visit.ts'
import { coveredBy, isTooLong } from './parameters.ts'
import { problemPage } from './problem.ts'

/** `GET /console/approvals/{id}`. Opening this page decides nothing. */
export async function approvalPage(
  visit: PersonsVisit,
  refused: Problem | null = null,
  comment = '',
): Promise<Shown> {
  const id = visit.params['id'] ?? ''
  const found = await visit.api.call<ApprovalView>('GET /approvals/{id}', { params: { id } })
  if (!found.ok) return problemPage(found, visit.place)
  const approval = found.body
  if (approval.kind === 'resolution') return { redirect: `/console/runs/${approval.run_id ?? ''}` }
  const [rule, run, call] = await Promise.all([
    ruleOf(visit, approval),
    runOf(visit, approval),
    callOf(visit, approval),
  ])
  return {
    status: refused?.status ?? 200,
    title: sentenceOf(approval),
    main: h(Approval, {
      approval,
      rule,
      run,
      call,
      visit,
      refused,
      comment,
      isCut: isTooLong(coveredBy(visit, approval, run)),
    }),
  }
}

const decisions = new Set(['approve', 'reject', 'request_changes'])

/** `POST /console/approvals/{id}`: casts one vote. Then the page shows the new state of the approval. */
export async function decideApproval(visit: PersonsVisit, form: Form): Promise<Shown> {
  const id = visit.params['id'] ?? ''
  const decision = form.get('decision') ?? ''
  const comment = (form.get('comment') ?? '').replaceAll('\r\n', '\n')
  const refuse = (message: string): Promise<Shown> =>
    approvalPage(visit, { status: 422, code: 'validation_error', message }, comment)
  if (!decisions.has(decision)) return refuse('No decision was sent: press one of the buttons.')
  if (decision === 'request_changes' && comment.trim() === '')
    return refuse('Say in the comment what should change.')
  if (decision === 'approve' && form.get('read') !== id && (await isCutFor(visit, id)))
    return refuse('Nothing was decided: download all of it, read it, and say so with the check mark.')
  const voted = await visit.api.call<ApprovalView>(
    decision === 'approve' ? 'POST /approvals/{id}/approve' : 'POST /approvals/{id}/reject',
    {
      params: { id },
      body: decision === 'request_changes' ? { comment, request_changes: true } : { comment },
      ...onceOf(form),
    },
  )
  return voted.ok ? { redirect: `/console/approvals/${id}` } : approvalPage(visit, inWords(voted), comment)
}

/** A refused vote. If somebody else has decided, it is said first what this means for the person. */
function inWords(problem: Problem): Problem {
  if (problem.code !== 'approval_already_decided') return problem
  const { message } = problem
  const whole = `${message.charAt(0).toUpperCase()}${message.slice(1)}`
  return { ...problem, message: `Your vote came too late and does not count. ${whole}` }
}

/** Whether the page cannot show all that an approval covers. */
async function isCutFor(visit: PersonsVisit, id: string): Promise<boolean> {
  const found = await visit.api.call<ApprovalView>('GET /approvals/{id}', { params: { id } })
  return found.ok && isTooLong(coveredBy(visit, found.body, await runOf(visit, found.body)))
}

/** The rule as it is now. The rule may have been deleted or changed since the call was held. */
async function ruleOf({ api }: PersonsVisit, approval: ApprovalView): Promise<RuleBody | null> {
  if (approval.rule_id === null) return null
  const found = await api.call<RuleBody>('GET /organizations/{id}/rules/{rule}', {
    params: { id: approval.organization_id, rule: approval.rule_id },
  })
  return found.ok ? found.body : null
}

/** The run of a decided approval in its present state, or the run that waits as a whole; else null. */
async function runOf({ api }: PersonsVisit, approval: ApprovalView): Promise<RunSummary | null> {
  const { kind, run_id: id, status } = approval
  if (id === null || kind === 'agent_call' || (kind === 'step' && status === 'pending')) return null
  const found = await api.call<RunSummary>('GET /runs/{id}', {
    params: { id },
    only: summaryFields,
  })
  return found.ok ? found.body : null
}

interface CallShown {
  readonly status: string
  readonly approval_id: string | null
}

/** The state of the call that used this approval. An agent's calls are not known to the service. */
async function callOf({ api }: PersonsVisit, approval: ApprovalView): Promise<string | null> {
  const { id, kind, run_id: run, step_id: step, item_index: item, used_at: usedAt } = approval
  if (kind !== 'step' || run === null || step === null || usedAt === null) return null
  const found = await api.call<{ readonly data: readonly CallShown[] }>('GET /runs/{id}/steps/{step}/calls', {
    params: { id: run, step },
    query: { limit: '1', ...(item === null ? {} : { cursor: before(item) }) },
  })
  const call = found.ok ? found.body.data[0] : undefined
  return call?.approval_id === id ? call.status : null
}

/** The cursor of the page of calls that begins with this item. */
const before = (item: number): string => Buffer.from(String(item - 1)).toString('base64url')
