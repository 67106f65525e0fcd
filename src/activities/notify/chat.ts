import { setTimeout as delay } from 'node:timers/promises'
import type { Context } from '../../governance/context.ts'
import {
  dueMessages,
  leaveLane,
  renewLane,
  takeLanes,
  type Turn,
} from '../../governance/notifications/lanes.ts'
import { Pace } from './pace.ts'
import { handleMessage, type ChatTiming, type Sending } from './send.ts'

/**
 * Only one process at a time sends in an organization's lane, so it can stay below Slack's limits. A slow or
 * broken connection of one organization delays no other.
 */
export interface Chat {
  /** Resolves when the requests in flight have ended. The remaining messages are sent later. */
  stop(): Promise<void>
}

const usual: ChatTiming = {
  pollMilliseconds: 1_000,
  retrySeconds: 10,
  speed: 1,
  leaveMilliseconds: 5_000,
  turnMilliseconds: 20_000,
}

const mostLanes = 50
/** `batchSize` limits one read of the queue, `inFlight` the new messages and the edits of an organization. */
const batchSize = 20
const inFlight = 4
const renewMilliseconds = 10_000
const mostPaces = 1_000

export function startChat(context: Context, timing: ChatTiming = usual): Chat {
  const lanes = new Map<string, Promise<void>>()
  const paces = new Map<string, Pace>()
  const ending = new AbortController()
  let turns = 0
  const poll = async (): Promise<void> => {
    const limit = mostLanes - lanes.size
    if (limit <= 0) return
    turns += 1
    const turn = `${context.config.processId}/${turns}`
    for (const taken of await takeLanes(context.db, turn, { limit, own: [...lanes.keys()] })) {
      const { organizationId } = taken
      const pace = paces.get(organizationId) ?? new Pace(timing.speed)
      if (paces.size >= mostPaces) paces.clear()
      // Slack counts the requests of several turns together.
      paces.set(organizationId, pace)
      const lane = runLane(context, taken, { pace, timing }, ending.signal)
        .catch((error: unknown) => {
          const about = { err: error as Error, organization_id: organizationId }
          context.sparseLog.warn(
            `chat ${organizationId}`,
            about,
            'the messages of an organization stand still',
          )
        })
        .finally(() => lanes.delete(organizationId))
      lanes.set(organizationId, lane)
    }
  }
  const looping = (async () => {
    while (!ending.signal.aborted) {
      await poll().catch((error: unknown) =>
        context.sparseLog.warn('chat', { err: error as Error }, 'the messages could not be read'),
      )
      await delay(timing.pollMilliseconds, undefined, { signal: ending.signal }).catch(() => undefined)
    }
  })()
  return {
    async stop() {
      ending.abort()
      await looping
      await Promise.all(lanes.values())
    },
  }
}

/** Sends until no message is left, the turn is over, or the service asks to wait. */
async function runLane(
  context: Context,
  turn: Turn,
  { pace, timing }: { readonly pace: Pace; readonly timing: ChatTiming },
  ending: AbortSignal,
): Promise<void> {
  let pauseSeconds = 0
  let isLost = false
  const renewing = setInterval(() => {
    renewLane(context.db, turn).then(
      (isOurs) => (isLost ||= !isOurs),
      () => undefined, // the lease outlasts a few failed renewals, and each intent checks the lease
    )
  }, renewMilliseconds)
  const end = performance.now() + timing.turnMilliseconds
  const mustStop = (): boolean => ending.aborted || isLost || pauseSeconds > 0
  const isOver = (): boolean => mustStop() || performance.now() > end
  const sending: Sending = {
    context,
    turn,
    pace,
    timing,
    pause: (seconds) => (pauseSeconds = Math.max(pauseSeconds, seconds)),
  }
  try {
    // Edits have their own limit at Slack, so they do not delay new messages.
    await Promise.all([drain(sending, 'new', mustStop, isOver), drain(sending, 'sent', mustStop, isOver)])
  } finally {
    clearInterval(renewing)
    await leaveLane(context.db, turn, pauseSeconds)
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
