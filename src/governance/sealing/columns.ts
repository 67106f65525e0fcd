import type { EffectKey } from '../../contract/ids.ts'
import {
  agentInputPlace,
  connectionPlace,
  errorPlace,
  filePlace,
  idempotencyPlace,
  inputsPlace,
  memoryPlace,
  outputPlace,
  paramsPlace,
  resultPlace,
  statePlace,
  verifierPlace,
  webhookPlace,
} from './places.ts'

export interface SealedColumn {
  readonly table: string
  /** The primary key, in order. The default is `id`. */
  readonly key?: readonly string[]
  readonly column: string
  /** A text column with base64 instead of `bytea`. */
  readonly isBase64?: true
  /** What `place` reads beside the key. */
  readonly also?: readonly string[]
  place(row: Row): string
}

/** The columns in `key` and `also`. */
export type Row = Readonly<Record<string, unknown>>

const effectColumns = ['run_id', 'step_id', 'item_index']
const idempotencyKey = ['organization_id', 'user_id', 'api_key_id', 'route', 'key']

const text = (row: Row, column: string): string => String(row[column])
const effectKey = (row: Row) => ({
  runId: text(row, 'run_id'),
  stepId: text(row, 'step_id'),
  itemIndex: Number(row['item_index'] ?? -1),
})
const idempotencyUse = (row: Row) => ({
  organizationId: text(row, 'organization_id'),
  userId: text(row, 'user_id'),
  apiKeyId: text(row, 'api_key_id'),
  route: text(row, 'route'),
  key: text(row, 'key'),
})

const ofRun = (column: string, place: (runId: string) => string): SealedColumn => ({
  table: 'runs',
  column: `${column}_sealed`,
  place: (row) => place(text(row, 'id')),
})
const ofEffect = (column: string, place: (key: EffectKey) => string): SealedColumn => ({
  table: 'effects',
  key: effectColumns,
  column,
  place: (row) => place(effectKey(row)),
})
const ofIdempotency = (column: string, value: 'answer' | 'made'): SealedColumn => ({
  table: 'idempotency_keys',
  key: idempotencyKey,
  column,
  isBase64: true,
  place: (row) => idempotencyPlace(idempotencyUse(row), value),
})
const ofFile = (part: 'text' | 'rows'): SealedColumn => ({
  table: 'files',
  column: `${part}_sealed`,
  also: ['organization_id'],
  place: (row) => filePlace(text(row, 'organization_id'), text(row, 'id'), part),
})

/** Every column with sealed values. `npm run rotate-key` reseals them, and a test compares the list with the tables. */
export const sealedColumns: readonly SealedColumn[] = [
  ofRun('inputs', inputsPlace),
  ofRun('result', resultPlace),
  ofEffect('params_sealed', paramsPlace),
  ofEffect('output_sealed', outputPlace),
  ofEffect('error_detail_sealed', errorPlace),
  {
    table: 'approvals',
    column: 'params_sealed',
    also: ['kind', ...effectColumns],
    place: (row) =>
      row['kind'] === 'agent_call' ? agentInputPlace(text(row, 'id')) : paramsPlace(effectKey(row)),
  },
  { table: 'approvals', column: 'state_sealed', place: (row) => statePlace(text(row, 'id')) },
  {
    table: 'memory',
    key: ['organization_id', 'key'],
    column: 'value_sealed',
    also: ['value_version'],
    place: (row) => memoryPlace(text(row, 'organization_id'), text(row, 'key'), text(row, 'value_version')),
  },
  {
    table: 'connections',
    column: 'credential_sealed',
    also: ['organization_id', 'secret_version'],
    place: (row) =>
      connectionPlace(text(row, 'organization_id'), text(row, 'id'), text(row, 'secret_version')),
  },
  ofFile('text'),
  ofFile('rows'),
  {
    table: 'connection_attempts',
    key: ['state_hash'],
    column: 'verifier_sealed',
    place: (row) => verifierPlace(text(row, 'state_hash')),
  },
  {
    table: 'webhooks',
    column: 'target_sealed',
    also: ['organization_id', 'target_version'],
    place: (row) => webhookPlace(text(row, 'organization_id'), text(row, 'id'), text(row, 'target_version')),
  },
  ofIdempotency('response_body', 'answer'),
  ofIdempotency('made', 'made'),
]
