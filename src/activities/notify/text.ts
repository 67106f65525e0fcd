import { accountPath } from '../../contract/pages.ts'
import type { SentClaim } from '../../governance/notifications/claims.ts'
import type { SentMessage } from '../../governance/notifications/message.ts'
import { canDecide, hasVoted, votesOf } from '../../governance/notifications/recipients.ts'
import type { Subject, SubjectState } from '../../governance/notifications/subjects.ts'
import { soughtWords } from '../../contract/sought.ts'
import { shortWords } from '../../policy/readers/look-alikes.ts'

const mostNamed = 10

/** The text depends on the reader (`person`). */
type Shown = Pick<SentMessage, 'event' | 'subjects' | 'claim' | 'person' | 'settings'>

/** The text never shows a parameter of a call. `base` is the address of the console. */
export function textOf(message: Shown, base: string): string {
  if (message.claim !== null) return codeText(message.claim, base)
  const [first] = message.subjects
  if (first === undefined) return 'This message has no content any more.'
  const lines =
    message.subjects.length === 1 ? oneThing(message, first, base) : manyItems(message, first, base)
  return lines.join('\n')
}

function oneThing(message: Shown, subject: Subject, base: string): readonly string[] {
  const isOpen = subject.state === 'waits' && isAsked(message, subject)
  return [
    `${message.event === 'approval.decided' ? endOf(subject) : headOf(message, subject)}: ${whatOf(subject)}`,
    ...about([subject]),
    ...(subject.sought === null || subject.state !== 'waits'
      ? []
      : [`No answer came. ${soughtWords(subject.sought, code)}`]),
    ...(subject.cannotBeGiven === null ? [] : [`But ${reasonText(subject.cannotBeGiven)}`]),
    ...(subject.state === 'waits' ? [expiryOf([subject])] : []),
    link(`${base}${subject.path}`, isOpen ? linkWords(subject) : 'See the details'),
  ]
}

/** This changes while the message waits: their role may be taken away, or votes may count again. */
const isAsked = ({ person, settings }: Shown, subject: Subject): boolean =>
  person !== null && canDecide(person, subject, settings)

const waitsForOthers = (message: Shown, subject: Subject): boolean =>
  message.person !== null && !isAsked(message, subject) && hasVoted(message.person, subject)

const claimEnds = {
  linked: '*Linked*: the code was typed in',
  replaced: '*This code is no longer valid*',
  expired: '*This code has expired*',
} as const

/** Names the person who asked for the code, so that the recipient does not pass the code on to a stranger. */
function codeText(claim: SentClaim, base: string): string {
  const { email, organizationName, state } = claim
  const who = `${code(email)} in ${code(organizationName)}`
  if (!claim.needsCode)
    return state === 'replaced'
      ? `*This account is not linked* to ${who}.`
      : [
          `*A test*: from now on, messages about what waits for ${who} come here.`,
          'If that is not you, tell an admin of this organization.',
        ].join('\n')
  if (state !== 'open') return `${claimEnds[state]}. It was asked for by ${who}.`
  return [
    `*Is this your Slack account?* ${who} says so.`,
    `Code: ${code(`${claim.code.slice(0, 4)} ${claim.code.slice(4)}`)}, until ${time(claim.expiresAt)}`,
    'If you asked for this code, type it in. If not, do nothing, and do not give the code to anybody.',
    link(`${base}${accountPath}`, 'Open your account'),
  ].join('\n')
}

function headOf(message: Shown, subject: Subject): string {
  if (subject.state !== 'waits') return endOf(subject)
  if (subject.kind === 'call') return '*Unknown outcome, please look*'
  if (subject.asks === 'ask') return askedHead(message, subject)
  if (subject.asks === 'revision')
    return isAsked(message, subject)
      ? '*Changes are requested, please edit*'
      : '*Changes are requested of others*'
  const { given, needed } = votesOf(subject, message.settings)
  const missing = Math.max(0, needed - given)
  if (waitsForOthers(message, subject))
    return `*You approved*, ${missing} more ${missing === 1 ? 'vote is' : 'votes are'} needed`
  const waits = message.event === 'approval.asked_again' ? 'Still waits' : 'Waits'
  return `*${waits} for ${isAsked(message, subject) ? 'your approval' : 'the approval of others'}*${needed < 2 ? '' : ` (${given} of ${needed} votes given)`}`
}

/** The title follows. */
const askedHead = (message: Shown, subject: Subject): string => {
  const again = message.event === 'approval.asked_again' ? 'still ' : ''
  const asked = isAsked(message, subject) ? `${again}asks you` : `${again}asks others`
  return `*Workflow* ${code(subject.workflowName ?? '')} *${asked}*`
}

const linkWords = ({ kind, asks }: Subject): string => {
  if (kind === 'call') return 'Open the run to say what happened'
  if (asks === 'revision') return 'Open it to edit the call'
  return asks === 'ask' ? 'Open it to answer' : 'Open it to approve or reject'
}

const ends: Readonly<Record<Exclude<SubjectState, 'waits'>, string>> = {
  approved: '*Approved*',
  rejected: '*Rejected*',
  expired: '*Expired*, nobody decided in time',
  withdrawn: '*Withdrawn*',
  superseded: '*Replaced* by a newer request',
  answered: '*Answered*',
  revised: '*Edited*, and decided anew',
  settled: '*Settled*',
  retried: '*Settled*, it is made again',
  dropped: '*The run has ended*',
}

function endOf(subject: Subject): string {
  if (subject.state === 'waits') return '*Waits again*'
  if (subject.asks === 'ask' && subject.state === 'expired') return '*Expired*, nobody answered in time'
  const words = subject.changesRequested ? '*Rejected*, changes are requested' : ends[subject.state]
  const by = subject.decidedBy.slice(0, mostNamed).map(code).join(', ')
  return by === '' ? words : `${words} by ${by}`
}

function whatOf(subject: Subject): string {
  const { asks, tool, title, stepId, itemIndex, workflowName, agentName } = subject
  if (asks === 'change') return `a change of how calls are decided: ${code(title ?? '')}`
  const workflow = `workflow ${code(workflowName ?? '')}`
  if (asks === 'ask')
    return subject.state === 'waits' ? code(title ?? '') : `${code(title ?? '')} of ${workflow}`
  if (asks === 'run') return `the whole run of ${workflow}`
  if (asks === 'agent_call') return `${code(tool ?? '')}, called by the agent ${code(agentName ?? '')}`
  // Items are counted from 1, as on the pages of the console.
  const item = itemIndex === null ? '' : `item ${itemIndex + 1} of `
  return `${code(tool ?? '')} in ${item}step ${code(stepId ?? '')} of ${workflow}`
}

function manyItems(message: Shown, first: Subject, base: string): readonly string[] {
  const { event, subjects } = message
  const waiting = subjects.filter(({ state }) => state === 'waits')
  const open = waiting.filter((subject) => isAsked(message, subject))
  const isAsk = first.asks === 'ask'
  const step = `${code((isAsk ? first.title : first.tool) ?? '')} in step ${code(first.stepId ?? '')} of workflow ${code(first.workflowName ?? '')}`
  const voted = waiting.filter((subject) => waitsForOthers(message, subject)).length
  const counts = [
    ...Object.entries(countWords).map(
      ([state, words]) => [subjects.filter((each) => each.state === state).length, words] as const,
    ),
    [open.length === 0 ? 0 : voted, 'approved by you, more votes are needed'] as const,
  ]
    .filter(([count]) => count > 0)
    .map(([count, words]) => `${count} ${words}`)
  const head =
    event === 'approval.decided'
      ? `*${subjects.length - waiting.length} items are decided*`
      : open.length > 0
        ? `*${open.length} ${open.length === 1 ? 'item waits' : 'items wait'} ${first.kind === 'call' ? 'with an unknown outcome' : isAsk ? 'for your answer' : 'for your approval'}*`
        : voted > 0
          ? `*You approved*, more votes are needed for ${voted} ${voted === 1 ? 'item' : 'items'}`
          : waiting.length > 0
            ? `*${waiting.length} ${waiting.length === 1 ? 'item waits' : 'items wait'} for the ${isAsk ? 'answers' : 'approval'} of others*`
            : `*None of ${subjects.length} items waits any more*`
  return [
    `${head}: ${step}`,
    ...(counts.length === 0 ? [] : [`So far: ${counts.join(', ')}`]),
    ...about(waiting.length > 0 && event !== 'approval.decided' ? waiting : subjects),
    ...(waiting.length > 0 && event !== 'approval.decided' ? [expiryOf(waiting)] : []),
    link(`${base}/console/runs/${first.runId}`, open.length > 0 ? 'Open them' : 'See the details'),
  ]
}

const countWords: Readonly<Partial<Record<SubjectState, string>>> = {
  approved: 'approved',
  rejected: 'rejected',
  expired: 'expired',
  withdrawn: 'withdrawn',
  superseded: 'replaced',
  answered: 'answered',
  revised: 'edited',
  settled: 'settled',
  retried: 'made again',
  dropped: 'not settled before the run ended',
}

function about(subjects: readonly Subject[]): readonly string[] {
  const [first] = subjects
  const rules = named(subjects.flatMap(({ ruleName }) => (ruleName === null ? [] : [ruleName])))
  const labels = named(subjects.flatMap((each) => each.labels))
  const risk = first?.risk
  const reasons = (risk?.reasons ?? []).slice(0, mostNamed).map(reasonText)
  const hosts = named(subjects.flatMap(({ destination }) => (destination === null ? [] : [destination])))
  return [
    ...(hosts === '' ? [] : [`Goes to: ${hosts}`]),
    ...(rules === '' ? [] : [`Rule: ${rules}`]),
    ...(labels === '' ? [] : [`Labels: ${labels}`]),
    ...(risk === undefined || first?.asks === 'ask'
      ? []
      : [`Risk: ${risk.level}${reasons.length === 0 ? '' : ` (${reasons.join('; ')})`}`]),
    `Asked by: ${first === undefined ? '' : code(first.requesterEmail)}`,
  ]
}

/** The service writes these reasons, but a reason with a backtick names a tool. */
const reasonText = (reason: string): string => (reason.includes('`') ? code(reason) : escape(reason))

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

/* In code, Slack reads no formatting, emoji or mentions. So no name can look like text of Countersign. */

const longestName = 120

/** Cuts the name after 120 visible characters. */
export const code = (name: string): string =>
  `\`${escape(shortWords(name, longestName).replaceAll('`', 'ˋ'))}\``

/** Prevents links and mentions. Formatting such as `*` is not escaped. */
export const escape = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')

/** Slack shows the time in each person's own time zone. */
export function time(at: Date): string {
  const plain = `${at.toISOString().slice(0, 16).replace('T', ' ')} UTC`
  return `<!date^${Math.floor(at.getTime() / 1_000)}^{date_short_pretty} {time}|${plain}>`
}

/** `url` must be an address of Countersign itself. */
export const link = (url: string, words: string): string => `<${encodeURI(decodeURI(url))}|${escape(words)}>`
