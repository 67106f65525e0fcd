import type { Context } from '../context.ts'
import { fanOut } from './fan-out.ts'
import { leaseWebhooks, mostAtOnce, mostFailingAtOnce, sendDue, type Sending } from './deliver.ts'

/** Sends the deliveries of webhooks in this process. */
export interface WebhookSender {
  /**
   * Writes the deliveries of new events, and begins to send for due webhooks. Does not wait until the deliveries are
   * sent.
   */
  round(): Promise<void>
  /** Stops sending. A request that is in progress may be sent again later. */
  stop(): Promise<void>
}

export function createWebhookSender(context: Sending & Pick<Context, 'config' | 'sparseLog'>): WebhookSender {
  const sending = { sound: new Set<Promise<void>>(), ailing: new Set<Promise<void>>() }
  const stopping = new AbortController()
  const begin = async (kind: 'sound' | 'ailing', freePlaces: number): Promise<void> => {
    for (const webhook of await leaseWebhooks(context, kind, freePlaces)) {
      const begun: Promise<void> = sendDue(context, webhook, stopping.signal)
        .catch((error: unknown) => {
          if (stopping.signal.aborted) return
          const about = { err: error, webhook_id: webhook.id, organization_id: webhook.organization_id }
          context.sparseLog.warn('webhooks', about, 'the deliveries of a webhook could not be sent')
        })
        .finally(() => sending[kind].delete(begun))
      sending[kind].add(begun)
    }
  }
  const freePlaces = () => mostAtOnce - sending.sound.size - sending.ailing.size
  return {
    async round() {
      await fanOut(context)
      await begin('sound', freePlaces())
      await begin('ailing', Math.min(freePlaces(), mostFailingAtOnce - sending.ailing.size))
    },
    async stop() {
      stopping.abort()
      await Promise.allSettled([...sending.sound, ...sending.ailing])
    },
  }
}
