import { Webhook } from 'standardwebhooks'
import type { Context } from '../../../src/governance/context.ts'
import { startRunner } from '../../../src/governance/lanes/runner.ts'
import { webhookSender } from '../../../src/governance/webhooks/deliver.ts'
import { fanOut } from '../../../src/governance/webhooks/fan-out.ts'
import type { Arrived } from '../../support/scripted-server.ts'
import { until } from '../../stack/until.ts'

/** Checks the signature of a message with the library, and returns the message. Throws if the signature is wrong. */
// oxlint-disable-next-line typescript/no-explicit-any
export function verified(secret: string, { body, headers }: Arrived): any {
  return new Webhook(secret).verify(body, headers as Record<string, string>)
}

/** Sends until no webhook is due or leased. Each due delivery has then had its attempt. */
export async function sendAll(context: Context): Promise<void> {
  await fanOut(context)
  const runner = startRunner(context, [webhookSender(context)], 20)
  await until('no webhook is due', async () => {
    await fanOut(context)
    const { rows } = await context.pool.query(
      `select from lanes where kind = 'webhook' and (turn is not null or greatest(due_at, paused_until) <= now() + interval '2 seconds')`,
    )
    return rows.length === 0
  })
  await runner.stop()
}
