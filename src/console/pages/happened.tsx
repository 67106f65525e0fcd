import { callId } from '../../contract/ids.ts'
import type { JsonObject } from '../../policy/types.ts'
import { Checks, empty, labelled, onceOf, Refused, type Filled } from '../parts/form.tsx'
import { InputFields, labelsOf, readFields, type Declared } from '../parts/inputs.tsx'
import { itemNumber } from '../parts/items.tsx'
import { OnceField, PostForm } from '../parts/layout.tsx'
import { addressOf, chosenOf } from '../parts/list.tsx'
import { runFields, type RunShown } from '../parts/steps.tsx'
import { WhereToLook } from '../parts/outcome.tsx'
import { Words } from '../parts/words.tsx'
import { hasRole, roleIn, type Form, type PersonsVisit, type Shown } from '../visit.ts'
import { problemPage } from './plain.tsx'
import { runsPath } from './runs.tsx'

/*
 * `/console/runs/{id}/steps/{step}/happened`: a person has found a call whose outcome nobody knew, says so, and gives
 * what later steps read of it.
 */

const at = 'output'
const refused = 'Nothing was saved. Change this:'
const names = ['attempt', 'item_index', 'all'] as const

export const happenedPath = (run: string, step: string, form: Form): string =>
  addressOf(`${runsPath}/${run}/steps/${encodeURIComponent(step)}/happened`, chosenOf(form, names))

interface Found {
  readonly run: RunShown
  readonly waiting: RunShown['waiting_for'][number]
  readonly fields: Declared
}

async function find(visit: PersonsVisit, chosen: Form): Promise<Found | Shown> {
  const { id = '', step = '' } = visit.params
  const found = await visit.api.call('GET /runs/{id}', { params: { id }, only: runFields })
  if (!found.ok) return problemPage(found, visit.place)
  const run = found.body
  const { item_index: item, attempt } = chosenOf(chosen, names)
  const own = run.waiting_for.filter(
    (each) =>
      each.kind === 'resolution' &&
      each.step_id === step &&
      (item === undefined || String(each.item_index) === item),
  )
  const waiting = own.find((each) => attempt === undefined || String(each.attempt) === attempt) ?? own[0]
  if (waiting === undefined || !hasRole(roleIn(visit, run.organization_id), 'admin'))
    return { redirect: `${runsPath}/${id}` }
  // It was made again since the person saw it: they have looked for another call.
  if (attempt !== undefined && String(waiting.attempt) !== attempt)
    return { redirect: addressOf(`${runsPath}/${id}`, { done: 'other' }) }
  const call = { run_id: run.id, step_id: step, item_index: waiting.item_index ?? -1 }
  const [tool, approval] = await Promise.all([
    visit.api.call('GET /tools/{name}', { params: { name: waiting.tool ?? '' } }),
    // It also knows the page of the service.
    visit.api.call('GET /approvals/{id}', { params: { id: callId(call) }, only: ['sought'] }),
  ])
  const sought = approval.ok ? approval.body.sought : waiting.sought
  return { run, waiting: { ...waiting, sought }, fields: tool.ok ? declaredIn(tool.body.output) : {} }
}

/** The fields of a JSON Schema. What is neither a text, a number nor a choice is written as JSON. */
function declaredIn(schema: Readonly<Record<string, unknown>>): Declared {
  const properties = (schema['properties'] ?? {}) as Readonly<Record<string, { readonly type?: unknown }>>
  return Object.fromEntries(
    Object.entries(properties).map(([name, { type }]) => [name, { type: typeOf(type) }]),
  )
}

const typeOf = (type: unknown): Declared[string]['type'] =>
  type === 'integer' || type === 'number'
    ? 'number'
    : type === 'boolean' || type === 'string' || type === 'array'
      ? type
      : 'object'

/** `GET /console/runs/{id}/steps/{step}/happened` */
export async function happenedPage(visit: PersonsVisit, given: Filled = empty): Promise<Shown> {
  const chosen = given.form ?? visit.query
  const found = await find(visit, chosen)
  if (!('run' in found)) return found
  const { run, waiting, fields } = found
  const filled = labelled(given, { ...labelsOf(fields, at), confirmed: 'Confirmation' }, {}, refused)
  const { all, item_index: item } = chosenOf(chosen, names)
  return {
    status: filled.problem?.status ?? 200,
    title: 'It happened',
    main: (
      <article class="page medium">
        <header class="headline">
          <p class="crumbs small">
            <a href={`${runsPath}/${run.id}`}>
              <Words text={run.workflow_name ?? 'Run'} most={80} />
            </a>
          </p>
          <h1>It happened</h1>
          <p class="quiet">
            Step{' '}
            <code>
              <Words text={waiting.step_id ?? ''} most={100} />
            </code>
            {all === 'true'
              ? ', all items whose outcome is unknown'
              : item === undefined
                ? null
                : `, item ${itemNumber(Number(item))}`}
          </p>
          {waiting.sought === null ? null : <WhereToLook sought={waiting.sought} />}
        </header>
        <Refused filled={filled} />
        <PostForm action={visit.place} token={visit.token} class="card fill">
          <OnceField />
          {names.map((name) =>
            chosen.get(name) === null ? null : (
              <input type="hidden" name={name} value={chosen.get(name) ?? ''} />
            ),
          )}
          <p>
            What the service shows of it. Later steps read these fields. If you leave all of them empty, later
            steps read nothing.
          </p>
          <InputFields declared={fields} at={at} filled={filled} />
          <Checks
            name="confirmed"
            options={[['yes', 'I have looked at the service, and it is there']]}
            checked={[]}
            filled={filled}
          />
          <p class="quiet small">The run, its receipt and the audit log say that you said so.</p>
          <div class="row">
            <button class="primary">It happened: go on</button>
          </div>
        </PostForm>
      </article>
    ),
  }
}

/** `POST /console/runs/{id}/steps/{step}/happened` */
export async function sayHappened(visit: PersonsVisit, form: Form): Promise<Shown> {
  const found = await find(visit, form)
  if (!('run' in found)) return found
  const read = readFields(found.fields, form, { at, refused })
  if ('problem' in read) return happenedPage(visit, { form, problem: read.problem })
  if (form.get('confirmed') === null)
    return happenedPage(visit, {
      form,
      problem: {
        status: 422,
        code: 'validation_error',
        message: refused,
        details: [{ path: 'confirmed', message: 'look at the service first, then confirm it' }],
      },
    })
  const done = await resolveCall(
    visit,
    form,
    'done',
    Object.keys(read.values).length === 0 ? undefined : read.values,
  )
  return done.ok ? { redirect: `${runsPath}/${found.run.id}` } : happenedPage(visit, { form, problem: done })
}

/** `step` is in the path, or a field of the form. */
export function resolveCall(
  visit: PersonsVisit,
  form: Form,
  outcome: 'done' | 'retry' | 'fail',
  output?: JsonObject,
) {
  const item = form.get('item_index') ?? ''
  const attempt = form.get('attempt') ?? ''
  const which =
    form.get('all') === 'true'
      ? { all: true as const }
      : /^\d{1,5}$/.test(item)
        ? { item_index: Number(item) }
        : {}
  return visit.api.call('POST /runs/{id}/steps/{step}/resolve', {
    params: { id: visit.params['id'] ?? '', step: visit.params['step'] ?? form.get('step') ?? '' },
    body: {
      outcome,
      ...which,
      ...(/^\d{1,3}$/.test(attempt) ? { attempt: Number(attempt) } : {}),
      ...(output === undefined ? {} : { output }),
    },
    only: ['id'],
    ...onceOf(form),
  })
}
