import { nextDueMessage } from '../../db/queries/notifications/messages.ts'
import type { Context } from '../../governance/context.ts'
import type { Sender } from '../../governance/lanes/runner.ts'
import { dueMessages } from '../../governance/notifications/slack-records.ts'
import { Pace } from './pace.ts'
import { handleMessage, type ChatTiming, type Sending } from './send.ts'

const usual: ChatTiming = { retrySeconds: 10, speed: 1, leaveMilliseconds: 5_000, turnMilliseconds: 20_000 }

/** `batchSize` limits one read of the queue, `inFlight` the new messages and the edits of an organization. */
const batchSize = 20
const inFlight = 4
const mostPaces = 1_000

/** An organization's turn sends until no message is left, the turn is over, or Slack asks to wait. */
export function slackSender(context: Context, timing: ChatTiming = usual): Sender {
  // Slack counts the requests of several turns together.
  const paces = new Map<string, Pace>()
  return {
    kind: 'slack',
    trouble: 'the messages of an organization stand still',
    async work({ organizationId, turn: name }, signal) {
      const turn = { organizationId: organizationId as string, turn: name }
      const pace = paces.get(turn.organizationId) ?? new Pace(timing.speed)
      if (paces.size >= mostPaces) paces.clear()
      paces.set(turn.organizationId, pace)
      let pause = 0
      const end = performance.now() + timing.turnMilliseconds
      const mustStop = (): boolean => signal.aborted || pause > 0
      const isOver = (): boolean => mustStop() || performance.now() > end
      const waits = (seconds: number) => (pause = Math.max(pause, seconds))
      const sending: Sending = { context, turn, pace, timing, pause: waits }
      // Edits have their own limit at Slack, so they do not delay new messages.
      await Promise.all([drain(sending, 'new', mustStop, isOver), drain(sending, 'sent', mustStop, isOver)])
      const [next] = (await nextDueMessage(turn.organizationId).execute(context.db)).rows
      return { dueIn: next?.due_in ?? null, pause }
    },
  }
}

/** The time is checked only after a message, so even the shortest turn handles at least one message. */
async function drain(
  sending: Sending,
  kind: 'new' | 'sent',
  mustStop: () => boolean,
  isOver: () => boolean,
): Promise<void> {
  const { context, turn } = sending
  do {
    const due = [...(await dueMessages(context.db, turn.organizationId, kind, batchSize))]
    if (due.length === 0) return
    const worker = async (): Promise<void> => {
      for (let id = due.shift(); id !== undefined && !mustStop(); id = isOver() ? undefined : due.shift())
        await handleMessage(sending, id)
    }
    await Promise.all(Array.from({ length: inFlight }, worker))
  } while (!isOver())
}
