import type { AnswerOf } from '../../api/routes/index.ts'
import { newWorkflowPath, templatesPath, workflowPath, workflowsPath } from '../../contract/pages.ts'
import { FromFile } from '../parts/managed.tsx'
import { chosenOf, Empty, Pager, Search, Table } from '../parts/list.tsx'
import { Told } from '../parts/form.tsx'
import { Badge, RunState } from '../parts/state.tsx'
import { Time } from '../parts/time.tsx'
import { Message, OrganizationName, whoOf, Words } from '../parts/words.tsx'
import { isAtLeast, organizationId, type PersonsVisit, type Shown } from '../visit.ts'
import { problemPage } from './plain.tsx'

type Workflow = AnswerOf<'GET /workflows'>['data'][number]

/** `GET /console/workflows` */
export async function workflowsPage(visit: PersonsVisit): Promise<Shown> {
  const { organization } = visit.person
  const chosen = chosenOf(visit.query, ['search', 'cursor'])
  const listed = await visit.api.call('GET /workflows', {
    query: {
      limit: '50',
      ...(organization === null ? {} : { organization_id: organizationId(visit) }),
      ...chosen,
    },
  })
  if (!listed.ok) return problemPage(listed, visit.place)
  const { data, next_cursor: next } = listed.body
  const mayMake = isAtLeast(visit, 'member')
  return {
    status: 200,
    title: 'Workflows',
    main: (
      <article class="page">
        <header class="headline">
          <h1>Workflows</h1>
          {organization === null ? null : (
            <p class="quiet">
              <OrganizationName name={organization.name} />
            </p>
          )}
        </header>
        <Told visit={visit} results={{ delete: 'The workflow is deleted. Its runs in progress go on.' }} />
        {mayMake ? (
          <p class="links">
            <a class="button primary" href={newWorkflowPath}>
              New workflow
            </a>
            <a class="button" href={`${newWorkflowPath}?import=yaml`}>
              Import YAML
            </a>
            <a class="button" href={templatesPath}>
              From a template
            </a>
          </p>
        ) : (
          <p class="quiet">Members and above make workflows: ask an owner for that role.</p>
        )}
        <Search path={workflowsPath} label="Part of a name or slug" chosen={chosen} />
        {data.length === 0 ? (
          <Nothing isSearch={chosen.search !== undefined} mayMake={mayMake} />
        ) : (
          <Table
            label="Workflows"
            head={['Workflow', 'Last run', 'Triggers', 'Version']}
            rows={data.map((each) => rowOf(each, visit.now))}
          />
        )}
        <Pager
          path={workflowsPath}
          chosen={chosen}
          cursor="cursor"
          next={next}
          words={{ first: 'Newest workflows', next: 'Older workflows' }}
        />
      </article>
    ),
  }
}

const Nothing = ({ isSearch, mayMake }: { isSearch: boolean; mayMake: boolean }) =>
  isSearch ? (
    <Empty title="No workflow has this in its name or slug.">
      Search for another part, or <a href={workflowsPath}>show all workflows</a>.
    </Empty>
  ) : (
    <Empty title="There is no workflow yet.">
      {mayMake ? (
        <>
          <a href={newWorkflowPath}>Make the first one</a>: it begins as a small example that you change.
        </>
      ) : (
        'A member makes the first one.'
      )}
    </Empty>
  )

function rowOf(workflow: Workflow, now: Date) {
  const { id, slug, description, last_run: run, trigger_count: triggers, warnings } = workflow
  const path = workflowPath(id)
  return [
    <>
      <a href={path}>
        <Words text={workflow.name} most={120} />
      </a>
      <FromFile managed={workflow.managed_by} />
      {slug === null ? null : (
        <p class="quiet small">
          <code>{slug}</code>
        </p>
      )}
      {description === '' ? null : (
        <p class="quiet small">
          <Words text={description} most={200} />
        </p>
      )}
      {warnings.slice(0, 2).map((why) => (
        <p class="small">
          <Badge tone="warn" word="Would fail" /> <Message text={why} most={300} />
        </p>
      ))}
    </>,
    run === null ? (
      <span class="quiet">never</span>
    ) : (
      <a href={`/console/runs/${run.id}`}>
        <RunState status={run.status} /> <Time at={run.created_at} now={now} />
      </a>
    ),
    triggers === 0 ? (
      <span class="quiet">none</span>
    ) : (
      <a href={`${path}#triggers`}>{triggers.toLocaleString('en')}</a>
    ),
    <>
      {String(workflow.version)}
      <span class="quiet small">
        {', saved '}
        <Time at={workflow.updated_at} now={now} />. Made by{' '}
        <Words text={whoOf(workflow.created_by_email)} most={254} />
      </span>
    </>,
  ]
}
