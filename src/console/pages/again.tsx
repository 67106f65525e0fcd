import type { AnswerOf } from '../../api/routes/index.ts'
import { inputsRead } from '../../contract/definition-graph.ts'
import { runEnded } from '../../contract/status.ts'
import type { Json } from '../../policy/types.ts'
import { empty, labelled, onceOf, Refused, Select, type Filled } from '../parts/form.tsx'
import { asText, InputFields, labelsOf, readFields, type Declared } from '../parts/inputs.tsx'
import { OnceField, PostForm } from '../parts/layout.tsx'
import { RunReason } from '../parts/items.tsx'
import { runFields, type RunShown } from '../parts/steps.tsx'
import { Words } from '../parts/words.tsx'
import { hasRole, roleIn, type Form, type PersonsVisit, type Shown } from '../visit.ts'
import { problemPage } from './plain.tsx'
import { runsPath } from './runs.tsx'

/* `/console/runs/{id}/again`: a run is made again from an ended one, with the inputs that it had. */

/** Whether the page has a form for this person. The API refuses what is wrong beyond that. */
export const isRepeatable = (visit: PersonsVisit, run: RunShown): boolean => {
  const role = roleIn(visit, run.organization_id)
  const isAllowed =
    hasRole(role, 'admin') || (hasRole(role, 'member') && run.requested_by === visit.person.user.id)
  return (
    isAllowed &&
    run.workflow_id !== null &&
    runEnded(run.status) &&
    run.data_removed_at === null &&
    run.values_hidden === undefined
  )
}

const at = 'inputs'
const refused = 'Nothing was started. Change this:'
/** Characters. A longer input has no field, and stays as it is. */
const longestField = 4_000

/** What becomes of a call that an earlier run has made. */
export const repeatChoices = [
  ['hold', 'Ask before it is made again'],
  ['skip', 'Leave it out'],
  ['allow', 'Make it once more'],
] as const

const deleted = {
  status: 409,
  code: 'bad_transition',
  message: 'The workflow of this run was deleted: start the one that took its place.',
}

const choices = {
  from: [
    ['failed', 'From what failed'],
    ['start', 'From the start, with every step'],
  ],
  on_repeat: repeatChoices,
  unknown_outcomes: [
    ['', 'Not known yet'],
    ['happened', 'It happened'],
    ['did_not_happen', 'It did not happen'],
  ],
} as const

const words = {
  from: 'Begin',
  version: 'Version of the workflow',
  on_repeat: 'What an earlier run has written or sent with the same parameters',
  unknown_outcomes: 'Calls whose outcome is unknown',
}

interface Found {
  readonly run: RunShown
  readonly inputs: Declared
  /** As texts; those that are too long for a field are left out. */
  readonly given: Form
  readonly readers: readonly Reader[]
}

/** A call that was made, and the inputs without which it would be another one. */
interface Reader {
  readonly step: string
  readonly tool: string
  readonly reads: readonly string[]
}

async function find(visit: PersonsVisit): Promise<Found | Shown> {
  const id = visit.params['id'] ?? ''
  const found = await visit.api.call('GET /runs/{id}', { params: { id }, only: runFields })
  if (!found.ok) return problemPage(found, visit.place)
  const run = found.body
  if (!isRepeatable(visit, run)) return { redirect: `${runsPath}/${id}` }
  const workflow = await visit.api.call('GET /workflows/{id}', { params: { id: run.workflow_id ?? '' } })
  if (!workflow.ok) return problemPage(workflow.status === 404 ? deleted : workflow, visit.place)
  const fields = Object.entries(declaredIn(workflow.body)).flatMap(([name, declaration]) => {
    const text = asText(run.inputs?.[name] as Json | undefined)
    return text.length > longestField ? [] : [{ name, declaration, text }]
  })
  return {
    run,
    inputs: Object.fromEntries(fields.map(({ name, declaration }) => [name, declaration])),
    given: new URLSearchParams(fields.map(({ name, text }) => [`${at}.${name}`, text])),
    readers: readersIn(run, workflow.body, new Set(fields.map(({ name }) => name))),
  }
}

function readersIn(
  { steps }: RunShown,
  { definition }: AnswerOf<'GET /workflows/{id}'>,
  fields: ReadonlySet<string>,
): Reader[] {
  const read = inputsRead(definition)
  return steps.flatMap(({ id: step, tool, status }) => {
    const reads = [...(read.get(step) ?? [])].filter((name) => fields.has(name))
    return tool === null || status !== 'completed' || reads.length === 0 ? [] : [{ step, tool, reads }]
  })
}

/** The newest version says which fields there are: not everybody reads the earlier ones. */
const declaredIn = ({ definition }: AnswerOf<'GET /workflows/{id}'>): Declared => definition.inputs ?? {}

/** `GET /console/runs/{id}/again` */
export async function againPage(visit: PersonsVisit, filledIn: Filled = empty): Promise<Shown> {
  const found = await find(visit)
  if (!('run' in found)) return found
  const { run, inputs, given, readers } = found
  const filled = labelled(
    { ...filledIn, form: filledIn.form ?? given },
    { ...labelsOf(inputs, at), ...words },
    {},
    refused,
  )
  const isUnknown = run.steps.some(
    ({ status, unresolved_items: items }) => status === 'unknown_outcome' || items.length > 0,
  )
  return {
    status: filled.problem?.status ?? 200,
    title: 'Run again',
    main: (
      <article class="page medium">
        <header class="headline">
          <p class="crumbs small">
            <a href={`${runsPath}/${run.id}`}>The earlier run</a>
          </p>
          <h1>
            Run <Words text={run.workflow_name ?? ''} most={120} /> again
          </h1>
          <p class="quiet">
            <RunReason run={run} />
          </p>
        </header>
        <Refused filled={filled} />
        <PostForm action={`${runsPath}/${run.id}/again`} token={visit.token} class="card fill">
          <OnceField />
          <InputFields declared={inputs} at={at} filled={filled} />
          <Readers readers={readers} />
          <Select
            name="from"
            options={choices.from}
            value={run.status === 'completed' ? 'start' : 'failed'}
            filled={filled}
            help="From what failed: a step that was completed is taken over with its output, if it and what it reads are the same."
          />
          <Select
            name="version"
            options={[
              ['same', `The same: ${run.workflow_version ?? ''}`],
              ['latest', 'The newest one'],
            ]}
            filled={filled}
          />
          <Select name="on_repeat" options={choices.on_repeat} filled={filled} />
          {isUnknown || problemsNeedIt(filled) ? (
            <Select
              name="unknown_outcomes"
              options={choices.unknown_outcomes}
              filled={filled}
              help="Look for them at the service first."
            />
          ) : null}
          <div class="row">
            <button class="primary">Run again</button>
          </div>
        </PostForm>
      </article>
    ),
  }
}

const mostReaders = 20

/** What a changed input makes anew. */
function Readers({ readers }: { readers: readonly Reader[] }) {
  if (readers.length === 0) return null
  return (
    <div class="note small">
      <p>
        These calls were made already. If you change what they read, they are made again as other calls, and
        only your rules hold them:
      </p>
      <ul class="bullets">
        {readers.slice(0, mostReaders).map(({ step, tool, reads }) => (
          <li>
            <strong>
              <Words text={step} most={100} />
            </strong>{' '}
            (<Words text={tool} most={100} />) reads <Words text={reads.join(', ')} most={200} />
          </li>
        ))}
      </ul>
      {readers.length > mostReaders ? <p>{`and ${readers.length - mostReaders} more`}</p> : null}
    </div>
  )
}

/** An earlier run of the chain can have such a call too. */
const problemsNeedIt = ({ problem }: Filled): boolean =>
  problem?.message.includes('unknown_outcomes') === true

const chosen = <Value extends string>(
  form: Form,
  name: string,
  options: readonly (readonly [Value, string])[],
): Value | undefined => options.map(([value]) => value).find((value) => value === form.get(name))

const textIn = (form: Form, name: string): string =>
  (form.get(`${at}.${name}`) ?? '').replaceAll('\r\n', '\n').trim()

/** What stays as it is is not sent: it is a value of the earlier run, and no text of this form. */
const changedIn = ({ inputs, given }: Found, form: Form): Form =>
  new URLSearchParams(
    Object.keys(inputs)
      .filter((name) => textIn(form, name) !== textIn(given, name))
      .map((name) => [`${at}.${name}`, form.get(`${at}.${name}`) ?? '']),
  )

const isEmptied = ({ given }: Found, form: Form, name: string): boolean =>
  textIn(form, name) === '' && textIn(given, name) !== ''

/** `POST /console/runs/{id}/again` */
export async function runAgain(visit: PersonsVisit, form: Form): Promise<Shown> {
  const found = await find(visit)
  if (!('run' in found)) return found
  const { run, inputs } = found
  const emptied = Object.keys(inputs).filter((name) => isEmptied(found, form, name))
  const read = readFields(inputs, changedIn(found, form), { at, refused })
  if ('problem' in read) return againPage(visit, { form, problem: read.problem })
  const unknown = chosen(form, 'unknown_outcomes', choices.unknown_outcomes) || undefined
  const started = await visit.api.call('POST /runs/{id}/rerun', {
    params: { id: run.id },
    body: {
      inputs: { ...read.values, ...Object.fromEntries(emptied.map((name) => [name, null])) },
      from: chosen(form, 'from', choices.from) ?? 'failed',
      version: form.get('version') === 'latest' ? 'latest' : 'same',
      on_repeat: chosen(form, 'on_repeat', choices.on_repeat) ?? 'hold',
      ...(unknown === undefined ? {} : { unknown_outcomes: unknown }),
    },
    only: ['id'],
    ...onceOf(form),
  })
  return started.ok
    ? { redirect: `${runsPath}/${started.body.id}` }
    : againPage(visit, { form, problem: started })
}
