import { startPath, workflowsPath } from '../../contract/pages.ts'
import { FromFile } from '../parts/managed.tsx'
import { Empty, Pager, Table } from '../parts/list.tsx'
import { Time } from '../parts/time.tsx'
import { OrganizationName, Words } from '../parts/words.tsx'
import { isAtLeast, type PersonsVisit, type Shown } from '../visit.ts'
import { problemPage } from './plain.tsx'

/** `GET /console/workflows` */
export async function workflowsPage(visit: PersonsVisit): Promise<Shown> {
  const { organization } = visit.person
  const cursor = visit.query.get('cursor') ?? undefined
  const listed = await visit.api.call('GET /workflows', {
    query: {
      limit: '50',
      ...(organization === null ? {} : { organization_id: organization.id }),
      ...(cursor === undefined ? {} : { cursor }),
    },
  })
  if (!listed.ok) return problemPage(listed, visit.place)
  const { data, next_cursor: next } = listed.body
  const mayStart = isAtLeast(visit, 'member')
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
        {data.length === 0 ? (
          <Empty title="There is no workflow yet.">
            Save one with <code>POST /api/v1/workflows</code>, from a file of YAML or JSON.
          </Empty>
        ) : (
          <Table
            label="Workflows"
            head={['Workflow', 'What it does', 'Version', 'Saved']}
            rows={data.map(({ id, name, description, version, updated_at: saved, managed_by: managed }) => [
              <>
                {mayStart ? (
                  <a href={startPath.replace(':id', id)}>
                    <Words text={name} most={120} />
                  </a>
                ) : (
                  <Words text={name} most={120} />
                )}
                <FromFile managed={managed} />
              </>,
              description === '' ? null : <Words text={description} most={300} />,
              String(version),
              <Time at={saved} now={visit.now} />,
            ])}
          />
        )}
        <Pager
          path={workflowsPath}
          chosen={{ cursor }}
          cursor="cursor"
          next={next}
          words={{ first: 'Newest workflows', next: 'Older workflows' }}
        />
      </article>
    ),
  }
}
