import { Webhook } from 'standardwebhooks'
import type { Context } from '../../../src/governance/context.ts'
import { createWebhookSender } from '../../../src/governance/webhooks/deliver.ts'
import type { Arrived } from '../../support/scripted-server.ts'
import { until } from '../../stack/until.ts'

/** Checks the signature of a message with the library, and returns the message. Throws if the signature is wrong. */
// oxlint-disable-next-line typescript/no-explicit-any
export function verified(secret: string, { body, headers }: Arrived): any {
  return new Webhook(secret).verify(body, headers as Record<string, string>)
}

/** Runs rounds of a sender until no webhook is due or leased. Each due delivery has then had its attempt. */
export async function sendAll(context: Context): Promise<void> {
  const sender = createWebhookSender(context)
  await until('no webhook is due', async () => {
    await sender.round()
    const { rows } = await context.pool.query(
      `select from webhooks where active and (due_at <= now() or leased_until > now())
       union all select from webhook_events where message is null`,
    )
    return rows.length === 0
  })
  await sender.stop()
}
