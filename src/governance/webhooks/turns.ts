import { sql } from 'kysely'
import type { Context } from '../context.ts'
import { atCommitPoint } from '../audit/commit-points.ts'
import { disableFailing } from './disable.ts'
import { attemptMilliseconds, sendMessage, type Attempt } from './send.ts'
import { openTarget } from './target.ts'
import type { WebhookRow } from './webhook-view.ts'

/*
 * One worker at a time sends the deliveries of a webhook: it leases the webhook, sends what is due one after another, and
 * gives it back. A worker that dies keeps the lease until it ends; then another one sends what was not recorded again,
 * with the same `webhook-id`.
 *
 * After a failure the whole webhook pauses, so a dead address costs one attempt for each pause, however many messages
 * wait. Organizations share the places of a process: each has a few, and webhooks that fail or are slow have at most half.
 */

/** Webhooks whose deliveries one process sends at the same time, and how many of them may be failing or slow. */
export const mostTurns = 40
export const mostAilingTurns = 20
/** Of one organization, in all processes together, except for moments. */
export const mostOfOrganization = 3

/** Deliveries of one turn. A turn begins at most once a second, so this bounds the rate of requests to one address. */
export const mostOfTurn = 20
/** After this time a turn takes no further delivery, in milliseconds. */
const turnMilliseconds = 5_000
/** Seconds until the next turn after an error of our own. */
const pauseAfterError = 60
/** Longer than any turn. */
const leaseSeconds = (turnMilliseconds + 3 * attemptMilliseconds) / 1_000
/** An answer that takes longer makes the webhook count as slow, in milliseconds. */
const slowMilliseconds = 3_000

type Leased = Pick<WebhookRow, 'id' | 'organization_id'>

/** Leases due webhooks, those that wait longest first. */
export async function leaseWebhooks(
  { db }: Pick<Context, 'db'>,
  kind: 'sound' | 'ailing',
  limit: number,
): Promise<readonly Leased[]> {
  if (limit <= 0) return []
  const isFree = sql`(leased_until is null or leased_until <= clock_timestamp())`
  const { rows } = await sql<Leased>`
    with busy as (
      select organization_id, count(*) as places from webhooks
      where leased_until > clock_timestamp() group by organization_id
    ), due as (
      select id, organization_id, due_at, failures > 0 or is_slow as is_ailing,
             row_number() over (partition by organization_id order by failures > 0 or is_slow, due_at, id) as place
      from webhooks
      where active and due_at <= clock_timestamp() and ${isFree}
    ), chosen as (
      select id from due left join busy using (organization_id)
      where place + coalesce(places, 0) <= ${mostOfOrganization} and is_ailing = ${kind === 'ailing'}
      order by due_at limit ${limit}
    )
    update webhooks set leased_until = clock_timestamp() + make_interval(secs => ${leaseSeconds})
    where id in (select id from webhooks where id in (select id from chosen) and ${isFree} for update skip locked)
    returning id, organization_id`.execute(db)
  return rows
}

/** Sends the due deliveries of a leased webhook, and gives it back. Stops at the first that fails. */
export async function takeTurn(context: Context, webhook: Leased, signal: AbortSignal): Promise<void> {
  const endsAt = performance.now() + turnMilliseconds
  let pause = 0
  try {
    for (let sent = 0; sent < mostOfTurn && performance.now() < endsAt && !signal.aborted; sent += 1) {
      const delivery = await nextDelivery(context, webhook.id)
      if (delivery === null) break
      const startedAt = performance.now()
      const target = await openTarget(context.sealer, { ...delivery, ...webhook })
      const { event_id: id, message } = delivery
      const attempt = await sendMessage(context.outgoing, target, { id, message }, signal)
      const isSlow = performance.now() - startedAt > slowMilliseconds
      const { failures, waits } = await recordAttempt(context, webhook.id, delivery, attempt, isSlow)
      context.metrics.webhookAttempts.inc({ result: attempt.delivered ? 'delivered' : 'failed' })
      if (attempt.delivered) continue
      pause = Math.max(pauseOf(failures), attempt.retryAfter ?? 0)
      await disableFailing(context, webhook, attempt, waits)
      break
    }
  } catch (error) {
    pause = signal.aborted ? 0 : pauseAfterError
    throw error
  } finally {
    await giveBack(context, webhook.id, pause)
  }
}

interface DueDelivery {
  readonly id: string
  readonly event_id: string
  readonly message: string
  readonly target_sealed: Buffer
}

/** Reads the webhook anew, so that a changed address or secret counts from the next attempt on. */
async function nextDelivery({ db }: Pick<Context, 'db'>, webhookId: string): Promise<DueDelivery | null> {
  const { rows } = await sql<DueDelivery>`
    select d.id, d.event_id, e.message, w.target_sealed
    from webhooks w
    cross join lateral (
      select id, event_id from webhook_deliveries
      where webhook_id = w.id and state = 'waiting' and next_attempt_at <= clock_timestamp()
        and give_up_at > clock_timestamp()
      order by next_attempt_at limit 1
    ) as d
    join webhook_events e on e.id = d.event_id
    where w.id = ${webhookId} and w.active`.execute(db)
  return rows[0] ?? null
}

/** Seconds until the next attempt at one message, by the number of failed ones; the last one repeats. */
const retries = [5, 30, 120, 600, 1_800, 3_600]

/** Seconds for which a webhook pauses after this number of failures in a row: 5, 10, 20, … up to ten minutes. */
export const pauseOf = (failures: number): number => Math.min(5 * 2 ** Math.min(failures - 1, 10), 600)

interface Recorded {
  /** Failures since the last success. */
  readonly failures: number
  /** Seconds since the first of them. */
  readonly waits: number
}

/** Commit point `webhook.record`. */
async function recordAttempt(
  { db }: Pick<Context, 'db'>,
  webhookId: string,
  { id }: Pick<DueDelivery, 'id'>,
  { delivered, status, error, retryAfter }: Attempt,
  isSlow: boolean,
): Promise<Recorded> {
  const ended = delivered ? sql`clock_timestamp()` : sql`null`
  const next = sql`clock_timestamp() + make_interval(secs => greatest(${retryAfter ?? 0}::float8,
    (${retries}::float8[])[least(attempts + 1, ${retries.length})]))`
  const { rows } = await atCommitPoint('webhook.record', () =>
    sql<Recorded>`
      with delivery as (
        update webhook_deliveries set attempts = attempts + 1, last_attempt_at = clock_timestamp(),
          last_status = ${status}::int, last_error = ${error?.slice(0, 300) ?? null}::text,
          state = ${delivered ? 'delivered' : 'waiting'}, ended_at = ${ended},
          next_attempt_at = ${delivered ? sql`null` : next}
        where id = ${id} and state = 'waiting'
      )
      update webhooks set is_slow = ${isSlow}, failures = case when ${delivered} then 0 else failures + 1 end,
        failing_since = case when ${delivered} then null else coalesce(failing_since, clock_timestamp()) end
      where id = ${webhookId}
      returning failures, coalesce(extract(epoch from clock_timestamp() - failing_since), 0)::float8 as waits`.execute(
      db,
    ),
  )
  return rows[0] ?? { failures: 1, waits: 0 }
}

/** Ends the lease, and notes when a worker must look again: with the next delivery, and not before the pause is over. */
async function giveBack({ db }: Pick<Context, 'db'>, webhookId: string, pause: number): Promise<void> {
  await db.transaction().execute(async (trx) => {
    // The deliveries are read after the lock: an event may add one at the same time (fan-out.ts).
    await sql`select from webhooks where id = ${webhookId} for update`.execute(trx)
    await sql`
      update webhooks set leased_until = null, due_at = (
        select greatest(min(next_attempt_at), clock_timestamp() + make_interval(secs => ${pause}))
        from webhook_deliveries where webhook_id = ${webhookId} and state = 'waiting'
        having count(*) > 0)
      where id = ${webhookId}`.execute(trx)
  })
}
