import type { AnswerOf } from '../../api/routes/index.ts'
import {
  editWorkflowPath,
  startPath,
  templatePath,
  triggerPath,
  triggersPath,
  workflowPath,
  workflowsPath,
} from '../../contract/pages.ts'
import { DefinitionPicture, StepsInWords, type Preview } from '../parts/definition.tsx'
import { Confirm, empty, Field, labelled, onceOf, Refused, Told, type Filled } from '../parts/form.tsx'
import { OnceField, PostForm } from '../parts/layout.tsx'
import { ManagedNote, release, released } from '../parts/managed.tsx'
import { Empty } from '../parts/list.tsx'
import { Badge } from '../parts/state.tsx'
import { Time } from '../parts/time.tsx'
import { Facts } from '../parts/values.tsx'
import { Compared, Versions } from '../parts/versions.tsx'
import { nothingDone } from '../parts/waiting.tsx'
import { LongText, Message, whoOf, Words } from '../parts/words.tsx'
import { hasRole, roleIn, type Form, type PersonsVisit, type Result, type Shown } from '../visit.ts'
import { whyNoChange, type Workflow } from './editor.tsx'
import { problemPage } from './plain.tsx'
import { RunRow, runsPath } from './runs.tsx'
import { mayArm, nextOf, TriggerState, whenWords } from './triggers.tsx'

/* `/console/workflows/:id`: what a workflow does, who starts it, its runs and versions. */

type Trigger = AnswerOf<'GET /triggers'>['data'][number]
type Runs = AnswerOf<'GET /runs'>['data']

const [shownRuns, shownTriggers, shownVersions] = [5, 20, 20]

/** A longer one is planned only when somebody asks for it. */
const mostPlanned = 100

const labels = { template_name: 'Name of the template', tags: 'Tags', description: 'What it is for' }

const results = {
  save: 'The new version is saved. The next run uses it.',
  same: 'Nothing was saved, because nothing differs.',
  rollback: 'The earlier version is back, as a new version. The next run uses it.',
  template: 'It is a template now: members can make workflows from this version.',
  used: 'The workflow is made from the template. Edit it, or run it.',
  release: released,
}

/** What the page shows beside the workflow itself. null: the reader may not see it. */
interface Around {
  readonly runs: Runs | null
  readonly triggers: readonly Trigger[] | null
  readonly preview: Preview | null
}

async function around({ api }: PersonsVisit, workflow: Workflow, mayStart: boolean): Promise<Around> {
  const params = { id: workflow.id }
  const isPlanned = mayStart && workflow.definition.steps.length <= mostPlanned
  const [runs, triggers, preview] = await Promise.all([
    api.call('GET /runs', {
      query: {
        workflow_id: workflow.id,
        organization_id: workflow.organization_id,
        limit: String(shownRuns),
      },
    }),
    mayStart
      ? api.call('GET /workflows/{id}/triggers', { params, query: { limit: String(shownTriggers) } })
      : null,
    isPlanned ? api.call('POST /workflows/{id}/authorization-preview', { params }) : null,
  ])
  return {
    runs: runs.ok ? runs.body.data : null,
    triggers: triggers?.ok === true ? triggers.body.data : null,
    preview: preview?.ok === true ? preview.body : null,
  }
}

/** `GET /console/workflows/:id` */
export async function workflowPage(visit: PersonsVisit, given: Filled = empty): Promise<Shown> {
  const found = await visit.api.call('GET /workflows/{id}', { params: { id: visit.params['id'] ?? '' } })
  if (!found.ok) return problemPage(found, visit.place)
  const workflow = found.body
  const role = roleIn(visit, workflow.organization_id)
  const before = visit.query.get('before') ?? undefined
  const [versions, { runs, triggers, preview }, compared] = await Promise.all([
    visit.api.call('GET /workflows/{id}/versions', {
      params: { id: workflow.id },
      query: { limit: String(shownVersions), ...(before === undefined ? {} : { before }) },
    }),
    around(visit, workflow, hasRole(role, 'member')),
    comparedOf(visit, workflow),
  ])
  if (!versions.ok) return problemPage(versions, visit.place)
  const mayChange = whyNoChange(visit, workflow) === null && workflow.managed_by === null
  return {
    status: given.problem?.status ?? 200,
    title: workflow.name,
    main: (
      <article class="page">
        <Head workflow={workflow} visit={visit} mayChange={mayChange} />
        <Refused filled={labelled(given, labels)} />
        <Told visit={visit} results={results} />
        <ManagedNote
          what="The workflow"
          managed={workflow.managed_by}
          visit={visit}
          action={whyNoChange(visit, workflow) === null ? workflowPath(workflow.id) : null}
        />
        {compared}
        <div class="columns">
          <div class="column">
            <Steps workflow={workflow} preview={preview} visit={visit} />
            <LastRuns workflow={workflow} runs={runs} now={visit.now} />
            <Versions
              workflow={workflow}
              versions={versions.body.versions}
              mayRollBack={mayChange}
              visit={visit}
              isLast={versions.body.versions.length < shownVersions}
            />
          </div>
          <div class="column">
            <About workflow={workflow} visit={visit} />
            <InputList workflow={workflow} />
            <Triggers workflow={workflow} triggers={triggers} visit={visit} />
            <Template workflow={workflow} visit={visit} filled={labelled(given, labels)} />
            {mayChange ? <Delete workflow={workflow} visit={visit} /> : null}
          </div>
        </div>
      </article>
    ),
  }
}

function Head(props: { workflow: Workflow; visit: PersonsVisit; mayChange: boolean }) {
  const { workflow, visit, mayChange } = props
  const whyNot = whyNoChange(visit, workflow)
  const mayStart = hasRole(roleIn(visit, workflow.organization_id), 'member')
  return (
    <header class="headline">
      <p class="crumbs small">
        <a href={workflowsPath}>Workflows</a>
      </p>
      <h1>
        <Words text={workflow.name} most={200} />
      </h1>
      {workflow.description === '' ? null : (
        <p>
          <Words text={workflow.description} most={2_000} />
        </p>
      )}
      {whyNot === null ? null : <p class="quiet">{whyNot}</p>}
      {mayStart ? (
        <p class="links">
          <a class="button primary" href={startPath.replace(':id', workflow.id)}>
            Run or preview
          </a>
          {mayChange ? (
            <a class="button" href={editWorkflowPath.replace(':id', workflow.id)}>
              Edit
            </a>
          ) : null}
        </p>
      ) : null}
    </header>
  )
}

function Steps(props: { workflow: Workflow; preview: Preview | null; visit: PersonsVisit }) {
  const { workflow, preview, visit } = props
  const { definition } = workflow
  return (
    <section aria-labelledby="does">
      <h2 id="does">What it does</h2>
      {preview === null ? null : (
        <p class="quiet small">
          The marks say what would be decided if you started it now. Nothing of its inputs is known yet.
        </p>
      )}
      {preview?.not_executable_because == null ? null : (
        <p>
          You cannot start it: <Message text={preview.not_executable_because} />
        </p>
      )}
      <DefinitionPicture layouts={visit.layouts} definition={definition} preview={preview} />
      <details open={preview?.steps.some(({ available }) => !available) ?? false}>
        <summary>The steps in words</summary>
        <StepsInWords definition={definition} preview={preview} />
      </details>
      <details>
        <summary>The definition as text</summary>
        <div class="code-text">
          <LongText text={visit.api.writeYaml(definition)} kind="text" />
        </div>
      </details>
    </section>
  )
}

const LastRuns = ({ workflow, runs, now }: { workflow: Workflow; runs: Runs | null; now: Date }) =>
  runs === null ? null : (
    <section aria-labelledby="runs">
      <h2 id="runs">Last runs</h2>
      {runs.length === 0 ? (
        <p class="quiet">It has not run yet.</p>
      ) : (
        <>
          <ul class="inbox">
            {runs.map((run) => (
              <RunRow run={run} now={now} />
            ))}
          </ul>
          <p>
            <a href={`${runsPath}?workflow_id=${workflow.id}`}>All its runs</a>
          </p>
        </>
      )}
    </section>
  )

const About = ({ workflow, visit }: { workflow: Workflow; visit: PersonsVisit }) => (
  <section aria-labelledby="about">
    <h2 id="about">About it</h2>
    <Facts
      facts={[
        ['Version', String(workflow.version)],
        ['Saved', <Time at={workflow.updated_at} now={visit.now} />],
        ['Made by', <Words text={whoOf(workflow.created_by_email)} most={254} />],
        ['Slug', workflow.slug === null ? null : <code>{workflow.slug}</code>],
        ['Starts it', namesOf(workflow.definition.run_by)],
        ['Sees values', namesOf(workflow.definition.readers)],
        ['Protected', workflow.protected ? 'only admins and owners change it' : null],
      ]}
    />
  </section>
)

const namesOf = (names: readonly string[] | undefined) =>
  names === undefined || names.length === 0 ? null : <Words text={names.join(', ')} most={400} />

const mostInputs = 50

function InputList({ workflow: { definition } }: { workflow: Workflow }) {
  const inputs = Object.entries(definition.inputs ?? {})
  return (
    <section aria-labelledby="inputs">
      <h2 id="inputs">Inputs</h2>
      {inputs.length === 0 ? <p class="quiet">It takes none.</p> : null}
      <ul class="stack">
        {inputs.slice(0, mostInputs).map(([name, { type, required, default: value, description }]) => (
          <li>
            <code>
              <Words text={name} most={100} />
            </code>{' '}
            <span class="quiet small">
              {`${type}${required === true && value === undefined ? ', must be given' : ''}`}
            </span>
            {description === undefined || description === '' ? null : (
              <p class="small">
                <Words text={description} most={300} />
              </p>
            )}
          </li>
        ))}
      </ul>
      {inputs.length > mostInputs ? <p class="quiet">{`and ${inputs.length - mostInputs} more`}</p> : null}
    </section>
  )
}

function Triggers(props: { workflow: Workflow; triggers: readonly Trigger[] | null; visit: PersonsVisit }) {
  const { workflow, triggers, visit } = props
  if (triggers === null) return null
  return (
    <section aria-labelledby="triggers">
      <h2 id="triggers">Triggers</h2>
      {triggers.length === 0 ? <p class="quiet">Only people and programs start it.</p> : null}
      <ul class="stack">
        {triggers.map((trigger) => {
          const next = nextOf(trigger)
          return (
            <li>
              <p class="split">
                <a href={triggerPath(workflow.id, trigger.id)}>
                  <Words text={trigger.name} most={120} />
                </a>
                <TriggerState paused={trigger.paused} isLost={false} />
              </p>
              <p class="quiet small">
                <Words text={whenWords(trigger)} most={200} />
                {next === null ? null : (
                  <>
                    , next <Time at={next} now={visit.now} exact />
                  </>
                )}
              </p>
            </li>
          )
        })}
      </ul>
      {triggers.length === shownTriggers || mayArm(visit) ? (
        <p>
          {mayArm(visit) ? (
            <a href={`${triggersPath}?new=schedule&workflow=${workflow.id}#new`}>Make a trigger</a>
          ) : (
            <a href={triggersPath}>All triggers</a>
          )}
        </p>
      ) : null}
    </section>
  )
}

export const templateWords = {
  active: 'Members can make workflows from it.',
  deprecated: 'It is deprecated: who uses it is warned.',
  archived: 'It is archived, and nobody can use it any more.',
} as const

function Template(props: { workflow: Workflow; visit: PersonsVisit; filled: Filled }) {
  const { workflow, visit, filled } = props
  const { template_state: state } = workflow
  const isOwner = hasRole(roleIn(visit, workflow.organization_id), 'owner')
  if (state === null && !isOwner) return null
  return (
    <section aria-labelledby="template">
      <h2 id="template">Template</h2>
      {state === null ? (
        <details open={filled.form?.get('action') === 'template'}>
          <summary class="button">Approve as a template …</summary>
          <PostForm action={workflowPath(workflow.id)} token={visit.token} class="fill">
            <OnceField />
            <p class="small">
              {`Members can then make workflows from version ${workflow.version}. Later versions do not change it.`}
            </p>
            <Field name="template_name" most={200} value={workflow.name} filled={filled} />
            <Field
              name="description"
              rows={2}
              most={2_000}
              optional
              value={workflow.description}
              filled={filled}
            />
            <Field name="tags" most={1_200} optional filled={filled} help="With commas between them." />
            <input type="hidden" name="version" value={String(workflow.version)} />
            <button name="action" value="template" class="primary">
              Approve it
            </button>
          </PostForm>
        </details>
      ) : (
        <p>
          <Badge tone={state === 'active' ? 'good' : 'off'} word={`Template, ${state}`} />{' '}
          {templateWords[state]} <a href={templatePath(workflow.id)}>The template</a>
        </p>
      )}
    </section>
  )
}

const Delete = ({ workflow, visit }: { workflow: Workflow; visit: PersonsVisit }) => (
  <Confirm
    action={workflowPath(workflow.id)}
    token={visit.token}
    value="delete"
    open="Delete the workflow …"
    explanation="Nobody can start it any more, and its triggers start nothing. Runs in progress go on, and all its runs stay."
    sure="Delete the workflow"
  />
)

/** The two versions that the address names. */
async function comparedOf({ api, query }: PersonsVisit, workflow: Workflow) {
  const [from, to] = [query.get('from'), query.get('to')]
  if (from === null || to === null) return null
  const read = (version: string) =>
    api.call('GET /workflows/{id}/versions/{version}', { params: { id: workflow.id, version } })
  const [before, after] = await Promise.all([read(from), read(to)])
  const refused = [before, after].find((each) => !each.ok)
  if (refused?.ok === false)
    return (
      <Empty title="These versions cannot be compared.">
        <Message text={refused.message} />
      </Empty>
    )
  return before.ok && after.ok ? (
    <Compared before={before.body} after={after.body} write={api.writeYaml} />
  ) : null
}

/** `POST /console/workflows/:id` */
export async function changeWorkflow(visit: PersonsVisit, form: Form): Promise<Shown> {
  const found = await visit.api.call('GET /workflows/{id}', { params: { id: visit.params['id'] ?? '' } })
  if (!found.ok) return problemPage(found, visit.place)
  const action = form.get('action') ?? ''
  const done = await act(visit, found.body, form)
  if (!done.ok) return workflowPage(visit, { form, problem: done })
  return {
    redirect:
      action === 'delete' ? `${workflowsPath}?done=delete` : `${workflowPath(found.body.id)}?done=${action}`,
  }
}

function act(visit: PersonsVisit, { id, slug }: Workflow, form: Form): Promise<Result<unknown>> {
  const { api } = visit
  switch (form.get('action')) {
    case 'delete':
      return api.call('DELETE /workflows/{id}', { params: { id } })
    case 'rollback':
      return api.call('POST /workflows/{id}/versions/{version}/rollback', {
        params: { id, version: form.get('version') ?? '' },
        body: { message: (form.get('message') ?? '').trim() },
        ...onceOf(form),
      })
    case 'template':
      return api.call('POST /workflow-registry/{id}/approve-template', {
        params: { id },
        body: {
          template_name: (form.get('template_name') ?? '').trim(),
          description: (form.get('description') ?? '').trim(),
          tags: (form.get('tags') ?? '').split(',').flatMap((each) => each.trim() || []),
          version: Number(form.get('version')),
        },
        ...onceOf(form),
      })
    case 'release':
      return release(visit, { kind: 'workflow', name: slug ?? '' }, form)
    default:
      return Promise.resolve(nothingDone)
  }
}
