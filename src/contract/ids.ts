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
  group: 'grp',
  connection: 'con',
  notification: 'ntf',
  webhook: 'whk',
  message: 'msg',
  delivery: 'dlv',
  scimToken: 'scim',
  passkey: 'pk',
  trigger: 'trg',
  firing: 'fir',
  rerun: 'rrn',
  apply: 'apl',
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

/** `itemIndex` is -1 for a step without `for_each`. Every activity that runs a step gets this. */
export interface EffectKey {
  readonly runId: string
  readonly stepId: string
  readonly itemIndex: number
}
export const effectId = (key: EffectKey): string => `${key.runId}/${key.stepId}/${key.itemIndex}`

/** The lists of approvals and of messages name a call with an unknown outcome by this id. */
export const callId = (row: {
  readonly run_id: string
  readonly step_id: string
  readonly item_index: number
}): string => effectId({ runId: row.run_id, stepId: row.step_id, itemIndex: row.item_index })

/** Null if the text is not an id of `callId`. */
export function readCallId(id: string | null): EffectKey | null {
  const [, runId, stepId, item] = /^([^/]+)\/(.+)\/(-?\d{1,6})$/s.exec(id ?? '') ?? []
  if (runId === undefined || stepId === undefined) return null
  return { runId, stepId, itemIndex: Number(item) }
}

/**
 * The addresses of service accounts end with it, and begin with the name, `-`, and 8 characters of the id. No mail can be
 * sent to `.invalid`, and nobody can have the domain (RFC 2606).
 */
export const serviceDomain = 'service-accounts.invalid'
