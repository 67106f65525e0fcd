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
  /** Columns of the primary key, in order. */
  readonly key: readonly KeyColumn[]
  readonly column: string
  /** The type of the column: `bytes` for `bytea`, `base64` for text. */
  readonly stored: 'bytes' | 'base64'
  /** The columns that `place` reads in addition to the columns in `key`. */
  readonly also?: readonly string[]
  place(row: Row): string
}

export interface KeyColumn {
  readonly name: string
  readonly type: 'text' | 'integer'
}

/** The values of a row. The names of the fields are the names of the columns in `key` and `also`. */
export type Row = Readonly<Record<string, unknown>>

const textKey = (...names: readonly string[]): KeyColumn[] => names.map((name) => ({ name, type: 'text' }))
const effectColumns: readonly KeyColumn[] = [
  ...textKey('run_id', 'step_id'),
  { name: 'item_index', type: 'integer' },
]
const idempotencyKey = textKey('organization_id', 'user_id', 'api_key_id', 'route', 'key')

const effectKey = (row: Row) => ({
  runId: String(row['run_id']),
  stepId: String(row['step_id']),
  itemIndex: Number(row['item_index'] ?? -1),
})
const idempotencyUse = (row: Row) => ({
  organizationId: String(row['organization_id']),
  userId: String(row['user_id']),
  apiKeyId: String(row['api_key_id']),
  route: String(row['route']),
  key: String(row['key']),
})

/**
 * This list contains every column with sealed values. `npm run rotate-key` reseals these values, and a test compares
 * this list with the tables.
 */
export const sealedColumns: readonly SealedColumn[] = [
  {
    table: 'runs',
    key: textKey('id'),
    column: 'inputs_sealed',
    stored: 'bytes',
    place: (row) => inputsPlace(String(row['id'])),
  },
  {
    table: 'runs',
    key: textKey('id'),
    column: 'result_sealed',
    stored: 'bytes',
    place: (row) => resultPlace(String(row['id'])),
  },
  {
    table: 'effects',
    key: effectColumns,
    column: 'params_sealed',
    stored: 'bytes',
    place: (row) => paramsPlace(effectKey(row)),
  },
  {
    table: 'effects',
    key: effectColumns,
    column: 'output_sealed',
    stored: 'bytes',
    place: (row) => outputPlace(effectKey(row)),
  },
  {
    table: 'effects',
    key: effectColumns,
    column: 'error_detail_sealed',
    stored: 'bytes',
    place: (row) => errorPlace(effectKey(row)),
  },
  {
    table: 'approvals',
    key: textKey('id'),
    column: 'params_sealed',
    stored: 'bytes',
    also: ['kind', 'run_id', 'step_id', 'item_index'],
    place: (row) =>
      row['kind'] === 'agent_call' ? agentInputPlace(String(row['id'])) : paramsPlace(effectKey(row)),
  },
  {
    table: 'approvals',
    key: textKey('id'),
    column: 'state_sealed',
    stored: 'bytes',
    place: (row) => statePlace(String(row['id'])),
  },
  {
    table: 'memory',
    key: textKey('organization_id', 'key'),
    column: 'value_sealed',
    stored: 'bytes',
    also: ['value_version'],
    place: (row) =>
      memoryPlace(String(row['organization_id']), String(row['key']), String(row['value_version'])),
  },
  {
    table: 'connections',
    key: textKey('id'),
    column: 'credential_sealed',
    stored: 'bytes',
    also: ['organization_id', 'secret_version'],
    place: (row) =>
      connectionPlace(
        String(row['organization_id']),
        String(row['id']),
        'credential',
        String(row['secret_version']),
      ),
  },
  ...(['text', 'rows'] as const).map((part): SealedColumn => ({
    table: 'files',
    key: textKey('id'),
    column: `${part}_sealed`,
    stored: 'bytes',
    also: ['organization_id'],
    place: (row) => filePlace(String(row['organization_id']), String(row['id']), part),
  })),
  {
    table: 'connection_attempts',
    key: textKey('state_hash'),
    column: 'verifier_sealed',
    stored: 'bytes',
    place: (row) => verifierPlace(String(row['state_hash'])),
  },
  {
    table: 'webhooks',
    key: textKey('id'),
    column: 'target_sealed',
    stored: 'bytes',
    also: ['organization_id', 'target_version'],
    place: (row) =>
      webhookPlace(String(row['organization_id']), String(row['id']), String(row['target_version'])),
  },
  {
    table: 'idempotency_keys',
    key: idempotencyKey,
    column: 'response_body',
    stored: 'base64',
    place: (row) => idempotencyPlace(idempotencyUse(row), 'answer'),
  },
  {
    table: 'idempotency_keys',
    key: idempotencyKey,
    column: 'made',
    stored: 'base64',
    place: (row) => idempotencyPlace(idempotencyUse(row), 'made'),
  },
]
