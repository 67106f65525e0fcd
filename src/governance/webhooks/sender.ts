import type { Context } from '../context.ts'
import { fanOut } from './fan-out.ts'
import { leaseWebhooks, mostAilingTurns, mostTurns, takeTurn } from './turns.ts'

/** Sends the deliveries of webhooks in this process. */
export interface WebhookSender {
  /** Writes the deliveries of new events, and begins turns for due webhooks. Does not wait for the end of the turns. */
  round(): Promise<void>
  /** Ends the turns. A request that is in progress may be sent again later. */
  stop(): Promise<void>
}

export function createWebhookSender(context: Context): WebhookSender {
  const turns = { sound: new Set<Promise<void>>(), ailing: new Set<Promise<void>>() }
  const stopping = new AbortController()
  const begin = async (kind: 'sound' | 'ailing', freePlaces: number): Promise<void> => {
    for (const webhook of await leaseWebhooks(context, kind, freePlaces)) {
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
  const freePlaces = () => mostTurns - turns.sound.size - turns.ailing.size
  return {
    async round() {
      await fanOut(context)
      await begin('sound', freePlaces())
      await begin('ailing', Math.min(freePlaces(), mostAilingTurns - turns.ailing.size))
    },
    async stop() {
      stopping.abort()
      await Promise.allSettled([...turns.sound, ...turns.ailing])
    },
  }
}
