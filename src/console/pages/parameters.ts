import { summaryFields, type RunSummary } from '../parts/outcome.tsx'
import { lengthOf, type Fields } from '../parts/values.tsx'
import { mostShown } from '../parts/words.tsx'
import {
  isDecider,
  type PersonsVisit,
  type Problem,
  type Result,
  type Shown,
  type ApprovalView,
} from '../visit.ts'
import { problemPage } from './plain.tsx'

/** The parameters or inputs that it covers; null if the reader may not see them, or `run` is needed and null. */
export function coveredBy(
  visit: PersonsVisit,
  approval: ApprovalView,
  run: Pick<RunSummary, 'inputs' | 'definition'> | null,
): Fields | null {
  const { kind, params, tool, workflow_id } = approval
  if (kind !== 'run') return params === undefined ? null : { tool, params }
  if (run === null || !isDecider(visit, approval)) return null
  const { inputs, definition } = run
  if (inputs === undefined) return null
  return { workflow_id, inputs, ...(definition ? { steps: definition.steps } : {}) }
}

export const isTooLong = (covered: Fields | null): boolean =>
  covered !== null && lengthOf(covered) > mostShown

/** For an approval of the whole run, also reads the definition that it would follow, if the reader may decide. */
export async function readRun(
  visit: PersonsVisit,
  approval: Pick<ApprovalView, 'kind' | 'run_id' | 'workflow_id' | 'organization_id' | 'approvers'>,
): Promise<Result<RunSummary>> {
  const { kind, run_id: id, workflow_id: workflow } = approval
  const run = await visit.api.call('GET /runs/{id}', {
    params: { id: id ?? '' },
    only: summaryFields,
  })
  if (!run.ok || kind !== 'run') return run
  const isShown = workflow !== null && isDecider(visit, approval)
  const version = isShown
    ? await visit.api.call('GET /workflows/{id}/versions/{version}', {
        params: { id: workflow, version: String(run.body.workflow_version) },
        only: ['definition'],
      })
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
 * `GET /console/approvals/{id}/parameters`: exactly what the approval covers, for people who may decide. For a call,
 * the SHA-256 of the file is the approval's `params_hash`.
 */
export async function parametersFile(visit: PersonsVisit): Promise<Shown> {
  const id = visit.params['id'] ?? ''
  const found = await visit.api.call('GET /approvals/{id}', { params: { id } })
  if (!found.ok) return problemPage(found, visit.place)
  const run = found.body.kind === 'run' ? await readRun(visit, found.body) : null
  if (run?.ok === false) return problemPage(run, visit.place)
  const covered = coveredBy(visit, found.body, run?.body ?? null)
  return covered === null
    ? problemPage(refused, visit.place)
    : { file: { name: `${found.body.id}.json`, value: covered } }
}
