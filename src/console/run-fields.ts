import type { RunView } from '../governance/runs/read/read.ts'

/** The fields of a run that the pages about the run show. */
export const runFields = [
  'id',
  'organization_id',
  'workflow_id',
  'workflow_name',
  'workflow_version',
  'agent_session_id',
  'status',
  'status_reason',
  'waiting_for',
  'requested_by',
  'requester_email',
  'inputs',
  'input_labels',
  'result',
  'steps',
  'risk',
  'created_at',
  'started_at',
  'finished_at',
  'data_removed_at',
  'duration_ms',
  'changed_since_your_last_run',
] as const

export type RunShown = Pick<
  RunView,
  Exclude<(typeof runFields)[number], 'workflow_id' | 'workflow_version' | 'agent_session_id'>
> & {
  /** Is null if the run is the record of an agent's session. */
  readonly workflow_id: string | null
  readonly workflow_version: number | null
  readonly agent_session_id?: string
}
