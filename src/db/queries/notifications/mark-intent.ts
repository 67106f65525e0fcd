import { sql, type RawBuilder } from 'kysely'

/**
 * Records that the sending of the message begins. From then on, the message may have been sent. Also renews the lease
 * of the lane. Does nothing if `turn` no longer has the lease. If the message has changed, only renews the lease.
 */
export const markMessageIntent = ({
  organizationId,
  turn,
  leaseSeconds,
  id,
  wanted,
  place,
}: {
  readonly organizationId: string
  readonly turn: string
  readonly leaseSeconds: number
  readonly id: string
  readonly wanted: number
  readonly place: object
}): RawBuilder<unknown> => sql`
  with lane as (
    update notification_lanes set leased_until = clock_timestamp() + make_interval(secs => ${leaseSeconds}::float8)
    where organization_id = ${organizationId} and channel = 'slack' and turn = ${turn}
      and leased_until > clock_timestamp()
    returning organization_id)
  update notifications set intent_at = clock_timestamp(), attempts = attempts + 1, place = ${JSON.stringify(place)}
  where id = ${id} and wanted = ${wanted} and intent_at is null and exists (select from lane)`
