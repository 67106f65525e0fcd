import type { AnswerOf } from '../../api/routes/index.ts'
import { inboxPath, notificationsPath } from '../../contract/pages.ts'
import { plainTitle } from '../parts/state.tsx'
import { Approval, commentMissing } from '../parts/approval.tsx'
import { editsIn } from '../parts/edit.tsx'
import { Cause } from '../parts/events.tsx'
import { onceOf } from '../parts/form.tsx'
import { addressOf } from '../parts/list.tsx'
import { readFields } from '../parts/inputs.tsx'
import type { RunSummary } from '../parts/outcome.tsx'
import { OnPhone } from '../parts/on-phone.tsx'
import { nothingSent, Question } from '../parts/question.tsx'
import { capital, Words } from '../parts/words.tsx'
import type { Form, PersonsVisit, Problem, Result, Shown, ApprovalView, RuleView } from '../visit.ts'
import { coveredBy, isTooLong, readRun } from './parameters.ts'
import { problemPage } from './plain.tsx'

/** `GET /console/approvals/{id}`. Opening this page decides nothing. */
export async function approvalPage(
  visit: PersonsVisit,
  refused: Problem | null = null,
  comment = '',
  form: Form | null = null,
): Promise<Shown> {
  const found = await readApproval(visit)
  if (!found.ok) return problemPage(found, visit.place)
  const approval = found.body
  if (approval.kind === 'resolution') return { redirect: `/console/runs/${approval.run_id ?? ''}` }
  const [rule, run, call, unreached, isDisconnected] = await Promise.all([
    ruleOf(visit, approval),
    runOf(visit, approval),
    callOf(visit, approval),
    unreachedBy(visit, approval),
    lostConnection(visit, approval),
  ])
  // Nobody may approve a run without seeing its steps and inputs.
  if (run?.ok === false && approval.status === 'pending') return problemPage(run, visit.place)
  const known = run?.ok === true ? run.body : null
  if (approval.kind === 'ask')
    return {
      status: refused?.status ?? 200,
      title: plainTitle(approval),
      main: (
        <>
          <Question approval={approval} run={known} visit={visit} filled={{ form, problem: refused }} />
          <Unreached messages={unreached} id={approval.id} />
          <Phone approval={approval} visit={visit} />
        </>
      ),
    }
  return {
    status: refused?.status ?? 200,
    title: plainTitle(approval),
    main: (
      <>
        <Approval
          approval={approval}
          rule={rule}
          run={known}
          call={call}
          isDisconnected={isDisconnected}
          visit={visit}
          refused={refused}
          comment={comment}
          form={form}
          isCut={isTooLong(coveredBy(visit, approval, known))}
        />
        <Unreached messages={unreached} id={approval.id} />
        <Phone approval={approval} visit={visit} />
      </>
    ),
  }
}

/** Whether the organization's connection, which the call would use, is there no more. */
async function lostConnection({ api }: PersonsVisit, approval: ApprovalView): Promise<boolean> {
  const { status, kind, tool, organization_id, preview } = approval
  const used = preview?.fields.find(({ name }) => name === 'connection')
  if (status !== 'pending' || (kind !== 'step' && kind !== 'edit') || tool === null) return false
  if (used?.value.startsWith('of the organization') !== true) return false
  const found = await api.call('GET /tools/{name}', { params: { name: tool }, query: { organization_id } })
  return found.ok && !found.body.connected && found.body.destination === null
}

type Message = AnswerOf<'GET /organizations/{id}/notifications'>['data'][number]

/** Messages to people that failed, of an approval that still waits. Only admins and owners may see them. */
async function unreachedBy({ api }: PersonsVisit, approval: ApprovalView): Promise<readonly Message[]> {
  if (approval.status !== 'pending') return []
  // Asked for one by one: messages to webhooks could fill a list of all.
  const failed = await Promise.all(
    (['slack', 'mail'] as const).map((channel) =>
      api.call('GET /organizations/{id}/notifications', {
        params: { id: approval.organization_id },
        query: { approval_id: approval.id, state: 'failed', channel, limit: '10' },
      }),
    ),
  )
  return failed.flatMap((each) => (each.ok ? each.body.data : []))
}

const Unreached = ({ messages, id }: { messages: readonly Message[]; id: string }) =>
  messages.length === 0 ? null : (
    <section class="card" aria-labelledby="unreached">
      <h2 id="unreached">Who was not reached</h2>
      <ul class="rows">
        {messages.map(({ recipient, recipient_email: email, channel, last_error: error }) => (
          <li class="row">
            <Words text={email ?? recipient} most={254} /> {channel === 'mail' ? 'by mail' : 'in Slack'}
            <p class="quiet small">
              <Cause error={error ?? 'failed'} />
            </p>
          </li>
        ))}
      </ul>
      <p>
        <a href={addressOf(notificationsPath, { approval_id: id })}>Everybody who was told</a>
      </p>
    </section>
  )

/** For who may still decide. */
const Phone = ({
  approval: { id, status, detail },
  visit,
}: {
  approval: ApprovalView
  visit: PersonsVisit
}) =>
  status === 'pending' && (detail?.vote_refused ?? null) === null ? (
    <OnPhone base={visit.base} path={`${inboxPath}/${id}`} title="Decide on a phone" />
  ) : null

const readApproval = ({ api, params }: PersonsVisit): Promise<Result<ApprovalView>> =>
  api.call('GET /approvals/{id}', { params: { id: params['id'] ?? '' } })

const decisions = new Set(['approve', 'reject', 'request_changes', 'withdraw', 'revise'])

/** `POST /console/approvals/{id}`: casts one vote. */
export async function decideApproval(visit: PersonsVisit, form: Form): Promise<Shown> {
  const id = visit.params['id'] ?? ''
  if (form.has('answer') || form.get('decision') === 'answer') return answerQuestion(visit, form)
  const decision = form.get('decision') ?? ''
  const comment = (form.get('comment') ?? '').replaceAll('\r\n', '\n')
  const refuse = (message: string, code = 'validation_error'): Promise<Shown> =>
    approvalPage(visit, { status: 422, code, message }, comment)
  if (!decisions.has(decision)) return refuse('No decision was sent: press one of the buttons.')
  if (decision === 'request_changes' && comment.trim() === '')
    return refuse('Say in the comment what should change.', commentMissing)
  if (decision === 'revise') return reviseCall(visit, form, comment)
  const hidden = decision === 'approve' ? await hiddenFrom(visit, form.get('read') === id) : null
  if (hidden !== null) return refuse(hidden)
  if (decision === 'withdraw') {
    const ended = await withdraw(visit, form)
    return ended.ok ? { redirect: `/console/approvals/${id}` } : approvalPage(visit, ended)
  }
  const voted = await visit.api.call(
    decision === 'approve' ? 'POST /approvals/{id}/approve' : 'POST /approvals/{id}/reject',
    {
      params: { id },
      body: decision === 'request_changes' ? { comment, request_changes: true } : { comment },
      ...onceOf(form),
    },
  )
  return voted.ok ? { redirect: `/console/approvals/${id}` } : approvalPage(visit, inWords(voted), comment)
}

/** A change, or a call of the person's agent. */
async function withdraw(visit: PersonsVisit, form: Form): Promise<Result<unknown>> {
  const found = await readApproval(visit)
  if (!found.ok) return found
  const key =
    found.body.kind === 'agent_call'
      ? 'POST /authorize/approvals/{id}/cancel'
      : 'POST /approvals/{id}/withdraw'
  return visit.api.call(key, { params: { id: found.body.id }, ...onceOf(form) })
}

/** Only what differs from the approval is sent. */
async function reviseCall(visit: PersonsVisit, form: Form, comment: string): Promise<Shown> {
  const found = await readApproval(visit)
  if (!found.ok) return problemPage(found, visit.place)
  const { id } = found.body
  const revised = await visit.api.call('POST /approvals/{id}/revise', {
    params: { id },
    body: { params: editsIn(found.body, form), comment },
    ...onceOf(form),
  })
  return revised.ok ? { redirect: `/console/approvals/${id}` } : approvalPage(visit, revised, '', form)
}

/** A button has the choice, or the form its fields. */
async function answerQuestion(visit: PersonsVisit, form: Form): Promise<Shown> {
  const found = await readApproval(visit)
  if (!found.ok) return problemPage(found, visit.place)
  const read = readFields(found.body.ask?.form ?? {}, form, {
    at: 'answer',
    refused: nothingSent,
  })
  if ('problem' in read) return approvalPage(visit, read.problem, '', form)
  const { id } = found.body
  const answered = await visit.api.call('POST /approvals/{id}/answer', {
    params: { id },
    body: { answer: form.get('answer') ?? read.values },
    ...onceOf(form),
  })
  return answered.ok ? { redirect: `/console/approvals/${id}` } : approvalPage(visit, answered, '', form)
}

function inWords(problem: Problem): Problem {
  if (problem.code !== 'approval_already_decided') return problem
  return { ...problem, message: `Your vote came too late and does not count. ${capital(problem.message)}` }
}

/** Returns a message unless the person has seen all that it covers, on the page or in the file (`hasRead`). */
async function hiddenFrom(visit: PersonsVisit, hasRead: boolean): Promise<string | null> {
  const found = await readApproval(visit)
  if (!found.ok) return 'Nothing was decided, because the approval could not be read. Load the page again.'
  const run = found.body.kind === 'run' ? await readRun(visit, found.body) : null
  if (run?.ok === false) return 'Nothing was decided, because the run could not be read. Load the page again.'
  return !hasRead && isTooLong(coveredBy(visit, found.body, run?.body ?? null))
    ? 'Nothing was decided: download all of it, read it, and say so with the check mark.'
    : null
}

/** In its present state: it may have been deleted or changed since the call was held. */
async function ruleOf({ api }: PersonsVisit, approval: ApprovalView): Promise<RuleView | null> {
  if (approval.rule_id === null) return null
  const found = await api.call('GET /organizations/{id}/rules/{rule}', {
    params: { id: approval.organization_id, rule: approval.rule_id },
  })
  return found.ok ? found.body : null
}

/** The whole run that the approval covers, or the run of a decided call. */
function runOf(visit: PersonsVisit, approval: ApprovalView): Promise<Result<RunSummary>> | null {
  const { kind, run_id: id, status } = approval
  const isShown = id !== null && kind !== 'agent_call' && (kind === 'run' || status !== 'pending')
  return isShown ? readRun(visit, approval) : null
}

/** The state of the call that used this approval. null for an agent's call, which the service does not make. */
async function callOf({ api }: PersonsVisit, approval: ApprovalView): Promise<string | null> {
  const { id, kind, run_id: run, step_id: step, item_index: item, used_at: usedAt } = approval
  if ((kind !== 'step' && kind !== 'edit') || run === null || step === null || usedAt === null) return null
  const found = await api.call('GET /runs/{id}/steps/{step}/calls', {
    params: { id: run, step },
    query: { limit: '1', ...(item === null ? {} : { cursor: before(item) }) },
  })
  const call = found.ok ? found.body.data[0] : undefined
  return call?.approval_id === id ? call.status : null
}

const before = (item: number): string => Buffer.from(String(item - 1)).toString('base64url')
