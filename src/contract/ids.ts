import { monotonicFactory } from 'ulid'

/** Ids such as `org_01J…` sort by creation time. */
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

/** The result is at least 0 and below 1. The system's generator is slow, so it is read in blocks. */
function random(): number {
  if (used === pool.length) {
    crypto.getRandomValues(pool)
    used = 0
  }
  return (pool[used++] as number) / 256
}

const next = monotonicFactory(random)

/** Sorts after all earlier ids of this kind from the same process. */
export function newId(kind: IdKind): string {
  return `${idPrefixes[kind]}_${next()}`
}
