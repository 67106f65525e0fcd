import { accountPath } from '../../contract/pages.ts'
import type { SentClaim } from '../../governance/notifications/claims.ts'
import type { SentMessage } from '../../governance/notifications/message.ts'
import type { Subject, SubjectState } from '../../governance/notifications/subjects.ts'
import { code, escape, link, time } from './mrkdwn.ts'

/** The most names of one list that a message shows. */
const mostNamed = 10

/**
 * Returns the present content of a message as Slack's text. The text never holds a parameter. `base` is the address of
 * the console.
 */
export function textOf(message: Pick<SentMessage, 'event' | 'subjects' | 'claim'>, base: string): string {
  if (message.claim !== null) return codeText(message.claim, base)
  const [first] = message.subjects
  if (first === undefined) return 'This message has no content any more.'
  const lines =
    message.subjects.length === 1 ? oneThing(message.event, first, base) : manyItems(message, first, base)
  return lines.join('\n')
}

function oneThing(event: string, subject: Subject, base: string): readonly string[] {
  return [
    `${event === 'approval.decided' ? endOf(subject) : headOf(subject)}: ${whatOf(subject)}`,
    ...about([subject]),
    ...(subject.state === 'waits' ? [expiryOf([subject])] : []),
    link(`${base}${subject.path}`, subject.state === 'waits' ? linkWords(subject) : 'See the details'),
  ]
}

const claimEnds = {
  linked: '*Linked*: the code was typed in',
  replaced: '*This code counts no more*',
  expired: '*This code has expired*',
} as const

/** Names the person who asked for the code, so that the recipient does not pass the code on to a stranger. */
function codeText(claim: SentClaim, base: string): string {
  const { email, organizationName, state } = claim
  const who = `${code(email)} in ${code(organizationName)}`
  if (state !== 'open') return `${claimEnds[state]}. It was asked for by ${who}.`
  return [
    `*Is this your Slack account?* ${who} says so.`,
    `Code: ${code(`${claim.code.slice(0, 4)} ${claim.code.slice(4)}`)}, until ${time(claim.expiresAt)}`,
    'If that is you, type it in. If not, do nothing, and give it to nobody.',
    link(`${base}${accountPath}`, 'Open your account'),
  ].join('\n')
}

const headOf = (subject: Subject): string =>
  subject.state !== 'waits'
    ? endOf(subject)
    : subject.kind === 'call'
      ? '*Unknown outcome, please look*'
      : '*Waits for your approval*'

const linkWords = ({ kind }: Subject): string =>
  kind === 'call' ? 'Open the run to say what happened' : 'Open it to approve or reject'

const ends: Readonly<Record<Exclude<SubjectState, 'waits'>, string>> = {
  approved: '*Approved*',
  rejected: '*Rejected*',
  expired: '*Expired*, nobody decided in time',
  withdrawn: '*Withdrawn*',
  superseded: '*Replaced* by a newer request',
  settled: '*Settled*',
  retried: '*Settled*, it is made again',
  dropped: '*The run has ended*',
}

function endOf(subject: Subject): string {
  if (subject.state === 'waits') return '*Waits again*'
  const words = subject.changesRequested ? '*Rejected*, changes are requested' : ends[subject.state]
  const by = subject.decidedBy.slice(0, mostNamed).map(code).join(', ')
  return by === '' ? words : `${words} by ${by}`
}

function whatOf(subject: Subject): string {
  const { asks, tool, stepId, itemIndex, workflowName, agentName } = subject
  const workflow = `workflow ${code(workflowName ?? '')}`
  if (asks === 'run') return `the whole run of ${workflow}`
  if (asks === 'agent_call') return `${code(tool ?? '')}, called by the agent ${code(agentName ?? '')}`
  const item = itemIndex === null ? '' : `item ${itemIndex} of `
  return `${code(tool ?? '')} in ${item}step ${code(stepId ?? '')} of ${workflow}`
}

/** Several items of one step. */
function manyItems(
  { event, subjects }: Pick<SentMessage, 'event' | 'subjects'>,
  first: Subject,
  base: string,
): readonly string[] {
  const waiting = subjects.filter(({ state }) => state === 'waits')
  const step = `${code(first.tool ?? '')} in step ${code(first.stepId ?? '')} of workflow ${code(first.workflowName ?? '')}`
  const counts = Object.entries(countWords)
    .map(([state, words]) => [subjects.filter((each) => each.state === state).length, words] as const)
    .filter(([count]) => count > 0)
    .map(([count, words]) => `${count} ${words}`)
  const head =
    event === 'approval.decided'
      ? `*${subjects.length - waiting.length} items are decided*`
      : waiting.length === 0
        ? `*None of ${subjects.length} items waits any more*`
        : `*${waiting.length} ${waiting.length === 1 ? 'item waits' : 'items wait'} ${first.kind === 'call' ? 'with an unknown outcome' : 'for your approval'}*`
  return [
    `${head}: ${step}`,
    ...(counts.length === 0 ? [] : [`So far: ${counts.join(', ')}`]),
    ...about(waiting.length > 0 && event !== 'approval.decided' ? waiting : subjects),
    ...(waiting.length > 0 && event !== 'approval.decided' ? [expiryOf(waiting)] : []),
    link(`${base}/console/runs/${first.runId}`, waiting.length > 0 ? 'Open them' : 'See the details'),
  ]
}

const countWords: Readonly<Partial<Record<SubjectState, string>>> = {
  approved: 'approved',
  rejected: 'rejected',
  expired: 'expired',
  withdrawn: 'withdrawn',
  superseded: 'replaced',
  settled: 'settled',
  retried: 'made again',
  dropped: 'not settled before the run ended',
}

/** Says why the subjects wait, and who asked for them. */
function about(subjects: readonly Subject[]): readonly string[] {
  const [first] = subjects
  const rules = named(subjects.flatMap(({ ruleName }) => (ruleName === null ? [] : [ruleName])))
  const labels = named(subjects.flatMap((each) => each.labels))
  const risk = first?.risk
  const reasons = (risk?.reasons ?? []).slice(0, mostNamed).map(withoutCode)
  return [
    ...(rules === '' ? [] : [`Rule: ${rules}`]),
    ...(labels === '' ? [] : [`Labels: ${labels}`]),
    ...(risk === undefined
      ? []
      : [`Risk: ${risk.level}${reasons.length === 0 ? '' : ` (${reasons.join('; ')})`}`]),
    `Asked by: ${first === undefined ? '' : code(first.requesterEmail)}`,
  ]
}

/** Countersign itself writes the reasons. They name tools in backticks, which are removed here. */
const withoutCode = (reason: string): string => escape(reason.replaceAll(/[`\n\r]/g, '').slice(0, 300))

function named(names: readonly string[]): string {
  const all = [...new Set(names)]
  const more = all.length > mostNamed ? ` and ${all.length - mostNamed} more` : ''
  return `${all.slice(0, mostNamed).map(code).join(', ')}${more}`
}

function expiryOf(subjects: readonly Subject[]): string {
  const times = subjects.flatMap(({ expiresAt }) => (expiresAt === null ? [] : [expiresAt.getTime()]))
  if (times.length === 0) return 'Expires: never'
  return `Expires: ${subjects.length > 1 ? 'the first ' : ''}${time(new Date(Math.min(...times)))}`
}
