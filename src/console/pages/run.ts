import { h } from 'preact'
import { nothingDone, onceOf, reasonOf } from '../parts/ask.ts'
import { outcomeChoices } from '../parts/outcome-choices.ts'
import { Run } from '../parts/run.ts'
import { runFields, type RunShown } from '../run-fields.ts'
import { stepsPerPage } from '../parts/steps.ts'
import { hasRole, roleIn } from '../role.ts'
import type { Form, PersonsVisit, Problem, Shown } from '../visit.ts'
import { problemPage } from './problem.ts'
import { receiptOf } from './receipt.ts'
import { sentencesOf } from './sentences.ts'

/**
 * `GET /console/runs/{id}`: shows a run. If the run is the record of an agent's session, an admin or owner is
 * redirected to the page of the session.
 */
export async function runPage(visit: PersonsVisit, refused: Problem | null = null): Promise<Shown> {
  const id = visit.params['id'] ?? ''
  const [found, receipt] = await Promise.all([
    visit.api.call<RunShown>('GET /runs/{id}', { params: { id }, only: runFields }),
    receiptOf(visit, id),
  ])
  if (!found.ok) return problemPage(found, visit.place)
  const run = found.body
  const role = roleIn(visit, run.organization_id)
  const session = run.agent_session_id
  if (session !== undefined && hasRole(role, 'admin')) return { redirect: `/console/sessions/${session}` }
  return {
    status: refused?.status ?? 200,
    title: run.workflow_name ?? 'Run',
    main: h(Run, {
      run,
      role,
      part: partOf(visit.query.get('steps'), run.steps.length),
      receipt,
      sentences: await sentencesIn(visit, run),
      visit,
      refused,
    }),
  }
}

/** Returns one sentence for each waiting call of the run. Viewers get none, because they cannot read approvals. */
const sentencesIn = (visit: PersonsVisit, { id, organization_id, waiting_for }: RunShown) =>
  hasRole(roleIn(visit, organization_id), 'member') && waiting_for.some((each) => each.approval_id !== null)
    ? sentencesOf(visit, { run_id: id, organization_id })
    : new Map<string, string>()

/**
 * Returns the index of the part of the step list that the address asks for. The address counts parts from 1, and the
 * index begins at 0. Returns 0 if there is no such part.
 */
function partOf(given: string | null, steps: number): number {
  const part = Number(given ?? '1') - 1
  return Number.isInteger(part) && part >= 0 && part * stepsPerPage < steps ? part : 0
}

const outcomes = new Set<string>(outcomeChoices.map(([outcome]) => outcome))

/** `POST /console/runs/{id}`: cancels the run, or records a person's choice for calls whose outcome is unknown. */
export async function changeRun(visit: PersonsVisit, form: Form): Promise<Shown> {
  const id = visit.params['id'] ?? ''
  const done = outcomes.has(form.get('outcome') ?? '')
    ? await resolve(visit, form)
    : form.get('action') === 'cancel'
      ? await visit.api.call('POST /runs/{id}/cancel', {
          params: { id },
          body: reasonOf(form),
          only: ['id'],
          ...onceOf(form),
        })
      : nothingDone
  return done.ok ? { redirect: `/console/runs/${id}` } : runPage(visit, done)
}

function resolve(visit: PersonsVisit, form: Form) {
  const item = form.get('item_index') ?? ''
  const attempt = form.get('attempt') ?? ''
  const which =
    form.get('all') === 'true' ? { all: true } : /^\d{1,5}$/.test(item) ? { item_index: Number(item) } : {}
  return visit.api.call('POST /runs/{id}/steps/{step}/resolve', {
    params: { id: visit.params['id'] ?? '', step: form.get('step') ?? '' },
    body: {
      outcome: form.get('outcome'),
      ...which,
      ...(/^\d{1,3}$/.test(attempt) ? { attempt: Number(attempt) } : {}),
    },
    only: ['id'],
    ...onceOf(form),
  })
}
