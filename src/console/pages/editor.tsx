import type { AnswerOf, BodyOf } from '../../api/routes/index.ts'
import { editWorkflowPath, newWorkflowPath, workflowPath, workflowsPath } from '../../contract/pages.ts'
import { dependencies, findCycle } from '../../contract/definition-graph.ts'
import { inputDeclaration } from '../../contract/inputs.ts'
import { shapes } from '../../policy/expressions/functions.ts'
import { DefinitionPicture, StepsInWords, type Definition, type Preview } from '../parts/definition.tsx'
import { empty, Field, labelled, onceOf, Refused, type Filled } from '../parts/form.tsx'
import { InputFields, labelsOf, readFields, type Declared } from '../parts/inputs.tsx'
import { Live, OnceField, PostForm } from '../parts/layout.tsx'
import { ManagedNote } from '../parts/managed.tsx'
import { askedStep, TriedStep, TryButton, tryStep, type StepTrial } from '../parts/step-try.tsx'
import { WholeRun } from './start.tsx'
import { Message, Words } from '../parts/words.tsx'
import {
  hasRole,
  isAtLeast,
  organizationId,
  roleIn,
  type Form,
  type PersonsVisit,
  type Problem,
  type ReadDefinition,
  type Result,
  type Shown,
} from '../visit.ts'
import { problemPage } from './plain.tsx'

/*
 * `/console/workflows/new` and `/console/workflows/:id/edit`: the text of a workflow, with its picture and mistakes. The
 * buttons send the whole form; the script (browser/editor.ts) sends the same form while a person types.
 */

export type Workflow = AnswerOf<'GET /workflows/{id}'>

/** Bytes. A text has at most 64 KiB, and a form writes many characters as three. */
export const mostFormBytes = 256 * 1024

const labels = { text: 'Definition', mocks: 'Assumed outputs', message: 'What changes' }

const example = `name: Weekly summary
slug: weekly-summary
description: Reads a report, and keeps its first lines
if_skipped: skip
inputs:
  path: { type: string, required: true, description: A file of the shared folder }
steps:
  - id: read
    tool: file_read
    summary: reads the report
    params:
      path: '{{input.path}}'
  - id: keep
    tool: memory_set
    summary: keeps its text, unless it is empty
    when: "{{ read.output.text != '' }}"
    params:
      key: summary
      value: '{{read.output.text}}'
result:
  kept: '{{keep.output.key}}'
`

/** What the buttons have found out about the text. */
interface Found {
  readonly definition: Definition | null
  readonly problem: Problem | null
  readonly preview: Preview | null
  readonly tried: StepTrial | null
}

const nothingFound: Found = { definition: null, problem: null, preview: null, tried: null }

const notMember: Problem = {
  status: 403,
  code: 'insufficient_role',
  message: 'only members and above make and change workflows',
}

/** null for a new one. */
async function readOld({ api, params }: PersonsVisit): Promise<Result<Workflow | null>> {
  const id = params['id']
  return id === undefined ? { ok: true, body: null } : api.call('GET /workflows/{id}', { params: { id } })
}

/** Why the person may not change it, in a sentence. null: they may. */
export function whyNoChange(visit: PersonsVisit, workflow: Workflow): string | null {
  const role = roleIn(visit, workflow.organization_id)
  if (!hasRole(role, 'member')) return 'Members and above change it: ask an owner for that role.'
  if (workflow.protected && !hasRole(role, 'admin'))
    return 'It is protected: only admins and owners change it. Ask one of them.'
  return null
}

/** `GET /console/workflows/new` and `GET /console/workflows/:id/edit` */
export async function editorPage(
  visit: PersonsVisit,
  given: Filled = empty,
  found: Found | null = null,
): Promise<Shown> {
  const old = await readOld(visit)
  if (!old.ok) return problemPage(old, visit.place)
  const workflow = old.body
  if (workflow === null && !isAtLeast(visit, 'member')) return problemPage(notMember, visit.place)
  const whyNot = workflow === null ? null : whyNoChange(visit, workflow)
  const text = textOf(given.form) ?? firstText(visit, workflow)
  const seen = found ?? (await lookAt(visit, text))
  return {
    status: given.problem?.status ?? 200,
    title: workflow === null ? 'New workflow' : `Edit ${workflow.name}`,
    script: 'editor',
    main: (
      <article class="page">
        <Head workflow={workflow} />
        {workflow === null ? null : (
          <ManagedNote what="The workflow" managed={workflow.managed_by} visit={visit} action={null} />
        )}
        {whyNot === null ? null : <p class="note">{whyNot}</p>}
        {whyNot === null && (workflow?.managed_by ?? null) === null ? (
          <Editor
            visit={visit}
            workflow={workflow}
            filled={labelled(given, { ...labels, ...labelsOf(inputsOf(seen.definition), 'inputs') })}
            text={text}
            found={seen}
          />
        ) : null}
      </article>
    ),
  }
}

const Head = ({ workflow }: { workflow: Workflow | null }) => (
  <header class="headline">
    <p class="crumbs small">
      <a href={workflowsPath}>Workflows</a>
      {workflow === null ? null : (
        <>
          {' / '}
          <a href={workflowPath(workflow.id)}>
            <Words text={workflow.name} most={120} />
          </a>
        </>
      )}
    </p>
    <h1>{workflow === null ? 'New workflow' : 'Edit the workflow'}</h1>
    <p class="quiet">
      Write YAML or JSON. <b>Check</b> names every mistake, and <b>Show what would be decided</b> runs
      nothing. The definition is saved, without the comments of the text.
    </p>
  </header>
)

interface EditorProps {
  readonly visit: PersonsVisit
  readonly workflow: Workflow | null
  readonly filled: Filled
  readonly text: string
  readonly found: Found
}

const actionOf = (workflow: Workflow | null): string =>
  workflow === null ? newWorkflowPath : editWorkflowPath.replace(':id', workflow.id)

function Editor({ visit, workflow, filled, text, found }: EditorProps) {
  return (
    <PostForm action={actionOf(workflow)} token={visit.token} class="columns editor">
      <OnceField />
      <input
        type="hidden"
        name="version"
        value={filled.form?.get('version') ?? (workflow === null ? '' : seenOf(workflow))}
      />
      <div class="column">
        <Refused filled={filled} />
        <section aria-labelledby="definition">
          <label id="definition" for="text">
            Definition
          </label>
          <textarea
            id="text"
            name="text"
            rows={24}
            spellcheck={false}
            autocomplete="off"
            class="code"
            data-editor=""
          >
            {text}
          </textarea>
          <div hidden>
            <label for="file">Open a file</label>
            <input id="file" type="file" accept=".yaml,.yml,.json" data-open-file="" />
          </div>
          {workflow === null ? null : (
            <Field
              name="message"
              label="What changes"
              most={2_000}
              optional
              filled={filled}
              help="People read it in the list of versions."
            />
          )}
          <div class="buttons">
            <button name="action" value="save" class="primary">
              {workflow === null ? 'Save the workflow' : 'Save a new version'}
            </button>
            <button name="action" value="check">
              Check
            </button>
            <button name="action" value="preview">
              Show what would be decided
            </button>
          </div>
        </section>
      </div>
      <div class="column">
        <Live name="editor" version={JSON.stringify([text, found.preview !== null, found.tried?.stepId])}>
          <Beside visit={visit} found={found} action={actionOf(workflow)} />
          <Assumed filled={filled} definition={found.definition} />
        </Live>
      </div>
    </PostForm>
  )
}

/** Unfolded if something in it was refused or sent. The inputs are those of the text that was checked last. */
function Assumed({ filled, definition }: { filled: Filled; definition: Definition | null }) {
  const declared = inputsOf(definition)
  const isSent = [...(filled.form?.entries() ?? [])].some(
    ([name, value]) => /^(inputs\.|mocks$)/.test(name) && value !== '',
  )
  return (
    <details class="card" open={isSent}>
      <summary>Inputs and outputs that the preview assumes</summary>
      <div class="fill">
        <p class="quiet small">What is not here is unknown, and each step says what it would need.</p>
        {Object.keys(declared).length === 0 ? (
          <p>The workflow declares no inputs. After a check, each that it declares has a field here.</p>
        ) : (
          <InputFields declared={declared} at="inputs" filled={filled} />
        )}
        <Field
          name="mocks"
          label="Assumed outputs"
          rows={3}
          most={20_000}
          optional
          filled={filled}
          help='JSON by the id of the step, such as {"read": {"text": "Hello"}}.'
        />
      </div>
    </details>
  )
}

/** A preview needs none of them. The text may declare them wrongly. */
const inputsOf = (definition: Definition | null): Declared =>
  Object.fromEntries(
    Object.entries(definition?.inputs ?? {}).flatMap(([name, each]) => {
      const read = inputDeclaration.safeParse(each)
      return read.success ? [[name, { ...read.data, required: false }]] : []
    }),
  )

function Beside({ visit, found, action }: { visit: PersonsVisit; found: Found; action: string }) {
  const { definition, problem, preview, tried } = found
  const isEmpty = definition === null && problem === null
  return (
    <>
      {definition === null ? null : <div hidden data-known={JSON.stringify(knownOf(definition))} />}
      {isEmpty ? (
        <p class="note">Paste the text of a workflow: every mistake is then named here.</p>
      ) : problem === null ? (
        <p class="note" role="status">
          The definition has no mistake. Whether its tools work here, the preview says.
        </p>
      ) : (
        <Mistakes problem={problem} />
      )}
      {tried === null ? null : <TriedStep tried={tried} action={action} />}
      {preview === null || definition === null ? null : (
        <section class="card stack" aria-labelledby="decided">
          <h2 id="decided">What would be decided</h2>
          <WholeRun preview={preview} />
          <StepsInWords
            definition={definition}
            preview={preview}
            beside={(step) => <TryButton step={step} action={action} />}
          />
        </section>
      )}
      <section class="card stack" aria-labelledby="picture-title">
        <h2 id="picture-title">What depends on what</h2>
        {definition === null ? (
          <p class="quiet">The picture comes back when the steps can be read.</p>
        ) : (
          <>
            <DefinitionPicture layouts={visit.layouts} definition={definition} preview={preview} />
            {preview === null ? (
              <details>
                <summary>The steps in words</summary>
                <StepsInWords definition={definition} />
              </details>
            ) : null}
          </>
        )}
      </section>
    </>
  )
}

/** For completion. */
const knownOf = ({ inputs = {}, steps }: Definition) => ({
  inputs: Object.keys(inputs),
  steps: Object.fromEntries(steps.map(({ id, tool }) => [id, tool ?? null])),
  functions: Object.keys(shapes),
})

/** As the API names it: `line 3, column 5: …`. */
const placed = /^(?:the YAML cannot be read: )?line (\d+), column (\d+): (.*)$/s

interface Mistake {
  readonly line: number | null
  readonly column: number | null
  readonly message: string
}

function mistakesOf({ details = [], message }: Problem): Mistake[] {
  const all = details.length === 0 ? [message] : details.map((each) => each.message)
  return all.map((each) => {
    const [, line, column, words = each] = placed.exec(each) ?? []
    return { line: Number(line) || null, column: Number(column) || null, message: words }
  })
}

const mostMistakes = 100

/** The script underlines what `data-mistakes` names. */
function Mistakes({ problem }: { problem: Problem }) {
  const all = mistakesOf(problem).slice(0, mostMistakes)
  return (
    <section class="card stack mistakes" aria-labelledby="mistakes" data-mistakes={JSON.stringify(all)}>
      <h2 id="mistakes">{all.length === 1 ? '1 mistake' : `${all.length} mistakes`}</h2>
      <ul class="bullets">
        {all.map(({ line, message }) => (
          <li>
            {line === null ? null : <b>{`Line ${line}: `}</b>}
            <Message text={message} most={600} />
          </li>
        ))}
      </ul>
    </section>
  )
}

/** What the form sent, as it was written. */
const textOf = (form: Form | null): string | null => form?.get('text')?.replaceAll('\r\n', '\n') ?? null

function firstText(visit: PersonsVisit, workflow: Workflow | null): string {
  if (workflow === null) return visit.query.get('import') === 'yaml' ? '' : example
  const { name, slug, description, definition } = workflow
  return visit.api.writeYaml({
    name,
    ...(slug === null ? {} : { slug }),
    ...(description === '' ? {} : { description }),
    ...definition,
  })
}

/** Asks the API for every mistake, without saving. */
async function lookAt({ api }: PersonsVisit, text: string): Promise<Found> {
  if (text.trim() === '') return nothingFound
  const read = api.readYaml(text)
  if (!read.ok) return { ...nothingFound, problem: read }
  const checked = await api.call('POST /workflows/validate', { body: read.body })
  return {
    definition: drawable(read.body.definition),
    problem: checked.ok ? null : checked,
    preview: null,
    tried: null,
  }
}

/** The steps that can be drawn, even if something else is wrong. */
function drawable(definition: unknown): Definition | null {
  const { steps } = (definition ?? {}) as { readonly steps?: unknown }
  if (!Array.isArray(steps)) return null
  const ids = steps.map((step: unknown) => (step as { readonly id?: unknown } | null)?.id)
  if (ids.length === 0 || new Set(ids).size < ids.length) return null
  const isStep = (step: Record<string, unknown> | null): boolean =>
    typeof step?.['id'] === 'string' &&
    ['tool', 'summary'].every((name) => step[name] === undefined || typeof step[name] === 'string') &&
    ['tool', 'compute', 'wait', 'ask'].filter((kind) => step[kind] !== undefined).length === 1 &&
    (step['depends_on'] === undefined || isTexts(step['depends_on']))
  if (!steps.every(isStep)) return null
  const { inputs } = definition as { readonly inputs?: unknown }
  if (inputs !== undefined && (typeof inputs !== 'object' || inputs === null || Array.isArray(inputs)))
    return null
  const shown = definition as Definition
  return findCycle(dependencies(shown)) === null ? shown : null
}

const isTexts = (value: unknown): boolean =>
  Array.isArray(value) && value.every((each) => typeof each === 'string')

/** `POST` of both pages. */
export async function useEditor(visit: PersonsVisit, form: Form): Promise<Shown> {
  const action = form.get('action')
  if (action === 'save') return save(visit, form)
  const text = textOf(form) ?? ''
  const found = await lookAt(visit, text)
  const isAsked = action === 'preview' || askedStep(form) !== null
  if (!isAsked || found.problem !== null || text.trim() === '')
    return editorPage(visit, { form, problem: null }, found)
  const previewed = await previewOf(visit, { form, text, found })
  if (!previewed.ok) return editorPage(visit, { form, problem: previewed }, found)
  const preview = previewed.body
  if (action === 'preview') return editorPage(visit, { form, problem: null }, { ...found, preview })
  const tried = await tryStep(visit, form, preview)
  return tried.ok
    ? editorPage(visit, { form, problem: null }, { ...found, preview, tried: tried.body })
    : editorPage(visit, { form, problem: tried }, { ...found, preview })
}

const refused = 'The preview needs a change:'

type Values = NonNullable<BodyOf<'POST /workflows/preview'>['inputs']>

async function previewOf(
  { api, params }: PersonsVisit,
  { form, text, found }: { form: Form; text: string; found: Found },
): Promise<Result<Preview>> {
  const read = api.readYaml(text)
  if (!read.ok) return read
  const { $schema: _, name: __, slug: ___, description: ____, ...definition } = read.body.definition
  const given = readFields(inputsOf(found.definition), form, { at: 'inputs', refused })
  if ('problem' in given) return { ok: false, ...given.problem }
  // With assumed outputs, even none, each step says what it would call.
  let mocks: Values = {}
  try {
    mocks = JSON.parse((form.get('mocks') ?? '').trim() || '{}') as Values
  } catch {
    const message = 'is not JSON: write an object such as `{"name": "value"}`'
    return {
      ok: false,
      status: 422,
      code: 'validation_error',
      message: refused,
      details: [{ path: 'mocks', message }],
    }
  }
  // Without a single one, the preview is of all inputs that are possible.
  const values = { mocks, ...(Object.keys(given.values).length === 0 ? {} : { inputs: given.values }) }
  const body = { definition, ...values }
  const id = params['id']
  return id === undefined
    ? api.call('POST /workflows/preview', { body })
    : api.call('POST /workflows/{id}/authorization-preview', { params: { id }, body })
}

async function save(visit: PersonsVisit, form: Form): Promise<Shown> {
  const text = textOf(form) ?? ''
  const read = visit.api.readYaml(text)
  const saved = read.ok ? await saveText(visit, form, read.body) : read
  if (saved.ok) return { redirect: `${workflowPath(saved.body.id)}?done=${saved.body.done}` }
  const isOfText = !read.ok || (saved.details ?? []).some(({ path }) => path.startsWith('definition'))
  if (!isOfText) return editorPage(visit, { form, problem: saved })
  const found = await lookAt(visit, text)
  // What the check does not find, saving alone refuses, such as a group that does not exist.
  const problem = found.problem === null ? saved : { ...saved, message: notSaved, details: [] }
  return editorPage(visit, { form, problem }, found)
}

const notSaved = 'nothing was saved: change what is named under the mistakes'

async function saveText(
  visit: PersonsVisit,
  form: Form,
  body: ReadDefinition,
): Promise<Result<{ readonly id: string; readonly done: 'save' | 'same' }>> {
  const old = await readOld(visit)
  if (!old.ok) return old
  const workflow = old.body
  if (workflow === null) {
    const query = { organization_id: organizationId(visit) }
    const made = await visit.api.call('POST /workflows', { query, body, ...onceOf(form) })
    return made.ok ? { ok: true, body: { id: made.body.id, done: 'save' } } : made
  }
  // A change of its name makes no version.
  if (form.get('version') !== seenOf(workflow)) return { ok: false, ...changedMeanwhile(workflow) }
  const { definition } = body
  const message = (form.get('message') ?? '').trim()
  // What the text no longer has is gone.
  const given = Object.assign(body, {
    ...(message === '' ? {} : { message }),
    ...(definition.slug === undefined ? { slug: null } : {}),
    ...(definition.description === undefined ? { description: '' } : {}),
  })
  const changed = await visit.api.call('PUT /workflows/{id}', { params: { id: workflow.id }, body: given })
  if (!changed.ok) return changed
  const done = changed.body.updated_at === workflow.updated_at ? 'same' : 'save'
  return { ok: true, body: { id: workflow.id, done } }
}

const seenOf = ({ version, updated_at: at }: Workflow): string => `${version} ${at}`

const changedMeanwhile = ({ version }: Workflow): Problem => ({
  status: 409,
  code: 'conflict',
  message: `somebody changed the workflow, which is now at version ${version}, after you opened this page, so nothing was saved: open its page in another tab, take over what you need, then open the editor anew`,
})
