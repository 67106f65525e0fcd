import { inOneLine } from '../../policy/text.ts'
import type { Subject } from './subjects.ts'

/** A plain text mail without its recipient. */
export interface ServiceText {
  readonly subject: string
  readonly text: string
}

/**
 * Makes a mail about an approval or call that waits for a person: its tool, requester, reason, expiry and link. The
 * mail never contains a parameter. Each name is shortened to one line, so it cannot look like a line of the service or
 * a header.
 */
export function mailAbout(subject: Subject, count: number, isReminder: boolean, base: string): ServiceText {
  const isUnknown = subject.kind === 'call'
  const what = isUnknown ? 'A call’s outcome is unknown' : 'Something waits for your decision'
  const lines = [
    isUnknown
      ? 'Nobody can know whether this call took effect. Please say what became of it.'
      : isReminder
        ? 'This still waits for your decision, and expires soon.'
        : 'This waits for your decision.',
    '',
    ...named('Tool', subject.tool),
    ...named('Step', subject.stepId),
    ...named('Workflow', subject.workflowName),
    ...named('Agent', subject.agentName),
    ...named('Rule', subject.ruleName),
    ...named('Labels', subject.labels.slice(0, 20).join(', ') || null),
    ...named('Risk', subject.risk.level),
    ...named('Asked by', subject.requesterEmail),
    ...named('Expires', subject.expiresAt?.toISOString() ?? null),
    ...(count > 1 ? [`${count - 1} more of this step wait too.`] : []),
    '',
    `${base}${subject.path}`,
    '',
    'Sign in to see what would be sent. You can change or turn off these mails with PUT /me/notifications.',
    '',
  ]
  const tool = subject.tool === null ? '' : `: ${short(subject.tool, 80)}`
  return { subject: `${isReminder ? 'Reminder: ' : ''}${what}${tool}`, text: lines.join('\n') }
}

const named = (name: string, value: string | null): string[] =>
  value === null ? [] : [`${name}: ${short(value, 200)}`]

function short(text: string, most: number): string {
  const line = inOneLine(text)
  return line.length <= most ? line : `${line.slice(0, most - 1).toWellFormed()}…`
}
