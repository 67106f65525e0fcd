import type { Context } from '../context.ts'
import type { Attempt } from './send.ts'
import type { WebhookRow } from './webhook-view.ts'

/** A webhook is turned off if attempts have failed for this many seconds and none has succeeded. */
const disableSeconds = 3 * 24 * 3_600

/**
 * Turns a webhook off if its receiver wants no more messages, or if its attempts have failed for days. The waiting
 * deliveries stay until they are given up, because somebody may turn the webhook on again. `waits` is the number of
 * seconds since the first failure after the last success.
 */
export async function disableFailing(
  { combiner }: Pick<Context, 'combiner'>,
  webhook: Pick<WebhookRow, 'id' | 'organization_id'>,
  { isGone, error }: Pick<Attempt, 'isGone' | 'error'>,
  waits: number,
): Promise<void> {
  if (!isGone && waits < disableSeconds) return
  const reason = isGone
    ? 'the receiver answered 410: it wants no more messages'
    : `nothing has arrived for ${disableSeconds / 86_400} days; the last error: ${error ?? ''}`.slice(0, 300)
  await combiner.run(webhook.organization_id, 'org.change', async (tx) => {
    const row = await tx.trx
      .updateTable('webhooks')
      .set({ active: false, disabled_reason: reason })
      .where('id', '=', webhook.id)
      .where('active', '=', true)
      .returning('host')
      .executeTakeFirst()
    if (row === undefined) return
    tx.policyChanged()
    tx.append({
      eventType: 'webhook.disabled',
      action: 'disable',
      status: 'disabled',
      actor: { type: 'system', id: 'webhooks' },
      metadata: { webhook_id: webhook.id, host: row.host, reason },
    })
  })
}
