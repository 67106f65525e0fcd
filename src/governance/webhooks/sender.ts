import type { Context } from '../context.ts'
import { fanOut } from './fan-out.ts'
import { leaseWebhooks, mostAilingTurns, mostTurns, takeTurn } from './turns.ts'

/** Sends the deliveries of webhooks in this process. */
export interface WebhookSender {
  /** Writes the deliveries of new events, and begins the turns of due webhooks; does not wait for these. */
  round(): Promise<void>
  /** Ends the turns; a request that has left may be sent again. */
  stop(): Promise<void>
}

export function createWebhookSender(context: Context): WebhookSender {
  const turns = { sound: new Set<Promise<void>>(), ailing: new Set<Promise<void>>() }
  const stopping = new AbortController()
  const begin = async (kind: 'sound' | 'ailing', room: number): Promise<void> => {
    for (const webhook of await leaseWebhooks(context, kind, room)) {
      const turn: Promise<void> = takeTurn(context, webhook, stopping.signal)
        .catch((error: unknown) => {
          if (stopping.signal.aborted) return
          const about = { err: error, webhook_id: webhook.id, organization_id: webhook.organization_id }
          context.sparseLog.warn('webhooks', about, 'the deliveries of a webhook could not be sent')
        })
        .finally(() => turns[kind].delete(turn))
      turns[kind].add(turn)
    }
  }
  const room = () => mostTurns - turns.sound.size - turns.ailing.size
  return {
    async round() {
      await fanOut(context)
      await begin('sound', room())
      await begin('ailing', Math.min(room(), mostAilingTurns - turns.ailing.size))
    },
    async stop() {
      stopping.abort()
      await Promise.allSettled([...turns.sound, ...turns.ailing])
    },
  }
}
