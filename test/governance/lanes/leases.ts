import type { Pool } from 'pg'

/**
 * The leases of a killed process end at once, not when their time is over. A lane that another process holds locked is
 * left out: waiting for it in any order but its own would be a deadlock.
 */
export const endLeases = (pool: Pool, processId: string): Promise<unknown> =>
  pool.query(
    `update lanes l set leased_until = now() from (
       select kind, id from lanes where turn like $1 order by id for update skip locked) as of_process
     where l.kind = of_process.kind and l.id = of_process.id`,
    [`${processId}/%`],
  )
