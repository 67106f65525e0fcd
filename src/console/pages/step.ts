import { h } from 'preact'
import type { Page as ListPage } from '../../governance/page.ts'
import type { CallView } from '../../governance/runs/read/calls.ts'
import type { Json } from '../../policy/types.ts'
import { runFields, type RunShown } from '../run-fields.ts'
import { Step } from '../parts/step.ts'
import { roleIn } from '../role.ts'
import type { PersonsVisit, Shown } from '../visit.ts'
import { problemPage } from './problem.ts'

/** Number of calls on one page. */
const perPage = '10'

/** An output with more characters is not shown. Such a page would load slowly, and nobody would read it. */
const mostCharacters = 1_000_000

/** `GET /console/runs/{id}/steps/{step}`: a step's calls with their parameters, and its output. */
export async function stepPage(visit: PersonsVisit): Promise<Shown> {
  const id = visit.params['id'] ?? ''
  const found = await visit.api.call<RunShown>('GET /runs/{id}', { params: { id }, only: runFields })
  if (!found.ok) return problemPage(found, visit.place)
  const run = found.body
  const place = run.steps.findIndex((each) => each.id === visit.params['step']) + 1
  const step = run.steps[place - 1]
  if (step === undefined) return problemPage({ status: 404, code: 'not_found', message: '' }, visit.place)
  const params = { id, step: step.id }
  const cursor = visit.query.get('calls')
  const [calls, output] = await Promise.all([
    visit.api.call<ListPage<CallView>>('GET /runs/{id}/steps/{step}/calls', {
      params,
      query: { limit: perPage, ...(cursor === null ? {} : { cursor }) },
    }),
    visit.api.call<Json>('GET /runs/{id}/steps/{step}/output', { params, mostCharacters }),
  ])
  return {
    status: 200,
    title: `${step.id} · ${run.workflow_name ?? 'Run'}`,
    main: h(Step, { run, step, place, calls, output, role: roleIn(visit, run.organization_id), visit }),
  }
}
