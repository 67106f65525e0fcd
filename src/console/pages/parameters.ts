import type { ApprovalView } from '../../governance/approvals/read.ts'
import type { WorkflowDefinition } from '../../contract/definition.ts'
import type { Json, JsonObject } from '../../policy/types.ts'
import { summaryFields, type RunSummary } from '../parts/outcome.ts'
import { lengthOf } from '../parts/values.ts'
import { mostShown } from '../parts/words.ts'
import { hasRole, roleIn } from '../role.ts'
import type { PersonsVisit, Problem, Result, Shown } from '../visit.ts'
import { problemPage } from './problem.ts'

/**
 * Returns what an approval covers: a call with its parameters, or a run with its inputs. Returns null if the reader may
 * not see this, or if the approval covers a run and `run` is null.
 */
export function coveredBy(
  visit: PersonsVisit,
  { kind, organization_id, approver, params, tool, workflow_id }: ApprovalView,
  run: Pick<RunSummary, 'inputs' | 'definition'> | null,
): JsonObject | null {
  if (kind !== 'run') return params === undefined ? null : { tool, params }
  if (run === null || !hasRole(roleIn(visit, organization_id), approver)) return null
  const { inputs, definition } = run
  if (inputs === undefined) return null
  // A definition has come from JSON, so its steps are JSON too.
  return { workflow_id, inputs, ...(definition ? { steps: definition.steps as unknown as Json } : {}) }
}

/** Returns whether this value is too long for the approval's page. In this case, the page shows only the beginning. */
export const isTooLong = (covered: JsonObject | null): boolean =>
  covered !== null && lengthOf(covered) > mostShown

/**
 * Reads the run of an approval. The approval covers either this whole run or one of its calls. For a whole run, also
 * reads the definition that the run would follow, if the reader may decide.
 */
export async function readRun(
  visit: PersonsVisit,
  approval: Pick<ApprovalView, 'kind' | 'run_id' | 'workflow_id' | 'organization_id' | 'approver'>,
): Promise<Result<RunSummary>> {
  const { kind, run_id: id, workflow_id: workflow, organization_id, approver } = approval
  const run = await visit.api.call<RunSummary>('GET /runs/{id}', {
    params: { id: id ?? '' },
    only: summaryFields,
  })
  if (!run.ok || kind !== 'run') return run
  const isShown = workflow !== null && hasRole(roleIn(visit, organization_id), approver)
  const version = isShown
    ? await visit.api.call<{ readonly definition: WorkflowDefinition }>(
        'GET /workflows/{id}/versions/{version}',
        { params: { id: workflow, version: String(run.body.workflow_version) }, only: ['definition'] },
      )
    : null
  return {
    ok: true,
    body: { ...run.body, definition: version?.ok === true ? version.body.definition : null },
  }
}

const refused: Problem = {
  status: 403,
  code: 'insufficient_role',
  message: 'only people who may decide see the parameters',
}

/**
 * `GET /console/approvals/{id}/parameters`: returns a file with exactly what the approval covers. Only people who may
 * decide get the file. For a call, the SHA-256 of the file is the approval's `params_hash`.
 */
export async function parametersFile(visit: PersonsVisit): Promise<Shown> {
  const id = visit.params['id'] ?? ''
  const found = await visit.api.call<ApprovalView>('GET /approvals/{id}', { params: { id } })
  if (!found.ok) return problemPage(found, visit.place)
  const run = found.body.kind === 'run' ? await readRun(visit, found.body) : null
  if (run?.ok === false) return problemPage(run, visit.place)
  const covered = coveredBy(visit, found.body, run?.body ?? null)
  return covered === null
    ? problemPage(refused, visit.place)
    : { file: { name: `${found.body.id}.json`, value: covered } }
}
