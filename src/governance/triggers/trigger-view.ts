import { timingSafeEqual, createHash } from 'node:crypto'
import type { Selectable } from 'kysely'
import type {
  PollSettings,
  ScheduleSettings,
  TriggerKind,
  TriggerFiringsTable,
  TriggersTable,
  WebhookSettings,
} from '../../db/schema/triggers.ts'
import type { JsonObject } from '../../policy/types.ts'
import { publicBase, type Config } from '../../shared/config.ts'
import { newVersion, triggerBinding } from '../sealing/bindings.ts'
import type { Sealer } from '../sealing/sealer.ts'

export type TriggerRow = Selectable<TriggersTable>
export type ScheduleRow = TriggerRow & { readonly settings: ScheduleSettings; readonly next_due_at: Date }

export type PollRow = TriggerRow & {
  readonly settings: PollSettings
  readonly next_due_at: Date
  readonly poll_workflow_id: string
}

export const isPoll = (row: TriggerRow): row is PollRow => row.kind === 'poll'

export const isSchedule = (row: TriggerRow): row is ScheduleRow => row.kind === 'schedule'

/** Sealed in the trigger's row: inputs can name people, and a secret proves messages. */
export interface Kept {
  /** As the author wrote them, with expressions. */
  readonly inputs: JsonObject
  /** null for a schedule. */
  readonly secret: string | null
}

/** Returns the columns for the trigger's row. */
export async function sealKept(
  sealer: Pick<Sealer, 'seal'>,
  { organization_id, id }: Pick<TriggerRow, 'organization_id' | 'id'>,
  kept: Kept,
): Promise<Pick<TriggerRow, 'sealed' | 'sealed_version'>> {
  const sealed_version = newVersion()
  const place = triggerBinding(organization_id, id, sealed_version)
  return { sealed: await sealer.seal(place, JSON.stringify(kept)), sealed_version }
}

/** Throws UnsealError. */
export async function openKept(
  sealer: Pick<Sealer, 'open'>,
  row: Pick<TriggerRow, 'organization_id' | 'id' | 'sealed' | 'sealed_version'>,
): Promise<Kept> {
  const place = triggerBinding(row.organization_id, row.id, row.sealed_version)
  return JSON.parse(await sealer.open(place, row.sealed)) as Kept
}

/** Without its secret. */
export interface TriggerView {
  readonly id: string
  readonly organization_id: string
  readonly workflow_id: string
  readonly name: string
  readonly kind: TriggerKind
  readonly version: number | 'latest'
  readonly service_account: string
  readonly untrusted: boolean
  readonly inputs: JsonObject
  readonly schedule: (ScheduleSettings & { readonly next_due_at: string }) | null
  readonly webhook: (WebhookSettings & { readonly url: string }) | null
  readonly poll: (PollSettings & PollState) | null
  readonly paused: boolean
  /** Who paused it, or why the service did. */
  readonly paused_reason: string | null
  /** Ids of everybody who made, changed or resumed it. */
  readonly armed_by: readonly string[]
  readonly created_by: string
  readonly created_at: string
  readonly updated_at: string
}

interface PollState {
  readonly next_due_at: string
  /** When the output of a call was last taken. */
  readonly polled_at: string | null
  /** The workflow of its calls. \`GET /runs\` lists them only by this id. */
  readonly workflow_id: string
}

export const deliveryPath = (id: string): string => `/api/v1/deliveries/${id}`

export const triggerView = (
  { config }: { readonly config: Pick<Config, 'http'> },
  row: TriggerRow,
  { inputs }: Pick<Kept, 'inputs'>,
): TriggerView => ({
  id: row.id,
  organization_id: row.organization_id,
  workflow_id: row.workflow_id,
  name: row.name,
  kind: row.kind,
  version: row.version ?? 'latest',
  service_account: row.service_account,
  untrusted: row.untrusted,
  inputs,
  schedule: isSchedule(row) ? { ...row.settings, next_due_at: row.next_due_at.toISOString() } : null,
  webhook:
    row.kind === 'webhook'
      ? { ...(row.settings as WebhookSettings), url: publicBase(config) + deliveryPath(row.id) }
      : null,
  poll: isPoll(row)
    ? {
        ...row.settings,
        next_due_at: row.next_due_at.toISOString(),
        polled_at: row.polled_at?.toISOString() ?? null,
        workflow_id: row.poll_workflow_id,
      }
    : null,
  paused: row.paused_reason !== null,
  paused_reason: row.paused_reason,
  armed_by: row.armed_by,
  created_by: row.created_by,
  created_at: row.created_at.toISOString(),
  updated_at: row.updated_at.toISOString(),
})

export const firingView = (row: Selectable<TriggerFiringsTable>) => ({
  id: row.id,
  trigger_id: row.trigger_id,
  state: row.state,
  due_at: row.due_at?.toISOString() ?? null,
  run_id: row.run_id,
  reason: row.reason,
  poll_run_id: row.poll_run_id,
  created_at: row.created_at.toISOString(),
})

/** In a time that says nothing of the secret. */
export function sameText(given: string, wanted: string): boolean {
  const digest = (text: string) => createHash('sha256').update(text).digest()
  return timingSafeEqual(digest(given), digest(wanted))
}
