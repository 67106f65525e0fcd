import type { AnswerOf } from '../../api/routes/index.ts'
import { templatePath, templatesPath, workflowPath, workflowsPath } from '../../contract/pages.ts'
import { DefinitionPicture, StepsInWords } from '../parts/definition.tsx'
import {
  Confirm,
  empty,
  Field,
  labelled,
  onceOf,
  Refused,
  Select,
  Told,
  type Filled,
} from '../parts/form.tsx'
import { OnceField, PostForm } from '../parts/layout.tsx'
import { chosenOf, Empty, Pager, Table } from '../parts/list.tsx'
import { Badge } from '../parts/state.tsx'
import { Time } from '../parts/time.tsx'
import { Facts } from '../parts/values.tsx'
import { nothingDone } from '../parts/waiting.tsx'
import { OrganizationName, whoOf, Words } from '../parts/words.tsx'
import {
  hasRole,
  isAtLeast,
  organizationId,
  roleIn,
  type Form,
  type PersonsVisit,
  type Result,
  type Shown,
} from '../visit.ts'
import { problemPage } from './plain.tsx'
import { templateWords } from './workflow.tsx'

/*
 * `/console/templates`: versions of workflows that an owner has approved. Members make workflows from them; owners
 * deprecate and archive them. The page of a workflow approves it.
 */

type Listed = AnswerOf<'GET /workflow-registry'>['data'][number]
type Template = AnswerOf<'GET /workflow-registry/{id}'>

const listed = (visit: PersonsVisit, more: { readonly [name: string]: string } = {}) =>
  visit.api.call('GET /workflow-registry', {
    query: { organization_id: organizationId(visit), limit: '50', ...more },
  })

/** `GET /console/templates` */
export async function templatesPage(visit: PersonsVisit): Promise<Shown> {
  const chosen = chosenOf(visit.query, ['archived', 'cursor'])
  const isAll = chosen.archived !== undefined
  const found = await listed(visit, {
    ...(isAll ? { include_archived: 'true' } : {}),
    ...(chosen.cursor === undefined ? {} : { cursor: chosen.cursor }),
  })
  if (!found.ok) return problemPage(found, visit.place)
  const { data, next_cursor: next } = found.body
  return {
    status: 200,
    title: 'Templates',
    main: (
      <article class="page">
        <header class="headline">
          <h1>Templates</h1>
          <p class="quiet">
            <OrganizationName name={visit.person.organization?.name ?? ''} />
          </p>
          <p>
            A template is one version of a workflow that an owner has approved. What somebody makes from it is
            a workflow of their own. Later versions of the approved workflow change neither of them.
          </p>
          <p>
            <a href={isAll ? templatesPath : `${templatesPath}?archived=1`}>
              {isAll ? 'Without archived ones' : 'Show archived ones too'}
            </a>
          </p>
        </header>
        {data.length === 0 ? (
          <Empty title="There is no template yet.">
            {isAtLeast(visit, 'owner')
              ? 'Open a workflow that others should use, and approve it as a template there: '
              : 'An owner approves a workflow as a template, on the page of the workflow: '}
            <a href={workflowsPath}>all workflows</a>.
          </Empty>
        ) : (
          <Table
            label="Templates"
            head={['Template', 'State', 'Version', 'Approved']}
            rows={data.map((each) => rowOf(each, data, visit))}
          />
        )}
        <Pager
          path={templatesPath}
          chosen={chosen}
          cursor="cursor"
          next={next}
          words={{ first: 'Newest templates', next: 'Older templates' }}
        />
      </article>
    ),
  }
}

const rowOf = (template: Listed, all: readonly Listed[], { now }: PersonsVisit) => [
  <>
    <a href={templatePath(template.id)}>
      <Words text={template.template_name} most={200} />
    </a>
    {template.description === '' ? null : (
      <p class="quiet small">
        <Words text={template.description} most={200} />
      </p>
    )}
    <Tags tags={template.tags} />
  </>,
  <>
    <State state={template.state} />
    <Instead template={template} all={all} />
  </>,
  String(template.version),
  <Time at={template.approved_at} now={now} />,
]

/** The page of the template knows a replacement that is not in this list. */
function Instead({ template, all }: { template: Listed; all: readonly Listed[] }) {
  const { id, replacement_id: other } = template
  if (other === null) return null
  const listed = all.find((each) => each.id === other)
  return (
    <p class="small">
      <a href={templatePath(listed?.id ?? id)}>
        Use <Words text={listed?.template_name ?? 'another workflow'} most={100} /> instead
      </a>
    </p>
  )
}

const Tags = ({ tags }: { tags: readonly string[] }) =>
  tags.length === 0 ? null : (
    <p class="quiet small">
      <Words text={tags.join(', ')} most={400} />
    </p>
  )

const tones = { active: 'good', deprecated: 'warn', archived: 'off' } as const
const stateNames = { active: 'Active', deprecated: 'Deprecated', archived: 'Archived' } as const

const State = ({ state }: Pick<Listed, 'state'>) => <Badge tone={tones[state]} word={stateNames[state]} />

const labels = {
  name: 'Name of your workflow',
  description: 'What it is for',
  reason: 'Why it is outdated',
  replacement_id: 'Use this instead',
}

const results = {
  deprecate: 'The template is deprecated: who uses it is warned.',
  archive: 'The template is archived. Nobody can use it any more.',
}

const idOf = ({ params }: PersonsVisit): string => params['id'] ?? ''

/** `GET /console/templates/:id` */
export async function templatePage(visit: PersonsVisit, given: Filled = empty): Promise<Shown> {
  const found = await visit.api.call('GET /workflow-registry/{id}', { params: { id: idOf(visit) } })
  if (!found.ok) return problemPage(found, visit.place)
  const template = found.body
  const filled = labelled(given, labels, {}, 'Nothing was done. Change this:')
  const role = roleIn(visit, template.organization_id)
  return {
    status: filled.problem?.status ?? 200,
    title: template.template_name,
    main: (
      <article class="page">
        <header class="headline">
          <p class="crumbs small">
            <a href={templatesPath}>Templates</a>
          </p>
          <h1>
            <Words text={template.template_name} most={200} />
          </h1>
          <p class="badges">
            <State state={template.state} />
          </p>
          {template.description === '' ? null : (
            <p>
              <Words text={template.description} most={2_000} />
            </p>
          )}
        </header>
        <Refused filled={filled} />
        <Told visit={visit} results={results} />
        <Outdated template={template} replacement={await replacementOf(visit, template)} />
        <div class="columns">
          <div class="column">
            <Does template={template} visit={visit} />
          </div>
          <div class="column">
            {hasRole(role, 'member') ? (
              <Use template={template} visit={visit} filled={filled} />
            ) : (
              <p class="note">Members make workflows from it: ask an owner for that role.</p>
            )}
            <About template={template} visit={visit} />
            {hasRole(role, 'owner') ? (
              <Lifecycle
                template={template}
                others={await othersOf(visit, template)}
                {...{ visit, filled }}
              />
            ) : null}
          </div>
        </div>
      </article>
    ),
  }
}

interface Replacement {
  readonly name: string
  readonly path: string
}

/** null without one, and for one that is deleted. */
async function replacementOf({ api }: PersonsVisit, { replacement_id: id }: Template) {
  if (id === null) return null
  const found = await api.call('GET /workflows/{id}', {
    params: { id },
    only: ['name', 'template_state'],
  })
  if (!found.ok) return null
  const { name, template_state: state } = found.body
  return { name, path: state === null ? workflowPath(id) : templatePath(id) }
}

function Outdated({ template, replacement }: { template: Template; replacement: Replacement | null }) {
  if (template.state === 'active') return null
  return (
    <section class="note stack" aria-label="Outdated">
      <p>{templateWords[template.state]}</p>
      {template.reason === null ? null : (
        <p>
          Why: <Words text={template.reason} most={2_000} />
        </p>
      )}
      {replacement === null ? null : (
        <p>
          Use this instead:{' '}
          <a href={replacement.path}>
            <Words text={replacement.name} most={200} />
          </a>
        </p>
      )}
    </section>
  )
}

function Does({ template, visit }: { template: Template; visit: PersonsVisit }) {
  const { definition } = template
  return (
    <section aria-labelledby="does">
      <h2 id="does">What it does</h2>
      {definition === null ? (
        <p class="quiet">
          An archived template shows its steps to nobody. Its workflow may still do the same.
        </p>
      ) : (
        <>
          <DefinitionPicture layouts={visit.layouts} definition={definition} />
          <details open>
            <summary>The steps in words</summary>
            <StepsInWords definition={definition} />
          </details>
        </>
      )}
    </section>
  )
}

function Use(props: { template: Template; visit: PersonsVisit; filled: Filled }) {
  const { template, visit, filled } = props
  if (template.state === 'archived') return null
  return (
    <section class="card" aria-labelledby="use">
      <h2 id="use">Make a workflow from it</h2>
      <PostForm action={templatePath(template.id)} token={visit.token} class="fill">
        <OnceField />
        <Field name="name" most={200} value={template.template_name} filled={filled} />
        <Field
          name="description"
          rows={2}
          most={2_000}
          optional
          value={template.description}
          filled={filled}
        />
        <p class="quiet small">
          It is yours, and you can edit it. Nothing runs before somebody starts it or gives it a trigger.
        </p>
        <button name="action" value="use" class="primary">
          Make the workflow
        </button>
      </PostForm>
    </section>
  )
}

const About = ({ template, visit }: { template: Template; visit: PersonsVisit }) => (
  <section aria-labelledby="about">
    <h2 id="about">About it</h2>
    <Facts
      facts={[
        [
          'Workflow',
          <>
            <a href={workflowPath(template.id)}>
              <Words text={template.workflow_name} most={200} />
            </a>
            {template.current_version === template.version ? null : (
              <span class="quiet">{`, now at version ${template.current_version}`}</span>
            )}
          </>,
        ],
        ['Version', `${template.version}, which stays as it is`],
        ['Approved', doneBy(visit, template.approved_at, template.approved_by_email)],
        ['Outdated', doneBy(visit, template.deprecated_at, template.deprecated_by_email)],
        ['Archived', doneBy(visit, template.archived_at, template.archived_by_email)],
        ['Tags', template.tags.length === 0 ? null : <Words text={template.tags.join(', ')} most={400} />],
      ]}
    />
  </section>
)

const doneBy = ({ now }: PersonsVisit, at: string | null, email: string | null) =>
  at === null ? null : (
    <>
      <Time at={at} now={now} /> by <Words text={whoOf(email ?? '')} most={254} />
    </>
  )

/** Which templates could replace it. */
async function othersOf(visit: PersonsVisit, { id, state }: Template): Promise<readonly Listed[]> {
  if (state !== 'active') return []
  const found = await listed(visit, { limit: '200' })
  return found.ok ? found.body.data.filter((each) => each.id !== id && each.state === 'active') : []
}

function Lifecycle(props: {
  template: Template
  others: readonly Listed[]
  visit: PersonsVisit
  filled: Filled
}) {
  const { template, others, visit, filled } = props
  const action = templatePath(template.id)
  if (template.state === 'archived') return null
  if (template.state === 'deprecated')
    return (
      <Confirm
        action={action}
        token={visit.token}
        value="archive"
        open="Archive the template …"
        explanation="Nobody can use it any more, and this cannot be undone. Workflows that were made from it stay as they are."
        sure="Archive it for good"
      />
    )
  return (
    <details open={filled.form?.get('action') === 'deprecate'}>
      <summary class="button danger">Deprecate the template …</summary>
      <PostForm action={action} token={visit.token} class="fill">
        <OnceField />
        <p class="small">
          Everybody who uses it is warned and told what to use instead. Afterwards it can only be archived.
        </p>
        <Field name="reason" rows={2} most={2_000} filled={filled} />
        <Select
          name="replacement_id"
          options={[['', 'nothing'], ...others.map(({ id, template_name: name }) => [id, name] as const)]}
          filled={filled}
        />
        <button name="action" value="deprecate" class="danger">
          Deprecate it
        </button>
      </PostForm>
    </details>
  )
}

/** `POST /console/templates/:id` */
export async function changeTemplate(visit: PersonsVisit, form: Form): Promise<Shown> {
  const action = form.get('action') ?? ''
  if (action === 'use') return use(visit, form)
  const done = await move(visit, form, action)
  if (!done.ok) return templatePage(visit, { form, problem: done })
  return { redirect: `${templatePath(idOf(visit))}?done=${action}` }
}

async function use(visit: PersonsVisit, form: Form): Promise<Shown> {
  const used = await visit.api.call('POST /workflow-registry/{id}/use', {
    params: { id: idOf(visit) },
    body: { name: (form.get('name') ?? '').trim(), description: (form.get('description') ?? '').trim() },
    ...onceOf(form),
  })
  if (!used.ok) return templatePage(visit, { form, problem: used })
  return { redirect: `${workflowPath(used.body.id)}?done=used` }
}

function move({ api, params }: PersonsVisit, form: Form, action: string): Promise<Result<unknown>> {
  const of = { params: { id: params['id'] ?? '' }, ...onceOf(form) }
  if (action === 'archive') return api.call('POST /workflow-registry/{id}/archive', of)
  if (action !== 'deprecate') return Promise.resolve(nothingDone)
  return api.call('POST /workflow-registry/{id}/deprecate', {
    ...of,
    body: {
      reason: (form.get('reason') ?? '').trim(),
      replacement_id: form.get('replacement_id') || null,
    },
  })
}
