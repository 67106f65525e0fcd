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

const next = monotonicFactory()

/** A new id of this kind; later ones of one process sort after earlier ones. */
export function newId(kind: IdKind): string {
  return `${idPrefixes[kind]}_${next()}`
}
