import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInCrash, showFound } from './crash.ts'
import { followRun, until, type Client, type Person } from './client.ts'
import type { DemoStack } from './stack.ts'
import {
  decidedByPerson,
  limited,
  documentPath,
  insideAddress,
  outsideAddress,
  prepare,
  voteUntilDecided,
  type Prepared,
} from './prepare.ts'
import { mustHold, type Stage, type Teller } from './show.ts'

/** Every accepted message: the server writes it to disk before it answers the sender. */
export function caughtMail(dir: string): { file: string; to: string; subject: string; messageId: string }[] {
  if (!existsSync(dir)) return []
  return readdirSync(dir)
    .filter((name) => name.endsWith('.eml'))
    .map((name) => {
      const file = join(dir, name)
      const text = readFileSync(file, 'utf8')
      const headers = text.slice(0, text.indexOf('\r\n\r\n')).replaceAll(/\r\n[ \t]+/g, ' ')
      const header = (field: string) => new RegExp(`^${field}: *(.*)$`, 'im').exec(headers)?.[1]?.trim() ?? ''
      return {
        file,
        to: header('x-envelope-to'),
        subject: header('subject'),
        messageId: header('message-id'),
      }
    })
}

interface Run {
  readonly id: string
  readonly status: string
  readonly status_reason: string
  readonly waiting_for: readonly {
    approval_id: string
    step_id: string | null
    approvers: readonly { group?: string }[]
  }[]
  readonly steps: readonly { id: string; status: string; attempts: number; labels: string[] }[]
  readonly outputs: Readonly<Record<string, { message_id?: string }>>
}
interface Approval {
  readonly id: string
  readonly tool: string
  readonly rule_name: string
  readonly labels: readonly string[]
  readonly params: Readonly<Record<string, unknown>>
  readonly console_url: string
}
interface Receipt {
  readonly decisions: readonly {
    step_id: string
    tool: string
    verdict: string
    rule_name: string | null
    outcome: string | null
    approval: { id: string; votes: { user_id: string }[] } | null
  }[]
}
interface Preview {
  readonly steps: readonly {
    readonly role_policy: { readonly certainty: string; readonly explanation: string } | null
    readonly rules: readonly { name: string; verdict: string; certainty: string; because: string }[]
  }[]
}
interface Verified {
  readonly valid: boolean
  readonly entries: number
  readonly head: { readonly hash: string }
}

/** Starts the runs. The rule needs the vote of a second person. */
const requester: Person = 'admin'

/** Throws at the first check that fails. With `byPerson`, waits until somebody has decided in a browser. */
export async function tellStory(stage: Stage, byPerson: boolean): Promise<void> {
  const { stack, client, tell } = stage
  tell.step('The organization saves its rules and a workflow')
  const prepared = await prepare(stage, requester)
  for (const line of prepared.lines) tell.line(line)
  await previewed(client, prepared, tell)
  await limitedMail(stack, client, prepared, tell)
  await refusedPlan(stack, client, prepared, tell)
  const held = await heldRun(client, prepared, tell)
  mustHold(mailOf(stack, prepared).length === 0, 'no mail left before the approval')
  await selfApproval(client, held.approval, tell)
  await secondPerson(stage, held.approval, byPerson)
  const run = await resumedRun(client, held.run.id, tell)
  mail(stack, prepared, run, tell)
  await receipt(client, run, held.approval, tell)
  await together(stage, prepared)
  await crash(stage, prepared)
  await audit(client, stack, tell)
}

async function previewed(client: Client, { workflowId, denyName }: Prepared, tell: Teller): Promise<void> {
  tell.step('A preview shows what would be decided, before anything runs')
  const path = `/workflows/${workflowId}/authorization-preview`
  const open = await client.get<Preview>('viewer', 'POST', path, {})
  const rule = open.steps[1]?.rules.find(({ name }) => name === denyName)
  mustHold(rule?.certainty === 'possible', 'without inputs the preview shows the denial as possible')
  tell.line(`send: ${rule.verdict} is possible: ${rule.because}`)
  const known = await client.get<Preview>('viewer', 'POST', path, { inputs: { to: insideAddress } })
  const denied = known.steps[1]?.rules.some(({ name }) => name === denyName)
  mustHold(denied === false, 'with an address inside the rule does not match')
}

async function limitedMail(
  stack: DemoStack,
  client: Client,
  { limited: { workflowId, subject } }: Prepared,
  tell: Teller,
): Promise<void> {
  tell.step('A limit on a tool holds, whatever the rules allow')
  const path = `/workflows/${workflowId}`
  const policyOf = async (body: object) =>
    (await client.get<Preview>(limited, 'POST', `${path}/authorization-preview`, body)).steps[0]?.role_policy
  mustHold(
    (await policyOf({}))?.certainty === 'possible',
    'without inputs the preview shows the limit as possible',
  )
  mustHold((await policyOf({ inputs: { to: insideAddress } })) === null, 'the limit allows an address inside')
  const inputs = { to: outsideAddress }
  const { status, error } = await client.ask(limited, 'POST', `${path}/execute`, { inputs })
  mustHold(
    status === 403 && error?.code === 'run_denied',
    `mail of the ${limited} to ${outsideAddress} is refused`,
  )
  const why = error.details[0]?.message ?? ''
  mustHold(why.includes('`allowed_domains`'), 'the refusal names the limit')
  mustHold(
    caughtMail(stack.mailDir).every((each) => each.subject !== subject),
    'no such mail left',
  )
  tell.line(`to ${outsideAddress}: 403 ${error.code}, ${why}`)
}

async function refusedPlan(
  stack: DemoStack,
  client: Client,
  { workflowId, denyName }: Prepared,
  tell: Teller,
): Promise<void> {
  tell.step('A run that a rule would certainly deny is refused before anything happens')
  const inputs = { to: outsideAddress }
  const { status, error } = await client.ask(requester, 'POST', `/workflows/${workflowId}/execute`, {
    inputs,
  })
  mustHold(status === 403 && error?.code === 'run_denied', `mail to ${outsideAddress} is refused with 403`)
  // If the stack already ran before the demo, another rule of its organization may deny the run first.
  mustHold(stack.isOthers || error.message.includes(denyName), 'the refusal names the rule')
  tell.line(`to ${outsideAddress}: 403 ${error.code}, ${error.message}`)
}

async function heldRun(
  client: Client,
  { workflowId }: Prepared,
  tell: Teller,
): Promise<{ run: Run; approval: Approval }> {
  tell.step('A run reads the document and is held where it wants to mail it')
  const path = `/workflows/${workflowId}/execute?wait=0`
  const inputs = { to: insideAddress }
  const { execution_id: id } = await client.get<{ execution_id: string }>(requester, 'POST', path, { inputs })
  const read = () => client.get<Run>(requester, 'GET', `/runs/${id}`)
  const settled = ['paused', 'awaiting_approval', 'completed', 'failed', 'denied']
  let run = await until('the run to wait', read, ({ status }) => settled.includes(status))
  // If the stack already ran before the demo, its organization may also require approval of whole runs.
  if (run.status === 'awaiting_approval') {
    await voteUntilDecided(client, approvalOf(run))
    run = await until(
      'the run to be held',
      read,
      ({ status }) => status !== 'awaiting_approval' && settled.includes(status),
    )
  }
  mustHold(run.status === 'paused', `the run is paused (it is ${run.status}: ${run.status_reason})`)
  mustHold(run.steps.find((step) => step.id === 'read')?.status === 'completed', 'the document was read')
  const approval = await client.get<Approval>('approver', 'GET', `/approvals/${approvalOf(run)}`)
  tell.line(`${run.id} is ${run.status}: ${run.status_reason}`)
  tell.line(
    `the approver sees ${approval.tool} to ${String(approval.params['to'])}, labels ${approval.labels.join(', ')}`,
  )
  return { run, approval }
}

const approvalOf = (run: Run): string => run.waiting_for[0]?.approval_id ?? ''

async function selfApproval(client: Client, approval: Approval, tell: Teller): Promise<void> {
  tell.step('The requester cannot approve it')
  const { status, error } = await client.ask(requester, 'POST', `/approvals/${approval.id}/approve`, {})
  mustHold(status === 403 && error?.code === 'self_approval', 'approving your own request is refused')
  tell.line(`403 ${error.code}, ${error.message}`)
}

async function secondPerson(
  { stack, client, tell }: Stage,
  approval: Approval,
  byPerson: boolean,
): Promise<void> {
  tell.step('A second person approves exactly this call')
  tell.line(`its page: ${approval.console_url}`)
  if (!byPerson) {
    const people = await voteUntilDecided(client, approval.id)
    tell.line(`approved by ${people.join(' and ')}`)
    return
  }
  const { email, password } = stack.bootstrap.users.approver
  tell.line(`open it in a browser, and sign in as ${email}`)
  // A stack that the demo started ends with the demo, so its password may be printed.
  tell.line(stack.isOthers ? `the password is in ${stack.bootstrapFile}` : `the password is ${password}`)
  tell.line('approve or reject on the page; the demo waits an hour at most')
  const people = await decidedByPerson(client, approval.id)
  tell.line(`approved by ${people.join(' and ')}`)
}

async function resumedRun(client: Client, id: string, tell: Teller): Promise<Run> {
  tell.step('The run resumes from there')
  const read = () => client.get<Run>(requester, 'GET', `/runs/${id}`)
  const run = await until('the run to end', read, ({ status }) => status !== 'paused' && status !== 'running')
  mustHold(run.status === 'completed', `the run completed (it is ${run.status}: ${run.status_reason})`)
  for (const step of run.steps) {
    mustHold(step.status === 'completed', `step ${step.id} completed`)
    mustHold(step.attempts === 1, `the body of step ${step.id} ran once`)
    tell.line(`${step.id}: ${step.status}, ran once`)
  }
  return run
}

const mailOf = (stack: DemoStack, { subject }: Prepared) =>
  caughtMail(stack.mailDir).filter((each) => each.subject === subject)

function mail(stack: DemoStack, prepared: Prepared, run: Run, tell: Teller): void {
  tell.step('The mail server has received the mail, once')
  const [first, ...more] = mailOf(stack, prepared)
  mustHold(first !== undefined, `the mail is in \`${stack.mailDir}\` (with SMTP_URL set it went elsewhere)`)
  mustHold(more.length === 0, 'it was delivered once')
  mustHold(first.to === insideAddress, 'it went to the approved address')
  mustHold(first.messageId === run.outputs['send']?.message_id, 'it is the mail that the run reports')
  tell.line(`${first.messageId} to ${first.to}`)
  if (stack.isOthers) tell.line(first.file)
}

async function receipt(client: Client, run: Run, approval: Approval, tell: Teller): Promise<void> {
  tell.step('Every call has left a receipt')
  const { decisions } = await client.get<Receipt>(requester, 'GET', `/runs/${run.id}/authorization`)
  for (const each of decisions) {
    const by = each.rule_name === null ? 'no rule matched' : `rule ${each.rule_name}`
    tell.line(
      `${each.step_id}: ${each.tool} ${each.verdict}, ${by}${each.outcome === null ? '' : `, ${each.outcome}`}`,
    )
  }
  const done = (step: string) =>
    decisions.find((each) => each.step_id === step && each.outcome === 'completed')
  mustHold(done('read')?.verdict === 'allow', 'the receipt shows the read as allowed')
  const sent = done('send')
  mustHold(sent?.approval?.id === approval.id, `the receipt shows ${documentPath} sent under this approval`)
  mustHold(sent.approval.votes.length > 0, 'the receipt names who approved')
}

/** A rule asks for a member of each of two groups; neither of them needs to be an admin. */
async function together({ client, tell }: Stage, { tag, changes }: Prepared): Promise<void> {
  tell.step('Finance and legal approve a call together')
  const asked = { [`demo-${tag}-finance`]: 'viewer', [`demo-${tag}-legal`]: 'approver' } as const
  const subject = `Contract (${tag})`
  await changes.save('rules', {
    name: `demo ${tag}: contracts leave with finance and legal`,
    verdict: 'require_approval',
    tools: ['mail_send'],
    params: [{ param: 'subject', operator: 'equals', value: subject }],
    approvers: await changes.groups(asked),
  })
  const params = { to: insideAddress, subject, text: 'See the contract.' }
  const { id: workflow } = await client.get<{ id: string }>(requester, 'POST', '/workflows', {
    name: `demo ${tag}: send a contract`,
    definition: { steps: [{ id: 'send', tool: 'mail_send', params }] },
  })
  const path = `/workflows/${workflow}/execute?wait=0`
  const { execution_id: id } = await client.get<{ execution_id: string }>(requester, 'POST', path, {})
  changes.onUndo(() => client.ask(requester, 'POST', `/runs/${id}/cancel`, {}))
  const read = () => client.get<Run>(requester, 'GET', `/runs/${id}`)
  const run = await followRun(read, async ({ approval_id: approval, approvers }) => {
    // If the stack ran before, its organization may also require approval of whole runs.
    const byGroups = approvers.some(({ group }) => group !== undefined)
    if (!byGroups) await voteUntilDecided(client, approval)
    for (const [group, person] of Object.entries(byGroups ? asked : {})) {
      const { status } = await client.get<{ status: string }>(person, 'POST', `/approvals/${approval}/approve`, {}) // prettier-ignore
      tell.line(`the ${person} approves as a member of ${group}: ${status}`)
    }
  })
  mustHold(run.status === 'completed', `both groups let the mail leave (${run.status_reason})`)
}

async function crash(stage: Stage, { changes }: Prepared): Promise<void> {
  const { tell } = stage
  tell.step('An issue is created, and the answer is lost')
  const crashed = await createInCrash(stage, changes)
  if (crashed === null) return
  tell.step('The issue is looked for, found, and not created again')
  await showFound(stage, crashed)
}

async function audit(client: Client, stack: DemoStack, tell: Teller): Promise<void> {
  tell.step('The audit log proves itself')
  const path = `/organizations/${stack.bootstrap.organization_id}/audit-events/verify`
  const verified = await client.get<Verified>(requester, 'GET', path)
  mustHold(verified.valid && verified.entries > 0, 'the hash chain verifies')
  tell.line(`${verified.entries} entries recomputed, no mismatch, head ${verified.head.hash.slice(0, 16)}…`)
}
