import { afterAll, beforeAll, beforeEach } from '@jest/globals'
import { Webhook } from 'standardwebhooks'
import type { Context } from '../../../src/governance/context.ts'
import type { WebhookEvent } from '../../../src/contract/webhook-events.ts'
import { createWebhook, type NewWebhook } from '../../../src/governance/webhooks/webhooks.ts'
import { createWebhookSender } from '../../../src/governance/webhooks/sender.ts'
import { startScriptedServer, type Arrived, type ScriptedServer } from '../../support/scripted-server.ts'
import { until } from '../../stack/until.ts'
import { startEngine, type Engine } from '../runs/engine-fixture.ts'

export const hook = (engine: Engine, url: string, ...events: WebhookEvent[]): Promise<NewWebhook> =>
  createWebhook(engine.context, engine.caller('owner'), {
    url,
    events: events.length === 0 ? ['run.completed'] : events,
  })

/** Checks the signature of a message with the library, and returns the message. Throws if the signature is wrong. */
// oxlint-disable-next-line typescript/no-explicit-any
export function verified(secret: string, { body, headers }: Arrived): any {
  return new Webhook(secret).verify(body, headers as Record<string, string>)
}

export const deliveriesOf = (context: Context, webhookId: string) =>
  context.db
    .selectFrom('webhook_deliveries')
    .selectAll()
    .where('webhook_id', '=', webhookId)
    .orderBy('id')
    .execute()

export const rowOf = (context: Context, id: string) =>
  context.db.selectFrom('webhooks').selectAll().where('id', '=', id).executeTakeFirstOrThrow()

/** Makes everything that waits for this webhook due now. */
export async function hurry({ pool }: Context, id: string): Promise<void> {
  await pool.query(`update webhook_deliveries set next_attempt_at = now() where webhook_id = $1 and state = 'waiting'`, [id]) // prettier-ignore
  await pool.query(`update webhooks set due_at = now() where id = $1`, [id])
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

/** Publishes an event of one run, in the same way as `finishRun`. */
export const publish = (
  { context, organizationId }: Pick<Engine, 'context' | 'organizationId'>,
  type: WebhookEvent = 'run.completed',
  run_id = 'run_1',
): Promise<void> =>
  context.combiner.run(organizationId, 'org.change', async (tx) => {
    tx.publish(type, { run_id })
    tx.append({
      eventType: 'workflow.updated',
      action: 'update',
      status: 'success',
      actor: { type: 'system', id: 't' },
    })
  })

/**
 * Starts an engine and a receiver for all tests of a file. Before each test, all webhooks are removed and the receiver
 * answers 204 again.
 */
export function useReceiver(use: (engine: Engine, receiver: ScriptedServer) => void): void {
  let engine: Engine
  let receiver: ScriptedServer
  beforeAll(async () => {
    engine = await startEngine()
    receiver = await startScriptedServer()
    use(engine, receiver)
  })
  afterAll(async () => {
    await engine?.close()
    await receiver?.close()
  })
  beforeEach(async () => {
    const { pool } = engine.context
    await pool.query('delete from webhook_deliveries')
    await pool.query('delete from webhook_events')
    await pool.query('delete from webhooks')
    // The rows were changed directly, so the service must load them again.
    await engine.context.combiner.run(engine.organizationId, 'org.change', async (tx) => {
      tx.policyChanged()
      tx.append({ eventType: 'workflow.updated', action: 'update', status: 'success', actor: { type: 'system', id: 't' } }) // prettier-ignore
    })
    receiver.arrived.length = 0
    receiver.answer = () => ({ status: 204 })
  })
}
