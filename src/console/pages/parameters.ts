import type { ApprovalView } from '../../governance/approvals/read.ts'
import type { JsonObject } from '../../policy/types.ts'
import type { RunSummary } from '../parts/outcome.ts'
import { mostShown } from '../parts/words.ts'
import { hasRole, roleIn } from '../role.ts'
import type { PersonsVisit, Shown } from '../visit.ts'
import { problemPage } from './problem.ts'

/** What an approval covers: a call with its parameters, or a run with its inputs. null: the reader may not see it. */
export function coveredBy(
  visit: PersonsVisit,
  { kind, organization_id, approver, params, tool, workflow_id }: ApprovalView,
  run: Pick<RunSummary, 'inputs'> | null,
): JsonObject | null {
  if (kind !== 'run') return params === undefined ? null : { tool, params }
  if (run === null || !hasRole(roleIn(visit, organization_id), approver)) return null
  return { workflow_id, inputs: run.inputs }
}

/** Whether this is too long for the page of the approval, which then shows only its beginning. */
export const isTooLong = (covered: JsonObject | null): boolean =>
  covered !== null && JSON.stringify(covered, null, 2).length > mostShown

/**
 * `GET /console/approvals/{id}/parameters`: a file with exactly what the approval covers, for people who may decide.
 * The SHA-256 of the file of a call is the hash of the approval.
 */
export async function parametersFile(visit: PersonsVisit): Promise<Shown> {
  const id = visit.params['id'] ?? ''
  const found = await visit.api.call<ApprovalView>('GET /approvals/{id}', { params: { id } })
  if (!found.ok) return problemPage(found, visit.place)
  const { kind, run_id } = found.body
  const run =
    kind === 'run' && run_id !== null
      ? await visit.api.call<RunSummary>('GET /runs/{id}', { params: { id: run_id }, only: ['inputs'] })
      : null
  const covered = coveredBy(visit, found.body, run?.ok === true ? run.body : null)
  return covered === null
    ? problemPage(
        { status: 403, code: 'insufficient_role', message: 'only people who may decide see the parameters' },
        visit.place,
      )
    : { file: { name: `${found.body.id}.json`, value: covered } }
}
