import { h } from 'preact'
import { Run, type RunShown } from '../parts/run.ts'
import type { Form, PersonsVisit, Problem, Shown } from '../visit.ts'
import { problemPage } from './problem.ts'

const fields = [
  'id',
  'organization_id',
  'workflow_id',
  'workflow_version',
  'status',
  'status_reason',
  'requested_by',
  'created_at',
  'finished_at',
  'waiting_for',
  'steps',
]

/** `GET /console/runs/{id}`. */
export async function runPage(visit: PersonsVisit, refused: Problem | null = null): Promise<Shown> {
  const id = visit.params['id'] ?? ''
  const found = await visit.api.call<RunShown>('GET /runs/{id}', { params: { id }, only: fields })
  if (!found.ok) return problemPage(found, visit.place)
  const run = found.body
  const workflow =
    run.workflow_id === null
      ? null
      : await visit.api.call<{ readonly name: string }>('GET /workflows/{id}', {
          params: { id: run.workflow_id },
        })
  const name = workflow?.ok === true ? workflow.body.name : null
  const role = visit.person.organizations.find((each) => each.id === run.organization_id)?.role ?? null
  return {
    status: refused?.status ?? 200,
    title: name ?? 'Run',
    main: h(Run, { run, name, role, visit, refused }),
  }
}

const outcomes = new Set(['retry', 'done', 'fail'])

/** `POST /console/runs/{id}`: cancels the run, or settles a call whose outcome is unknown. */
export async function changeRun(visit: PersonsVisit, form: Form): Promise<Shown> {
  const id = visit.params['id'] ?? ''
  const outcome = form.get('outcome')
  const once = { idempotencyKey: form.get('once') ?? crypto.randomUUID() }
  if (outcome !== null && outcomes.has(outcome)) {
    const item = form.get('item_index') ?? ''
    const body = { outcome, ...(/^\d+$/.test(item) ? { item_index: Number(item) } : {}) }
    const step = form.get('step') ?? ''
    const done = await visit.api.call('POST /runs/{id}/steps/{step}/resolve', {
      params: { id, step },
      body,
      only: ['id'],
      ...once,
    })
    return done.ok ? { redirect: `/console/runs/${id}` } : runPage(visit, done)
  }
  if (form.get('action') !== 'cancel')
    return runPage(visit, { status: 422, code: 'validation_error', message: 'Press one of the buttons.' })
  const done = await visit.api.call('POST /runs/{id}/cancel', {
    params: { id },
    body: {},
    only: ['id'],
    ...once,
  })
  return done.ok ? { redirect: `/console/runs/${id}` } : runPage(visit, done)
}
