import { accountPath } from '../../contract/pages.ts'
import type { VoteSettings } from '../approvals/requirement.ts'
import { MailText, mailText, type MailSubject, type ServiceMail } from '../service-mail.ts'
import { votesOf } from './recipients.ts'
import type { Subject } from './subjects.ts'

/**
 * Makes a mail about an approval or call that waits for a person, without its recipient. The mail never contains a
 * parameter of a call. `count` is the number of items that the mail is about. If it is more than 1, the link leads to
 * the run of the items.
 */
export function mailAbout(
  subject: Subject,
  { count, isReminder, base, settings }: MailOptions,
): Omit<ServiceMail, 'to'> {
  const lines = [
    ...named('Tool', subject.tool),
    ...named('Goes to', subject.destination),
    ...named('Step', subject.stepId),
    ...named('Workflow', subject.workflowName),
    ...named('Agent', subject.agentName),
    ...named('Rule', subject.ruleName),
    ...(subject.asks === 'run' ? [whyRun] : []),
    ...named('Labels', subject.labels.slice(0, 20).join(', ') || null),
    mailText`Risk: ${MailText.sentence(subject.risk.level)}`,
    ...subject.risk.reasons.slice(0, mostReasons).map((reason) => mailText`- ${MailText.sentence(reason)}`),
    mailText`Asked by: ${MailText.address(subject.requesterEmail)}`,
    ...votesLine(subject, settings),
    ...(subject.expiresAt === null ? [] : [mailText`Expires: ${MailText.time(subject.expiresAt)}`]),
    ...moreItems(count),
  ]
  return {
    subject: subjects[subject.kind][isReminder ? 'reminder' : 'first'],
    text: mailText`${firstLine(subject, isReminder)}

${lines}

${MailText.link(base, count > 1 ? `/console/runs/${subject.runId}` : subject.path)}

Sign in to see what would be sent. You can change or turn off these mails on your account’s page:
${MailText.link(base, accountPath)}
`,
  }
}

interface MailOptions {
  readonly count: number
  readonly isReminder: boolean
  /** The address of the console. */
  readonly base: string
  readonly settings: VoteSettings
}

const subjects: Readonly<Record<Subject['kind'], Readonly<Record<'first' | 'reminder', MailSubject>>>> = {
  approval: {
    first: 'Something waits for your decision',
    reminder: 'Reminder: Something waits for your decision',
  },
  call: { first: 'A call’s outcome is unknown', reminder: 'Reminder: A call’s outcome is unknown' },
}

const mostReasons = 10
const whyRun = mailText`Why: the settings of the organization hold a run like this before it starts`

function firstLine({ kind, asks }: Subject, isReminder: boolean): MailText {
  if (kind === 'call')
    return mailText`Nobody can know whether this call took effect. Please say what became of it.`
  const what = asks === 'run' ? mailText`A whole run` : mailText`This`
  return isReminder
    ? mailText`${what} still waits for your decision, and expires soon.`
    : mailText`${what} waits for your decision.`
}

function votesLine(subject: Subject, settings: VoteSettings): MailText[] {
  const { given, needed } = votesOf(subject, settings)
  return needed < 2 ? [] : [mailText`Votes: ${given} of ${needed} given`]
}

function moreItems(count: number): MailText[] {
  if (count < 2) return []
  return [
    count === 2
      ? mailText`1 more of this step waits too.`
      : mailText`${count - 1} more of this step wait too.`,
  ]
}

const named = (name: NameOfLine, value: string | null): MailText[] =>
  value === null ? [] : [mailText`${MailText.sentence(name)}: ${value}`]

type NameOfLine = 'Tool' | 'Goes to' | 'Step' | 'Workflow' | 'Agent' | 'Rule' | 'Labels'
