import type { EffectKey } from '../../contract/ids.ts'
import type { ApprovalKind } from '../../contract/status.ts'
import {
  agentInputBinding,
  changeBinding,
  connectionBinding,
  errorBinding,
  fileBinding,
  idempotencyBinding,
  inputsBinding,
  keptInputsBinding,
  memoryBinding,
  outputBinding,
  paramsBinding,
  providerBinding,
  resultBinding,
  stateBinding,
  triggerBinding,
  verifierBinding,
  webhookBinding,
} from './bindings.ts'

export interface SealedColumn {
  readonly table: string
  /** The primary key, in order. The default is `id`. */
  readonly key?: readonly string[]
  readonly column: string
  /** A text column with base64 instead of `bytea`. */
  readonly isBase64?: true
  /** What `binding` reads beside the key. */
  readonly also?: readonly string[]
  binding(row: Row): string
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

const ofRun = (column: string, binding: (runId: string) => string): SealedColumn => ({
  table: 'runs',
  column: `${column}_sealed`,
  binding: (row) => binding(text(row, 'id')),
})
const ofEffect = (column: string, binding: (key: EffectKey) => string): SealedColumn => ({
  table: 'effects',
  key: effectColumns,
  column,
  binding: (row) => binding(effectKey(row)),
})
const ofIdempotency = (column: string, value: 'answer' | 'made'): SealedColumn => ({
  table: 'idempotency_keys',
  key: idempotencyKey,
  column,
  isBase64: true,
  binding: (row) => idempotencyBinding(idempotencyUse(row), value),
})
const ofFile = (part: 'text' | 'rows'): SealedColumn => ({
  table: 'files',
  column: `${part}_sealed`,
  also: ['organization_id'],
  binding: (row) => fileBinding(text(row, 'organization_id'), text(row, 'id'), part),
})

/** What an approval covers, by its kind. A whole run seals nothing here. */
const approvedBinding: Readonly<Record<ApprovalKind, (row: Row) => string>> = {
  step: (row) => paramsBinding(effectKey(row)),
  run: (row) => paramsBinding(effectKey(row)),
  agent_call: (row) => agentInputBinding(text(row, 'id')),
  change: (row) => changeBinding(text(row, 'id')),
  ask: (row) => paramsBinding(effectKey(row)),
  repeat: (row) => paramsBinding(effectKey(row)),
  revision: (row) => paramsBinding(effectKey(row)),
  edit: (row) => paramsBinding(effectKey(row)),
}

/** Every column with sealed values. `npm run rotate-key` reseals them, and a test compares the list with the tables. */
export const sealedColumns: readonly SealedColumn[] = [
  ofRun('inputs', inputsBinding),
  ofRun('result', resultBinding),
  ofEffect('params_sealed', paramsBinding),
  ofEffect('output_sealed', outputBinding),
  ofEffect('error_detail_sealed', errorBinding),
  {
    table: 'approvals',
    column: 'params_sealed',
    also: ['kind', ...effectColumns],
    binding: (row) => approvedBinding[text(row, 'kind') as ApprovalKind](row),
  },
  { table: 'approvals', column: 'state_sealed', binding: (row) => stateBinding(text(row, 'id')) },
  {
    table: 'memory',
    key: ['organization_id', 'key'],
    column: 'value_sealed',
    also: ['value_version'],
    binding: (row) =>
      memoryBinding(text(row, 'organization_id'), text(row, 'key'), text(row, 'value_version')),
  },
  {
    table: 'connections',
    column: 'credential_sealed',
    also: ['organization_id', 'secret_version'],
    binding: (row) =>
      connectionBinding(text(row, 'organization_id'), text(row, 'id'), text(row, 'secret_version')),
  },
  ofFile('text'),
  ofFile('rows'),
  {
    table: 'connection_attempts',
    key: ['state_hash'],
    column: 'verifier_sealed',
    binding: (row) => verifierBinding(text(row, 'state_hash')),
  },
  {
    table: 'sign_in_providers',
    key: ['organization_id'],
    column: 'client_secret_sealed',
    also: ['secret_version'],
    binding: (row) => providerBinding(text(row, 'organization_id'), text(row, 'secret_version')),
  },
  {
    table: 'webhooks',
    column: 'target_sealed',
    also: ['organization_id', 'target_version'],
    binding: (row) =>
      webhookBinding(text(row, 'organization_id'), text(row, 'id'), text(row, 'target_version')),
  },
  {
    table: 'triggers',
    column: 'sealed',
    also: ['organization_id', 'sealed_version'],
    binding: (row) =>
      triggerBinding(text(row, 'organization_id'), text(row, 'id'), text(row, 'sealed_version')),
  },
  {
    table: 'decision_inputs',
    column: 'sealed',
    binding: (row) => keptInputsBinding(text(row, 'id')),
  },
  ofIdempotency('response_body', 'answer'),
  ofIdempotency('made', 'made'),
]
