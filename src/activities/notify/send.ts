import type { Context } from '../../governance/context.ts'
import { pauseAfter } from '../../governance/lanes/lanes.ts'
import { testEvent } from '../../governance/notifications/claims.ts'
import { linkTested } from '../../governance/people/slack-accounts.ts'
import { isOfUse, readSentMessage, type SentMessage } from '../../governance/notifications/message.ts'
import {
  type Turn,
  hashOfText,
  markDone,
  markFailed,
  markIntent,
  markRetry,
  markSent,
  markUpdated,
  removeUnsent,
} from '../../governance/notifications/slack-records.ts'
import { publicBase } from '../../shared/config.ts'
import { millisecondsSince, presentMoment, type Moment } from '../../shared/moment.ts'
import { OutcomeUnknown, ToolError } from '../../tools/kit/executor.ts'
import { connectionOfCall } from '../service-connection.ts'
import { slackAt, type Slack } from '../../tools/slack/client.ts'
import { conversationWith, done, findIn, madeMessage } from '../../tools/slack/run.ts'
import type { Pace } from './pace.ts'
import { textOf } from './text.ts'

export interface ChatTiming {
  readonly retrySeconds: number
  /** Multiplies the limits in pace.ts. */
  readonly speed: number
  /** The message must leave within this time after the save of the intent to send it has begun. */
  readonly leaveMilliseconds: number
  /** After this time other organizations get their turn. */
  readonly turnMilliseconds: number
}

export interface Sending {
  readonly context: Context
  readonly turn: Turn
  readonly pace: Pace
  readonly timing: Pick<ChatTiming, 'retrySeconds' | 'leaveMilliseconds'>
  /** The service asks to send nothing for this many seconds. */
  pause(seconds: number): void
}

/** Failed attempts to send a message before it is given up. */
export const mostAttempts = 2
/** These attempts cannot post the message a second time, so there may be many (about five hours). */
export const mostFailures = 12
const longestWaitSeconds = 7_200
/** Used if Slack limits the requests and does not say how long to wait. */
const waitSeconds = 30

/** If Slack's answer was lost, the message is found by the mark in its metadata. */
const markOf = (id: string): string => `countersign:notification:${id}`
const metadataOf = (id: string) => ({
  event_type: 'countersign_notification',
  event_payload: { id: markOf(id) },
})
/** With these options Slack makes no links, names or mentions out of the text, and fetches nothing. */
const plainText = { parse: 'none', link_names: false } as const

/** A failure is saved with the message. */
export async function handleMessage(sending: Sending, id: string): Promise<void> {
  const message = await readSentMessage(sending.context.db, id)
  if (message === null) return
  const mayHaveLeft = message.sentSecondsAgo !== null
  const isSent = message.place?.['ts'] !== undefined
  const progress: Progress = { doing: isSent ? 'edit' : mayHaveLeft ? 'look' : 'send', begun: false }
  try {
    if (isSent) await edit(sending, message)
    else if (mayHaveLeft) await look(sending, message)
    else await send(sending, message, progress)
  } catch (error) {
    await noteFailure(sending, message, progress, error)
  }
}

interface Progress {
  readonly doing: 'send' | 'look' | 'edit'
  /** The intent to send was saved: this attempt is counted, and the message may leave. */
  begun: boolean
}

async function send(sending: Sending, message: SentMessage, progress: Progress): Promise<void> {
  const { context, pace, timing, turn } = sending
  // It was given up earlier, and is due again only because its subject has changed.
  if (message.state === 'failed') return markDone(context.db, sending.turn, message)
  const account = accountOf(message)
  if (account === null || !isOfUse(message)) {
    await removeUnsent(context.db, message)
    return count(sending, 'dropped')
  }
  let intent: Moment | null = null
  const slack = await slackFor(sending, () => {
    if (intent === null || millisecondsSince(intent) >= timing.leaveMilliseconds)
      throw new Error('the request was held up for too long, and did not leave')
  })
  const conversation = await pace.conversation(account, () => conversationWith(slack, account))
  const text = textOf(message, publicBase(context.config))
  await pace.take('post')
  await pace.take('conversation', conversation)
  const place = { account, conversation }
  // If this process stands still now, another may send the message. So it must leave soon.
  intent = presentMoment()
  // False if the message has changed or another process sends now. It is then read again later.
  progress.begun = await markIntent(context.db, turn, message, place)
  if (!progress.begun) return
  const made = await slack.write(madeMessage, (client) =>
    client.chat.postMessage({
      channel: conversation,
      text,
      metadata: metadataOf(message.id),
      unfurl_links: false,
      unfurl_media: false,
      ...plainText,
    }),
  )
  await arrived(sending, message)
  await markSent(
    context.db,
    sending.turn,
    message,
    { ...place, conversation: made.channel, ts: made.ts },
    text,
  )
  count(sending, 'sent')
}

/** Before the message is marked as sent: after a crash between the two, it is looked for, and this is done again. */
async function arrived({ context, turn }: Sending, { id, event }: SentMessage): Promise<void> {
  if (event === testEvent) await linkTested(context, turn.organizationId, id)
}

/** The code of a claim goes to the claimed account. Null if there is no account or the member has left. */
const accountOf = ({ person, claim }: SentMessage): string | null =>
  person === null ? null : (claim?.account ?? person.slackAccount)

/** The found message may show an earlier text, so it is saved as one that must be edited. */
async function look(sending: Sending, message: SentMessage): Promise<void> {
  const { context, pace } = sending
  const { account = '', conversation = '' } = message.place ?? {}
  const slack = await slackFor(sending)
  await pace.take('history')
  const sought = {
    mark: markOf(message.id),
    thread: undefined,
    look: { sentSecondsAgo: message.sentSecondsAgo ?? 0 },
  }
  const found = await findIn(slack, conversation, sought)
  if (found.kind === 'unclear')
    throw new ToolError('slack_unclear', 'the conversation has too many messages', { retryable: true })
  if (found.kind === 'done') {
    await arrived(sending, message)
    await markSent(context.db, sending.turn, message, { account, conversation, ts: found.output }, null)
    return count(sending, 'found')
  }
  const error = 'slack_unknown'
  const { attempts, failures } = message
  if (attempts >= mostAttempts) return fail(sending, message, error, attempts)
  await markRetry(context.db, sending.turn, message.id, {
    seconds: 0,
    error,
    attempts,
    failures,
    isUnsent: true,
  })
}

async function edit(sending: Sending, message: SentMessage): Promise<void> {
  const { context, pace } = sending
  const { account, conversation = '', ts = '' } = message.place ?? {}
  // If the person has left or has linked another account, the message is not edited any more.
  if (accountOf(message) !== account) return markDone(context.db, sending.turn, message)
  const text = textOf(message, publicBase(context.config))
  if (hashOfText(text) === message.shownHash) return markUpdated(context.db, sending.turn, message, text)
  const slack = await slackFor(sending)
  await pace.take('update')
  await slack.complete(done, (client) =>
    client.chat.update({ channel: conversation, ts, text, metadata: metadataOf(message.id), ...plainText }),
  )
  await markUpdated(context.db, sending.turn, message, text)
  count(sending, 'updated')
}

/** Uses the connection of the organization, and never that of a person. */
async function slackFor({ context, turn }: Sending, requireFresh?: () => void): Promise<Slack> {
  const call = { organizationId: turn.organizationId, requester: { userId: null } }
  return slackAt(await connectionOfCall(context, call, 'slack_send_message', 'slack', requireFresh), null)
}

async function noteFailure(
  sending: Sending,
  message: SentMessage,
  { doing, begun }: Progress,
  error: unknown,
): Promise<void> {
  const { db } = sending.context
  const code = codeOf(error)
  const notSent = doing === 'send' && !begun
  if (code === 'slack_rate_limited') {
    const seconds = (error as ToolError).retryAfterSeconds ?? waitSeconds
    sending.pause(seconds)
    count(sending, 'rate_limited')
    // Slack has not begun to process the request, so it is no attempt.
    const { attempts, failures } = message
    return markRetry(db, sending.turn, message.id, {
      seconds,
      error: code,
      attempts,
      failures,
      isUnsent: doing === 'send',
    })
  }
  const failures = message.failures + 1
  if (doing !== 'send' || (notSent && code === 'unexpected')) {
    const { attempts } = message
    if (failures >= mostFailures) return fail(sending, message, code, attempts)
    const seconds = pauseAfter(failures, { first: sending.timing.retrySeconds, most: longestWaitSeconds })
    return markRetry(db, sending.turn, message.id, {
      seconds,
      error: code,
      attempts,
      failures,
      isUnsent: notSent,
    })
  }
  const attempts = message.attempts + 1
  // If this is false, the message may have been sent, and the next try looks for it.
  const isUnsent = notSent || error instanceof ToolError
  if (isUnsent && attempts >= mostAttempts) return fail(sending, message, code, attempts)
  const seconds = sending.timing.retrySeconds
  await markRetry(db, sending.turn, message.id, {
    seconds,
    error: code,
    attempts,
    failures: message.failures,
    isUnsent,
  })
}

function codeOf(error: unknown): string {
  if (error instanceof ToolError) return error.code
  return error instanceof OutcomeUnknown ? 'slack_unknown' : 'unexpected'
}

async function fail(sending: Sending, message: SentMessage, code: string, attempts: number): Promise<void> {
  const { context, turn } = sending
  await markFailed(context.db, turn, message, code, attempts)
  count(sending, 'failed')
  const about = { organization_id: turn.organizationId, notification_id: message.id, error_code: code }
  context.log.warn(about, 'a message of the chat was given up')
}

const count = ({ context }: Sending, result: string): void =>
  context.metrics.messages.inc({ channel: 'slack', result })
