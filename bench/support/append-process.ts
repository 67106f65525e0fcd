import { createPool } from '../../src/db/connect.ts'
import { appendWith, type Side } from './append-sides.ts'

/*
 * One process of the append benchmark. The process gets its job over IPC. Its answer is the number of appends that it
 * has committed.
 */

export interface AppendJob {
  readonly url: string
  readonly organizationId: string
  readonly side: Side
  readonly callers: number
  readonly poolSize: number
  readonly milliseconds: number
}

process.on('message', (job: AppendJob) => {
  void work(job).then((committed) => process.send?.(committed))
})

async function work(job: AppendJob): Promise<number> {
  const pool = createPool({ url: job.url, max: job.poolSize })
  const append = appendWith(job.side, pool, job.organizationId)
  await append() // connects and compiles before the clock starts
  const deadline = performance.now() + job.milliseconds
  let committed = 0
  const caller = async (): Promise<void> => {
    while (performance.now() < deadline) {
      await append()
      committed += 1
    }
  }
  await Promise.all(Array.from({ length: job.callers }, caller))
  await pool.end()
  return committed
}
