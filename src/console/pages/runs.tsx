import type { ComponentChild } from 'preact'
import { addressOf, chosenOf, Empty, Pager, Choice, Field, Filters, Search } from '../parts/list.tsx'
import { isAtLeast, zoneOf, type PersonsVisit, type RunHead, type Shown } from '../visit.ts'
import { problemPage } from './plain.tsx'
import { cancelRunsPath, rerunsPath, workflowsPath } from '../../contract/pages.ts'
import { runEnded, runStatuses } from '../../contract/status.ts'
import { readTime } from '../../steps/wait.ts'
import { countedFromOne } from '../parts/items.tsx'
import { Told } from '../parts/form.tsx'
import { Live } from '../parts/layout.tsx'
import { OrganizationName, Message, whoOf, Words } from '../parts/words.tsx'
import { RunState, wordOf } from '../parts/state.tsx'
import { duration, Time, zoneWords } from '../parts/time.tsx'

export async function runsPage(visit: PersonsVisit): Promise<Shown> {
  const { organization } = visit.person
  const chosen = chosenOf(visit.query, [...runFilters, 'workflow_id', 'cursor'])
  const { from, to, ...same } = chosen
  const zone = zoneOf(visit)
  const listed = await visit.api.call('GET /runs', {
    query: {
      limit: '50',
      ...(organization === null ? {} : { organization_id: organization.id }),
      ...same,
      ...(from === undefined ? {} : { since: startOf(from, zone) }),
      ...(to === undefined ? {} : { until: startOf(dayAfter(to), zone) }),
    },
  })
  if (!listed.ok) return problemPage(listed, visit.place)
  return {
    status: 200,
    title: 'Runs',
    main: (
      <Runs
        runs={listed.body.data}
        next={listed.body.next_cursor}
        chosen={chosen}
        organization={organization?.name ?? null}
        now={visit.now}
        zone={zone}
        mayRepeat={isAtLeast(visit, 'member')}
        told={
          <Told
            visit={visit}
            results={{
              cancel: 'The chosen runs are cancelled. Calls that were under way end by themselves.',
            }}
          />
        }
      />
    ),
  }
}

/** The day begins at midnight of the reader's zone. A text that is not a day stays, and the route refuses it. */
export const startOf = (day: string, zone: string): string => readTime(day, zone)?.toISOString() ?? day

/** The API's search ends at the beginning of a day, so this one includes `day`. A text that is not a day stays. */
export function dayAfter(day: string): string {
  const time = Date.parse(`${day}T00:00:00Z`)
  return /^\d{4}-\d\d-\d\d$/.test(day) && !Number.isNaN(time)
    ? new Date(time + 86_400_000).toISOString().slice(0, 10)
    : day
}

export const runsPath = '/console/runs'
/** Dates are days in the reader's zone. */
const moreFilters = ['status', 'requester_email', 'from', 'to'] as const
export const runFilters = ['workflow_name', ...moreFilters] as const

export interface RunsProps {
  readonly runs: readonly RunHead[]
  readonly next: string | null
  readonly chosen: Readonly<Record<string, string>>
  readonly organization: string | null
  readonly now: Date
  readonly zone: string
  readonly mayRepeat: boolean
  readonly told?: ComponentChild
}

export function Runs({ runs, next, chosen, organization, now, zone, mayRepeat, told }: RunsProps) {
  const isSearch = [...runFilters, 'workflow_id'].some((name) => chosen[name] !== undefined)
  const version = runs.map(({ id, status, status_reason }) => `${id}${status}${status_reason}`).join(' ')
  const isMoving = runs.some(({ status }) => !runEnded(status))
  return (
    <article class="page">
      <header class="headline">
        <h1>Runs</h1>
        {organization === null ? null : (
          <p class="quiet">
            <OrganizationName name={organization} />
          </p>
        )}
      </header>
      {told}
      <Search
        path={runsPath}
        label="Workflow’s name"
        name="workflow_name"
        chosen={chosen}
        kept={[...moreFilters, 'workflow_id']}
      />
      <More chosen={chosen} zone={zone} />
      <Live name="runs" version={version} {...(isMoving ? { 'data-poll': '' } : {})}>
        {runs.length === 0 ? (
          <Nothing isSearch={isSearch || chosen['cursor'] !== undefined} />
        ) : (
          <ul class="inbox">
            {runs.map((run) => (
              <RunRow run={run} now={now} />
            ))}
          </ul>
        )}
      </Live>
      <Pager
        path={runsPath}
        chosen={chosen}
        cursor="cursor"
        next={next}
        words={{ first: 'Newest runs', next: 'Older runs' }}
      />
      {mayRepeat ? (
        <p class="links">
          <a href={addressOf(rerunsPath, againOf(chosen))}>Run many again…</a>
          <a href={addressOf(cancelRunsPath, { ...chosen, cursor: '' })}>Cancel many…</a>
        </p>
      ) : null}
    </article>
  )
}

/** What the filter of the other page can say too. */
const againOf = ({ workflow_id, status, from, to }: RunsProps['chosen']) => ({
  workflow_id,
  status,
  from,
  to,
})

function More({ chosen, zone }: Pick<RunsProps, 'chosen' | 'zone'>) {
  const states = runStatuses.map((each) => [each, wordOf(each)] as const)
  return (
    <Filters
      path={runsPath}
      chosen={chosen}
      names={moreFilters}
      title="Filter"
      kept={['workflow_name', 'workflow_id']}
    >
      <Choice name="status" label="State" chosen={chosen} options={states} />
      <Field name="requester_email" label="Started by" chosen={chosen} />
      <div class="days">
        <Field name="from" label={`From (${zoneWords(zone)})`} type="date" chosen={chosen} />
        <Field name="to" label={`To (${zoneWords(zone)})`} type="date" chosen={chosen} />
      </div>
    </Filters>
  )
}

const Nothing = ({ isSearch }: { isSearch: boolean }) =>
  isSearch ? (
    <Empty title="No run matches.">
      Change the filter, or <a href={runsPath}>show all runs</a>.
    </Empty>
  ) : (
    <Empty title="Nothing has run yet.">
      Choose one of the <a href={workflowsPath}>workflows</a>. Its runs then stand here, newest first.
    </Empty>
  )

const plainStates = new Set(['completed', 'running'])

export function RunRow({ run, now }: { run: RunHead; now: Date }) {
  const { id, status, status_reason, waiting_since, created_at, duration_ms } = run
  return (
    <li class="item run-row">
      <div class="item-words">
        <a href={`${runsPath}/${id}`} class="item-link">
          <Words text={run.workflow_name ?? 'A run'} most={120} />
        </a>
        {plainStates.has(status) ? null : (
          <p class="small">
            <Message text={countedFromOne(status_reason)} most={300} />
            {waiting_since === null ? null : (
              <>
                {' '}
                For <Time at={waiting_since} now={now} isLength />.
              </>
            )}
          </p>
        )}
        <p class="quiet small">
          {run.rerun_of === null ? null : 'Made again from an earlier run, '}
          {run.trigger === null ? null : (
            <>
              Trigger <Words text={run.trigger.name} most={120} />,{' '}
            </>
          )}
          <Words text={whoOf(run.requester_email)} most={120} />, <Time at={created_at} now={now} />
          {duration_ms === null ? null : ` · took ${duration(duration_ms)}`}
        </p>
      </div>
      <p class="row-state">
        <RunState status={status} />
      </p>
    </li>
  )
}
