import { monotonicFactory } from 'ulid'

/** Prefixes of ids such as `org_01J…`. Ids sort by creation time. */
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
  connection: 'con',
  notification: 'ntf',
  webhook: 'whk',
  message: 'msg',
  delivery: 'dlv',
} as const
export type IdKind = keyof typeof idPrefixes

const pool = new Uint8Array(4_096)
let used = pool.length

/**
 * Returns a random number from 0 (inclusive) to 1 (exclusive). Reads the random generator of the system in blocks,
 * because each call of that generator is slow.
 */
function random(): number {
  if (used === pool.length) {
    crypto.getRandomValues(pool)
    used = 0
  }
  return (pool[used++] as number) / 256
}

const next = monotonicFactory(random)

/** Returns a new id of this kind. The id sorts after all earlier ids of this kind from the same process. */
export function newId(kind: IdKind): string {
  return `${idPrefixes[kind]}_${next()}`
}
