import type { AnswerOf } from '../../api/routes/index.ts'
import { startPath, workflowPath, workflowsPath } from '../../contract/pages.ts'
import { references } from '../../policy/template-syntax.ts'
import { filesInput } from '../../policy/templates.ts'
import { visible } from '../../policy/readers/look-alikes.ts'
import { list } from '../../policy/text.ts'
import type { Json } from '../../policy/types.ts'
import { Checks, empty, Field, FileField, labelled, onceOf, Refused, type Filled } from '../parts/form.tsx'
import { InputFields, labelsOf, readFields, type Declared } from '../parts/inputs.tsx'
import { OnceField, PostForm } from '../parts/layout.tsx'
import { Message, Sentence, Words } from '../parts/words.tsx'
import { hasRole, roleIn, type Form, type PersonsVisit, type Problem, type Shown } from '../visit.ts'
import { problemPage } from './plain.tsx'
import { runsPath } from './runs.tsx'

/*
 * `/console/workflows/{id}/run`: a form made from the inputs of a workflow. A link with `?NAME=VALUE` fills it in, so that
 * one can send it to a colleague. Opening the link starts nothing.
 */

type Workflow = AnswerOf<'GET /workflows/{id}'>
type Preview = AnswerOf<'POST /workflows/{id}/authorization-preview'>

const at = 'inputs'
const refused = 'Nothing was started. Change this:'
const inputsOf = ({ definition }: Workflow): Declared => definition.inputs ?? {}

/** A definition does not declare files: it reads them as `{{input.uploaded_files}}`. */
const takesFiles = ({ definition }: Workflow): boolean =>
  references(definition as unknown as Json).some((each) => each.kind === 'input' && each.name === filesInput)

/** `GET /console/workflows/{id}/run` */
export async function startPage(
  visit: PersonsVisit,
  given: Filled = empty,
  preview: Preview | null = null,
): Promise<Shown> {
  const found = await visit.api.call('GET /workflows/{id}', { params: { id: visit.params['id'] ?? '' } })
  if (!found.ok) return problemPage(found, visit.place)
  const workflow = found.body
  const inputs = inputsOf(workflow)
  const labels = { ...labelsOf(inputs, at), ...fileLabels }
  const form = given.form ?? fromLink(visit.query, inputs)
  const filled = labelled({ ...given, form }, labels, { files: 'uploaded', name: 'file' }, refused)
  const withFiles = takesFiles(workflow)
  const mayStart = hasRole(roleIn(visit, workflow.organization_id), 'member')
  return {
    status: filled.problem?.status ?? 200,
    title: `Start ${workflow.name}`,
    main: (
      <article class="page medium">
        <header class="headline">
          <p class="crumbs small">
            <a href={workflowsPath}>Workflows</a>
            {' / '}
            <a href={workflowPath(workflow.id)}>
              <Words text={workflow.name} most={120} />
            </a>
          </p>
          <h1>
            Start <Words text={workflow.name} most={120} />
          </h1>
          {workflow.description === '' ? null : (
            <p class="quiet">
              <Words text={workflow.description} most={2_000} />
            </p>
          )}
        </header>
        <Refused filled={filled} />
        {preview === null ? null : <Previewed preview={preview} />}
        {mayStart ? null : (
          <p class="note">
            <Sentence text="To start it, you need the role `member`: ask an owner for it." />
          </p>
        )}
        <PostForm
          action={startPath.replace(':id', workflow.id)}
          token={visit.token}
          class="card fill"
          {...(withFiles ? { enctype: 'multipart/form-data' } : {})}
        >
          <OnceField />
          {Object.keys(inputs).length === 0 && !withFiles ? (
            <p class="quiet">This workflow takes no inputs.</p>
          ) : null}
          <InputFields declared={inputs} at={at} filled={filled} />
          {withFiles ? <Files kept={await keptFiles(visit, form)} filled={filled} /> : null}
          {mayStart ? <Buttons withFiles={withFiles} /> : null}
        </PostForm>
      </article>
    ),
  }
}

const Buttons = ({ withFiles }: { withFiles: boolean }) => (
  <div class="row">
    <button name="action" value="start" class="primary">
      Start the run
    </button>
    <button name="action" value="preview" class="plain" formnovalidate>
      Show what would wait
    </button>
    {withFiles ? (
      <button name="action" value="upload" class="plain" formnovalidate>
        Add another file
      </button>
    ) : null}
  </div>
)

/** `POST /console/workflows/{id}/run` */
export async function startRun(visit: PersonsVisit, sent: Form): Promise<Shown> {
  const id = visit.params['id'] ?? ''
  const found = await visit.api.call('GET /workflows/{id}', { params: { id } })
  if (!found.ok) return problemPage(found, visit.place)
  const { form, problem } = await keepFile(visit, found.body, sent)
  if (problem !== null || form.get('action') === 'upload') return startPage(visit, { form, problem })
  const read = readFields(inputsOf(found.body), form, { at, refused })
  if ('problem' in read) return startPage(visit, { form, problem: read.problem })
  const { values: inputs } = read
  const files = takesFiles(found.body) ? form.getAll('uploaded') : []
  if (form.get('action') === 'preview') {
    const preview = await visit.api.call('POST /workflows/{id}/authorization-preview', {
      params: { id },
      body: { inputs, files },
    })
    return preview.ok
      ? startPage(visit, { form, problem: null }, preview.body)
      : startPage(visit, { form, problem: preview })
  }
  const zone = visit.person.user.time_zone
  const started = await visit.api.call('POST /workflows/{id}/execute', {
    params: { id },
    query: { wait: '0' },
    body: { inputs, files, ...(zone === null ? {} : { time_zone: zone }) },
    ...onceOf(form),
  })
  return started.ok
    ? { redirect: `${runsPath}/${started.body.execution_id}` }
    : startPage(visit, { form, problem: started })
}

const fileLabels = { file: 'File', labels: 'Labels of the file', uploaded: 'Files of the run' }

/** The form with the id of its file, which is an organization's file from then on. */
async function keepFile(
  { api, hasFile }: PersonsVisit,
  workflow: Workflow,
  sent: Form,
): Promise<{ readonly form: Form; readonly problem: Problem | null }> {
  if (!hasFile || !takesFiles(workflow)) return { form: sent, problem: null }
  const { idempotencyKey: once } = onceOf(sent)
  const kept = await api.call('POST /files', {
    query: { organization_id: workflow.organization_id },
    body: { file: 'file', labels: [sent.get('labels') ?? ''] },
    ...(once === undefined ? {} : { idempotencyKey: `${once}-file` }),
  })
  if (!kept.ok) return { form: sent, problem: kept }
  const form = new URLSearchParams(sent)
  form.delete('labels')
  form.append('uploaded', kept.body.id)
  return { form, problem: null }
}

type Kept = AnswerOf<'GET /files/{id}'>

/** The most files of one run. */
const mostKept = 20

/** Those that the form names, and that are still there. */
async function keptFiles({ api }: PersonsVisit, form: Form | null): Promise<Kept[]> {
  const ids = (form?.getAll('uploaded') ?? []).slice(0, mostKept)
  const found = await Promise.all(ids.map((id) => api.call('GET /files/{id}', { params: { id } })))
  return found.flatMap((each) => (each.ok ? [each.body] : []))
}

function Files({ kept, filled }: { kept: readonly Kept[]; filled: Filled }) {
  const ids = kept.map(({ id }) => id)
  return (
    <>
      {kept.length === 0 ? null : (
        <Checks
          name="uploaded"
          options={kept.map(({ id, name, labels }) => [id, `${visible(name)} (${list(labels, 'and')})`])}
          checked={ids}
          filled={filled}
        />
      )}
      <FileField
        name="file"
        help="PDF, DOCX, XLSX, CSV or text, at most 25 MiB. Its text is kept as a file of the organization."
        filled={filled}
      />
      <Field
        name="labels"
        optional
        most={1_000}
        help="Besides “internal”, such as “pii”, with commas between them. Rules go by them."
        filled={filled}
      />
    </>
  )
}

function fromLink(query: URLSearchParams, inputs: Declared): Form | null {
  const given = Object.keys(inputs).flatMap((name) => {
    const value = query.get(name)
    return value === null ? [] : [[`${at}.${name}`, value]]
  })
  return given.length === 0 ? null : new URLSearchParams(given)
}

/** What would happen before any step runs. */
export function WholeRun({ preview }: { preview: Preview }) {
  const { run_approval: approval, not_executable_because: refused } = preview
  return (
    <>
      {refused === null ? null : (
        <p>
          It is refused: <Message text={refused} />
        </p>
      )}
      {approval.required ? (
        <p>
          The whole run waits for approval before it starts: <Message text={list(approval.reasons, 'and')} />
        </p>
      ) : null}
    </>
  )
}

function Previewed({ preview }: { preview: Preview }) {
  const { run_approval: approval, not_executable_because: refused } = preview
  // A freeze denies all of them, and no rule does.
  const steps = preview.steps.filter(
    ({ verdict, runs, frozen }) => verdict !== 'allow' && runs !== 'never' && frozen === null,
  )
  const asking = preview.steps.filter(({ kind, runs }) => kind === 'ask' && runs !== 'never')
  const broken = preview.steps.filter(({ available, runs }) => !available && runs !== 'never')
  return (
    <section class="note stack" role="status" aria-labelledby="preview">
      <h2 id="preview">If you start it like this</h2>
      <WholeRun preview={preview} />
      {steps.length === 0 && asking.length === 0 && refused === null && !approval.required ? (
        <p>No step waits for a person, as far as it is known before the run.</p>
      ) : (
        <ul class="bullets">
          {steps.slice(0, 100).map((step) => (
            <li>
              <Words text={step.step_id} /> {step.certainty === 'definite' ? 'is' : 'may be'}{' '}
              {step.verdict === 'deny' ? 'denied' : 'held for approval'}
              {step.rules[0] === undefined ? null : (
                <>
                  {' '}
                  by the rule <Words text={step.rules[0].name} />: <Message text={step.rules[0].because} />
                </>
              )}
            </li>
          ))}
        </ul>
      )}
      {asking.map(({ step_id, waits }) => (
        <p>
          <Words text={step_id} /> waits for <Sentence text={waits ?? 'an answer'} />
        </p>
      ))}
      {broken.map((step) => (
        <p>
          <Words text={step.step_id} /> would fail: <Message text={step.unavailable_because ?? ''} />
        </p>
      ))}
    </section>
  )
}
