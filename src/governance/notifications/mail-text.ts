import { accountPath } from '../../contract/pages.ts'
import { inOneLine } from '../../policy/text.ts'
import type { VoteSettings } from '../approvals/requirement.ts'
import { votesOf } from './recipients.ts'
import type { Subject } from './subjects.ts'

/** The subject and the text of a mail, without its recipient. */
export interface ServiceText {
  readonly subject: string
  readonly text: string
}

/**
 * Makes a mail about an approval or call that waits for a person. The mail never contains a parameter of a call.
 * `count` is the number of items that the mail is about. If it is more than 1, the link leads to the run of the items.
 * Each name is shortened to one line. So a name cannot look like another line of the mail or like a mail header.
 */
export function mailAbout(subject: Subject, { count, isReminder, base, settings }: MailOptions): ServiceText {
  const isUnknown = subject.kind === 'call'
  const what = isUnknown ? 'A call’s outcome is unknown' : 'Something waits for your decision'
  const lines = [
    firstLine(subject, isReminder),
    '',
    ...named('Tool', subject.tool),
    ...named('Goes to', subject.destination),
    ...named('Step', subject.stepId),
    ...named('Workflow', subject.workflowName),
    ...named('Agent', subject.agentName),
    ...named('Rule', subject.ruleName),
    ...named('Why', subject.asks === 'run' ? whyRun : null),
    ...named('Labels', subject.labels.slice(0, 20).join(', ') || null),
    ...named('Risk', subject.risk.level),
    ...subject.risk.reasons.slice(0, mostReasons).map((reason) => `- ${short(reason, 200)}`),
    ...named('Asked by', subject.requesterEmail),
    ...named('Votes', votesLine(subject, settings)),
    ...named('Expires', subject.expiresAt?.toISOString() ?? null),
    ...(count > 1
      ? [count === 2 ? '1 more of this step waits too.' : `${count - 1} more of this step wait too.`]
      : []),
    '',
    `${base}${count > 1 ? `/console/runs/${subject.runId}` : subject.path}`,
    '',
    'Sign in to see what would be sent. You can change or turn off these mails on your account’s page:',
    `${base}${accountPath}`,
    '',
  ]
  const tool = subject.tool === null ? '' : `: ${short(subject.tool, 80)}`
  return { subject: `${isReminder ? 'Reminder: ' : ''}${what}${tool}`, text: lines.join('\n') }
}

interface MailOptions {
  readonly count: number
  readonly isReminder: boolean
  /** The address of the console. */
  readonly base: string
  readonly settings: VoteSettings
}

const mostReasons = 10
const whyRun = 'the settings of the organization hold a run like this before it starts'

function firstLine({ kind, asks }: Subject, isReminder: boolean): string {
  if (kind === 'call') return 'Nobody can know whether this call took effect. Please say what became of it.'
  const what = asks === 'run' ? 'A whole run' : 'This'
  return isReminder
    ? `${what} still waits for your decision, and expires soon.`
    : `${what} waits for your decision.`
}

function votesLine(subject: Subject, settings: VoteSettings): string | null {
  const { given, needed } = votesOf(subject, settings)
  return needed < 2 ? null : `${given} of ${needed} given`
}

const named = (name: string, value: string | null): string[] =>
  value === null ? [] : [`${name}: ${short(value, 200)}`]

function short(text: string, most: number): string {
  const line = inOneLine(text)
  return line.length <= most ? line : `${line.slice(0, most - 1).toWellFormed()}…`
}
