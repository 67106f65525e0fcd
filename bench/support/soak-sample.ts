import { readFileSync } from 'node:fs'
import { recordedProcesses } from '../../src/stack/guard.ts'
import { heldMemory } from './held-memory.ts'
import { withClient } from './postgres.ts'
import type { Sample } from './soak-verdict.ts'

/**
 * Retention in the soak keeps data for at most this many minutes: five minutes from `RETENTION_DAYS`, ten minutes
 * between two passes of the worker, and one minute for the pass itself.
 */
const retainedMinutes = 5 + 10 + 1
const mebibyte = 1024 * 1024

/** Measures resident memory and numbers of rows. `url` must connect as a superuser. */
export async function sample(dataDir: string, url: string): Promise<Sample['values']> {
  const memory = measured(dataDir).map(({ role, pid }) => [`${role} MiB`, residentMiB(pid)] as const)
  const { rows } = await withClient(url, (client) =>
    client.query<Record<string, string>>(`
      select (select count(*) from pg_stat_activity where datname = current_database() and usename <> 'postgres') as connections,
             (select count(*) from runs) as runs,
             (select count(*) from runs where data_removed_at is null) as "runs with data",
             (select count(*) from run_events) as "run events",
             (select count(*) from runs where data_removed_at is null
                and finished_at < now() - interval '${retainedMinutes} minutes') as "runs past retention",
             (select count(*) from run_events where at < now() - interval '${retainedMinutes} minutes'
                and run_id in (select id from runs where data_removed_at is not null)) as "events past retention",
             (select count(*) from idempotency_keys) as "idempotency keys",
             (select count(*) from lanes where kind = 'temporal') as outbox,
             (select count(*) from process_heartbeats) as heartbeats`),
  )
  const counted = Object.entries(rows[0] ?? {}).map(([name, value]) => [name, Number(value)] as const)
  return Object.fromEntries([...memory, ...counted])
}

/**
 * Measures the memory of API and worker after full garbage collections. The worker runs workflows in a second thread.
 * The heap of this thread is a separate value.
 */
export async function heldSample(dataDir: string, folder: string): Promise<Sample['values']> {
  const held: Record<string, number> = {}
  for (const { role, pid } of measured(dataDir)) {
    const { main, threads, resident } = await heldMemory(folder, pid)
    const heaps = [main, ...threads].reduce((sum, { total }) => sum + total, 0)
    held[`${role} heap MiB`] = main.used / mebibyte
    held[`${role} outside heaps MiB`] = (resident - heaps) / mebibyte
    if (role === 'worker')
      held['workflows heap MiB'] = threads.reduce((sum, { used }) => sum + used, 0) / mebibyte
  }
  return held
}

function measured(dataDir: string) {
  return recordedProcesses(dataDir).filter(({ role }) => role === 'api' || role === 'worker')
}

function residentMiB(pid: number): number {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8')
  return Number(/VmRSS:\s+(\d+)/.exec(status)?.[1] ?? 0) / 1024
}
