import type { Selectable } from 'kysely'
import type { ApprovalsTable } from '../../db/schema/runs.ts'
import type { Json, JsonObject } from '../../policy/types.ts'
import { canonicalJson } from '../../shared/canonical-json.ts'
import { valuesOf } from '../../steps/index.ts'
import type { UnsealingRuns } from '../context.ts'
import { openParams } from '../runs/values/sealed-params.ts'
import { readVersion } from '../runs/values/version-cache.ts'
import { hiddenByApproval, type Deciding } from './sight.ts'
import { readVotes } from './votes.ts'

/* What people need to see of a held call whose parameters were edited, or are to be edited. */

/** One call is edited so often. The next rejection that asks for changes ends it. */
export const mostRevisions = 20

/** Who edited what the approval covered. It has no values. */
export interface ShownRevision {
  readonly by: { readonly user_id: string; readonly email: string }
  /** The absent person by whose right. */
  readonly for: { readonly user_id: string; readonly email: string } | null
  readonly params: readonly string[]
  readonly comment: string
}

export interface ShownEdits {
  /** As the definition has them, with their templates. */
  readonly written: JsonObject
  /** Parameters that differ from those of the approval that this one replaces. */
  readonly changed: readonly {
    readonly name: string
    /** Is absent if there was no such parameter, or if the viewer may not see its former value. */
    readonly before?: Json
    readonly after?: Json
  }[]
  /** What an approver asked for; null if nobody did. */
  readonly asked: { readonly email: string; readonly comment: string } | null
}

type Row = Pick<
  Selectable<ApprovalsTable>,
  'kind' | 'run_id' | 'step_id' | 'item_index' | 'workflow_id' | 'supersedes_id'
> & { readonly workflow_version: number | null; readonly requester_email: string | null }

/** `params`: those that the approval covers, which the viewer may see. */
export async function readEdits(
  context: UnsealingRuns,
  viewer: Deciding,
  row: Row,
  params: JsonObject,
): Promise<ShownEdits | null> {
  const { run_id: runId, step_id: stepId, workflow_id, workflow_version } = row
  if (runId === null || stepId === null || workflow_id === null || workflow_version === null) return null
  const { definition } = await readVersion(context, workflow_id, workflow_version)
  const step = definition.steps.find(({ id }) => id === stepId)
  if (step?.tool === undefined) return null
  const written = valuesOf(step)
  const former = row.supersedes_id === null ? undefined : await readFormer(context, row.supersedes_id)
  if (former === undefined) return { written, changed: [], asked: null }
  const votes = (await readVotes(context, [former.id])).get(former.id) ?? []
  const asking = row.kind === 'revision' ? votes.find((vote) => vote.changes_requested) : undefined
  const asked = asking === undefined ? null : { email: asking.email, comment: asking.comment }
  const isHidden = hiddenByApproval(viewer, { ...former, requester_email: row.requester_email }) !== null
  if (former.params_sealed === null) return { written, changed: [], asked }
  const key = { runId, stepId, itemIndex: row.item_index ?? -1 }
  const { params: before } = await openParams(context.sealer, key, former.params_sealed)
  return { written, changed: differences(before, params, isHidden), asked }
}

/** What the approvers saw before: a request for changes shows the same, but not to them. */
async function readFormer(context: UnsealingRuns, id: string) {
  const found = await context.db.selectFrom('approvals').selectAll().where('id', '=', id).executeTakeFirst()
  return found?.kind === 'revision' && found.supersedes_id !== null
    ? context.db.selectFrom('approvals').selectAll().where('id', '=', found.supersedes_id).executeTakeFirst()
    : found
}

function differences(before: JsonObject, after: JsonObject, isHidden: boolean): ShownEdits['changed'] {
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])]
  const has = (values: JsonObject, name: string): boolean => Object.hasOwn(values, name)
  return names.flatMap((name) => {
    const isSame =
      has(before, name) === has(after, name) &&
      canonicalJson(before[name] ?? null) === canonicalJson(after[name] ?? null)
    if (isSame) return []
    return [
      {
        name,
        ...(has(before, name) && !isHidden ? { before: before[name] ?? null } : {}),
        ...(has(after, name) ? { after: after[name] ?? null } : {}),
      },
    ]
  })
}
