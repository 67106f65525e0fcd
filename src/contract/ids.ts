import { monotonicFactory } from 'ulid'

/** Prefixes of every id (contract section 1): `org_01J…`, sortable by the time of their making. */
export const idPrefixes = {
  organization: 'org',
  user: 'usr',
  workflow: 'wf',
  run: 'run',
  approval: 'apr',
  decision: 'dec',
  session: 'ses',
  rule: 'rule',
  labelRule: 'lrule',
  key: 'key',
  file: 'file',
  event: 'evt',
  invitation: 'inv',
} as const
export type IdKind = keyof typeof idPrefixes

const pool = new Uint8Array(4_096)
let used = pool.length

/** A number from 0 to below 1 from the system's generator, which is asked for many at once: each call of it costs more. */
function random(): number {
  if (used === pool.length) {
    crypto.getRandomValues(pool)
    used = 0
  }
  return (pool[used++] as number) / 256
}

const next = monotonicFactory(random)

/** A new id of this kind; later ones of one process sort after earlier ones. */
export function newId(kind: IdKind): string {
  return `${idPrefixes[kind]}_${next()}`
}
