import { soughtWords } from '../../contract/sought.ts'
import { sql } from 'kysely'
import { nextDueMail, settleMail, takeDueMails, type DueMail } from '../../db/queries/notifications/mails.ts'
import type { Db } from '../../db/schema/index.ts'
import { readGovernance } from '../audit/policy-cache.ts'
import { atCommitPoint } from '../audit/commit-points.ts'
import { publicBase, type Config } from '../../shared/config.ts'
import type { SparseLog } from '../../shared/log.ts'
import { type ServiceMail, MailText, mailText, waitingSubject } from '../service-mail.ts'
import { mailPause } from '../lanes/lanes.ts'
import type { Sender } from '../lanes/runner.ts'
import { isTold, votesOf } from './recipients.ts'
import { readReaders } from './plan-mail.ts'
import { readApprovalSubjects, readCallSubjects, type Subject } from './subjects.ts'
import { accountPath } from '../../contract/pages.ts'
import type { VoteSettings } from '../approvals/requirement.ts'

/** Awaits `beforeDot` before SMTP's final dot, after which it may arrive. Resolves only if certainly accepted. */
export type SendReminder = (mail: ServiceMail, beforeDot: () => Promise<void>) => Promise<unknown>

interface Sending {
  readonly config: Config
  readonly db: Db
  readonly sparseLog: SparseLog
}

/** Limits of an organization: mails at once, and in an hour. */
const mostAtOnce = 5
export const mostOfHour = 300
/** Between two turns of an organization that has more to send. */
const restSeconds = 2
/** A further attempt only follows one that certainly did not send the mail. */
export const mostAttempts = 5

export const mailSender = (context: Sending, send: SendReminder): Sender => ({
  kind: 'mail',
  trouble: 'the mails of an organization stand still',
  async work({ organizationId }) {
    await sendMails(context, send, organizationId as string)
    const [next] = (await nextDueMail(organizationId as string).execute(context.db)).rows
    const dueIn = next?.due_in ?? null
    return { dueIn: dueIn === null ? null : Math.max(restSeconds, dueIn) }
  },
})

/**
 * Sends the due mails of an organization. Removes one if none of its subjects waits, if the recipient can decide about
 * none of them, or if mails are turned off.
 *
 * `intent_at` is committed before the final dot of SMTP. After it, a mail is sent again only if the server has
 * certainly refused it, so each arrives at most once. If the server's answer is lost, it becomes `failed` with
 * `mail_outcome_unknown`.
 */
export async function sendMails(context: Sending, send: SendReminder, organizationId: string): Promise<void> {
  // The process of an earlier turn died between the intent and the answer of the server. Nobody knows whether they have
  // arrived, so they are not sent again.
  await sql`
    update notifications set state = 'failed', last_error = 'mail_outcome_unknown', shown = wanted
    where organization_id = ${organizationId} and channel = 'mail' and state = 'pending' and id = message_id
      and intent_at is not null`.execute(context.db)
  const given = { organizationId, most: mostAtOnce, mostOfHour }
  const { rows } = await takeDueMails(given).execute(context.db)
  await Promise.all(
    rows.map((mail) =>
      sendOne(context, mail, send).catch((error: unknown) =>
        context.sparseLog.warn(
          'mails',
          { err: error as Error, organization_id: organizationId, notification_id: mail.id },
          'a mail about an approval could not be sent',
        ),
      ),
    ),
  )
}

async function sendOne({ config, db }: Sending, mail: DueMail, send: SendReminder): Promise<void> {
  const waiting = await waitingSubjects(db, mail)
  const readers = await readReaders(db, mail.organization_id, [mail.recipient])
  const reader = readers.find(({ userId }) => userId === mail.recipient)
  const present = await readGovernance(db, mail.organization_id)
  const asked = waiting.filter((subject) => reader !== undefined && isTold(reader, subject, present))
  const [first] = asked
  if (first === undefined || reader === undefined || !present.mail_approval_notifications) {
    await db
      .deleteFrom('notifications')
      .where('message_id', '=', mail.id)
      .where('sent_at', 'is', null)
      .execute()
    return
  }
  const later = first.createdAt.getTime() + reader.delaySeconds * 1_000
  if (!(mail.event in reminding) && later > Date.now()) return postpone(db, mail, later)
  const text = mailAbout(first, {
    count: asked.length,
    reminds: reminding[mail.event] ?? null,
    base: publicBase(config),
    settings: present,
    timeZone: reader.timeZone,
  })
  let mayLeave = true
  try {
    await send({ ...text, to: reader.email }, async () => {
      mayLeave = await markIntent(db, mail)
      if (!mayLeave) throw new Error('another worker sends this mail')
    })
  } catch (error) {
    // The lane was lost, and another worker records the outcome.
    if (!mayLeave) return
    await settleMail({ ...mail, pause: mailPause, ...(await afterFailure(db, mail, error)) }).execute(db)
    throw error
  }
  await atCommitPoint('mail.sent', () =>
    settleMail({ ...mail, pause: 0, state: 'sent', error: null }).execute(db),
  )
}

/** The mail may leave from now on (commit point `mail.intent`). false if another worker sends it. */
function markIntent(db: Db, { id, attempts }: DueMail): Promise<boolean> {
  return atCommitPoint('mail.intent', async () => {
    const { numAffectedRows = 0n } = await sql`
      update notifications set intent_at = clock_timestamp()
      where id = ${id} and state = 'pending' and intent_at is null and attempts = ${attempts}`.execute(db)
    return numAffectedRows === 1n
  })
}

/** Those that still wait. */
async function waitingSubjects(db: Db, { id, organization_id }: DueMail): Promise<readonly Subject[]> {
  const rows = await db
    .selectFrom('notifications')
    .select(['kind', 'subject', 'round'])
    .where('message_id', '=', id)
    .orderBy('id')
    .limit(1_000)
    .execute()
  const approvals = rows.filter(({ kind }) => kind === 'approval').map(({ subject }) => subject)
  const calls = rows
    .filter(({ kind }) => kind === 'call')
    .map(({ subject, round }) => ({ id: subject, round }))
  const subjects = [
    ...(await readApprovalSubjects(db, organization_id, approvals)),
    ...(await readCallSubjects(db, organization_id, calls)),
  ]
  return subjects.filter(({ state }) => state === 'waits')
}

async function postpone(db: Db, { id }: DueMail, at: number): Promise<void> {
  await db
    .updateTable('notifications')
    .set({ next_attempt_at: new Date(at), attempts: sql<number>`attempts - 1` })
    .where('id', '=', id)
    .execute()
}

type Settled = { readonly state: 'sent' | 'failed' | 'pending'; readonly error: string | null }

async function afterFailure(db: Db, { id, attempts }: DueMail, error: unknown): Promise<Settled> {
  const row = await db.selectFrom('notifications').select('intent_at').where('id', '=', id).executeTakeFirst()
  const { code, retryable } = error as { code?: unknown; retryable?: unknown }
  const isRefused = typeof code === 'string' && code.startsWith('mail_')
  // After the intent, the mail may have arrived unless the server has refused it.
  if (row?.intent_at != null && !isRefused) return { state: 'failed', error: 'mail_outcome_unknown' }
  const name = isRefused ? code : 'mail_not_sent'
  return { state: attempts >= mostAttempts || retryable === false ? 'failed' : 'pending', error: name }
}

/** Mail programs would make a link of the mark. */
const onPage = () => 'the page of the run has its text'

/** Never has a parameter of a call. Above one item, its link leads to their run. */
export function mailAbout(
  subject: Subject,
  { count, reminds, base, settings, timeZone }: MailOptions,
): Omit<ServiceMail, 'to'> {
  const isAsk = subject.asks === 'ask'
  const lines = [
    ...named('Change', isAsk ? null : subject.title),
    ...named('Tool', subject.tool),
    ...named('Goes to', subject.destination),
    ...(subject.sought === null ? [] : [mailText`${MailText.sentence(soughtWords(subject.sought, onPage))}`]),
    ...named('Step', subject.stepId),
    ...named('Workflow', isAsk ? null : subject.workflowName),
    ...named('Agent', subject.agentName),
    ...named('Rule', subject.ruleName),
    ...(subject.asks === 'run' ? [whyRun] : []),
    ...(subject.asks === 'repeat' ? [whyRepeat] : []),
    ...(subject.asks === 'revision' ? [whyRevision] : []),
    ...(subject.asks === 'edit' ? [whyEdit] : []),
    ...named('Labels', subject.labels.slice(0, 20).join(', ') || null),
    ...(isAsk ? [] : [mailText`Risk: ${MailText.sentence(subject.risk.level)}`]),
    ...subject.risk.reasons.slice(0, 10).map((reason) => mailText`- ${MailText.sentence(reason)}`),
    mailText`Asked by: ${MailText.address(subject.requesterEmail)}`,
    ...votesLine(subject, settings),
    ...(subject.cannotBeGiven === null ? [] : [mailText`But ${MailText.sentence(subject.cannotBeGiven)}.`]),
    ...(subject.expiresAt === null ? [] : [mailText`Expires: ${MailText.time(subject.expiresAt, timeZone)}`]),
    ...moreItems(count),
  ]
  return {
    subject: waitingSubject({
      waits: subject.kind === 'call' ? 'outcome' : 'decision',
      what: whatWaits[subject.asks],
      tool: subject.tool,
      count,
      isReminder: reminds !== null,
    }),
    text: mailText`${firstLine(subject, reminds)}

${lines}

${MailText.link(base, count > 1 ? `/console/runs/${subject.runId}` : subject.path)}

Sign in to ${isAsk ? mailText`answer` : mailText`see what would be sent`}. You can change or turn off these mails on your account’s page:
${MailText.link(base, accountPath)}
`,
  }
}

const whatWaits = {
  run: 'run',
  step: 'call',
  resolution: 'call',
  agent_call: 'agent',
  change: 'change',
  ask: 'question',
  repeat: 'call',
  revision: 'changes',
  edit: 'call',
} as const satisfies Record<Subject['asks'], string>

interface MailOptions {
  readonly count: number
  /** It tells that the approval expires soon, or only that it waits. null for a first mail. */
  readonly reminds: 'expiry' | 'waiting' | null
  /** The address of the console. */
  readonly base: string
  readonly settings: VoteSettings
  /** The reader’s; null for UTC. */
  readonly timeZone: string | null
}

const whyRun = mailText`Why: the settings of the organization hold a run like this before it starts`

const whyRepeat = mailText`Why: an earlier run has made this call already, with the same parameters`

const whyRevision = mailText`Why: an approver asks for changes. Open it, read the comment, and edit the call`

const whyEdit = mailText`Why: an approver has edited the call, and another person must confirm it`

const reminding: Readonly<Record<string, MailOptions['reminds']>> = {
  'approval.reminder': 'expiry',
  'approval.asked_again': 'waiting',
}

function firstLine({ kind, asks, title, workflowName }: Subject, reminds: MailOptions['reminds']): MailText {
  if (kind === 'call')
    return mailText`Nobody can know whether this call took effect. Please say what became of it.`
  if (asks === 'ask') {
    const asked = mailText`The workflow ${workflowName ?? ''} ${reminds === null ? mailText`asks` : mailText`still asks`} you: ${title ?? ''}`
    return reminds === 'expiry' ? mailText`${asked}\nThe question expires soon.` : asked
  }
  const what =
    asks === 'run' ? mailText`A whole run` : asks === 'change' ? mailText`A change` : mailText`This`
  if (reminds === null) return mailText`${what} waits for your decision.`
  return reminds === 'expiry'
    ? mailText`${what} still waits for your decision, and expires soon.`
    : mailText`${what} still waits for your decision.`
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

type NameOfLine =
  'Question' | 'Change' | 'Tool' | 'Goes to' | 'Step' | 'Workflow' | 'Agent' | 'Rule' | 'Labels'
