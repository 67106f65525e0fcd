import { followRun } from '../../src/demo/client.ts'
import { voteUntilDecided } from '../../src/demo/prepare.ts'
import { mustHold } from '../../src/demo/show.ts'
import { caughtMail } from '../../src/demo/story.ts'
import { requester, saveWorkflow, type Run, type Session } from './session.ts'

/* What a person does when something was wrong: make a run again, and edit a held call. */

interface Receipt {
  readonly reused: readonly { readonly step_id: string; readonly run_id: string }[]
  readonly decisions: readonly {
    readonly step_id: string
    readonly tool: string
    readonly verdict: string
    readonly outcome: string | null
    readonly explanation: string
    readonly approval: {
      readonly revision: { readonly by: string; readonly comment: string } | null
    } | null
  }[]
}

const right = 'reports/q3-summary.md'

export async function correction(session: Session): Promise<void> {
  const { tell, changes, tag } = session
  const workflow = await saveWorkflow(session, 'report-announcement')
  tell.step('Correction: a run fails at its third step, and is made again with the right input')
  await runAgain(session, workflow, `readers-${tag}@larkspur.example`)
  tell.step('Changes: an approver asks for another text, and its author edits the held mail')
  const to = `partners-${tag}@larkspur.example`
  await changes.save('rules', {
    name: `sample ${tag}: mails to partners need a second person`,
    verdict: 'require_approval',
    tools: ['mail_send'],
    params: [{ param: 'to', operator: 'equals', value: to }],
  })
  await editHeld(session, workflow, to)
}

async function runAgain(session: Session, workflow: string, to: string): Promise<void> {
  const { client, tell } = session
  const first = await follow(session, await start(session, workflow, 'reports/q33-summary.md', to))
  tell.line(first.status_reason)
  mustHold(
    statesOf(first) === 'completed completed failed',
    'the mail has gone out, then the third step failed',
  )
  const body = { from: ['announce'], inputs: { details: right } }
  const { id: again } = await client.get<Run>(requester, 'POST', `/runs/${first.id}/rerun`, body)
  const asked: string[] = []
  const second = await follow(session, again, async (kind, id) => {
    mustHold(kind === 'repeat', `only the mail that had gone out is asked about (it is ${kind})`)
    asked.push(id)
    await client.get(requester, 'POST', `/approvals/${id}/reject`, { comment: 'it has arrived' })
  })
  mustHold(asked.length === 1, 'its author is asked once about the mail that had gone out')
  mustHold(statesOf(second) === 'completed rejected completed', 'the run goes on without it')
  mustHold(mailsTo(session, to) === 1, 'the mail was sent once')
  const [before, after] = [await receiptOf(session, first), await receiptOf(session, second)]
  mustHold(before.decisions[1]?.outcome === 'completed', 'the first receipt has the mail')
  mustHold(
    after.reused[0]?.run_id === first.id,
    'the second receipt says what was taken over, and from where',
  )
  const held = after.decisions.find(({ step_id }) => step_id === 'announce')
  mustHold(
    held?.explanation.includes(first.id) === true,
    'the second receipt says which run has sent the mail',
  )
  tell.line(`summary: taken over. announce: ${held.explanation}`)
}

async function editHeld(session: Session, workflow: string, to: string): Promise<void> {
  const { client, tell } = session
  const text = 'The summary is there. The details follow on Monday.'
  let isAsked = false
  const run = await follow(session, await start(session, workflow, right, to), async (kind, id) => {
    const ask = { request_changes: true, comment: 'say when the details come' }
    const edit = { params: { text }, comment: 'added' }
    if (kind === 'revision') await client.get(requester, 'POST', `/approvals/${id}/revise`, edit)
    else if (isAsked || kind !== 'step') await voteUntilDecided(client, id)
    else await client.get('approver', 'POST', `/approvals/${id}/reject`, ask)
    isAsked ||= kind === 'step'
  })
  mustHold(statesOf(run) === 'completed completed completed', 'the edited mail was approved and sent')
  mustHold(mailsTo(session, to) === 1, 'the mail was sent once')
  const revisions = (await receiptOf(session, run)).decisions.flatMap(
    ({ approval }) => approval?.revision ?? [],
  )
  const [revision] = revisions
  mustHold(revision !== undefined, 'the receipt says who edited it')
  tell.line(`edited by ${revision.by}: ${revision.comment}`)
}

async function start({ client }: Session, workflow: string, details: string, to: string): Promise<string> {
  const path = `/workflows/${workflow}/execute?wait=0`
  const body = { inputs: { details, to } }
  return (await client.get<{ execution_id: string }>(requester, 'POST', path, body)).execution_id
}

/** `decide` gets what the run waits for. Without it, and for a whole run, approvers approve. */
async function follow(
  { client, changes, tell }: Session,
  id: string,
  decide?: (kind: string, approvalId: string) => Promise<void>,
): Promise<Run> {
  changes.onUndo(() => client.ask(requester, 'POST', `/runs/${id}/cancel`, {}))
  return followRun(
    () => client.get<Run>(requester, 'GET', `/runs/${id}`),
    async ({ kind, approval_id: approvalId }, { status_reason }) => {
      mustHold(approvalId !== null, `an approval can decide it (${status_reason})`)
      tell.line(status_reason)
      if (decide === undefined || kind === 'run') await voteUntilDecided(client, approvalId)
      else await decide(kind, approvalId)
    },
  )
}

const statesOf = ({ steps }: Run): string => steps.map(({ status }) => status).join(' ')

const mailsTo = ({ stack }: Session, address: string): number =>
  caughtMail(stack.mailDir).filter(({ to }) => to === address).length

async function receiptOf({ client, tell }: Session, { id }: Run): Promise<Receipt> {
  const receipt = await client.get<Receipt>(requester, 'GET', `/runs/${id}/authorization`)
  for (const { step_id, tool, verdict, outcome } of receipt.decisions)
    tell.line(`${step_id}: ${tool} ${verdict}, ${outcome ?? 'no outcome'}`)
  return receipt
}
