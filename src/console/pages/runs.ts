import { h } from 'preact'
import type { Page as ListPage } from '../../governance/page.ts'
import type { RunHead } from '../../governance/runs/read/read.ts'
import { chosenOf } from '../parts/pager.ts'
import { runFilters, Runs } from '../parts/runs.ts'
import type { PersonsVisit, Shown } from '../visit.ts'
import { problemPage } from './problem.ts'

const perPage = '50'

/** `GET /console/runs`: the organization's runs, newest first. */
export async function runsPage(visit: PersonsVisit): Promise<Shown> {
  const { organization } = visit.person
  const chosen = chosenOf(visit.query, [...runFilters, 'cursor'])
  const { from, to, ...same } = chosen
  const listed = await visit.api.call<ListPage<RunHead>>('GET /runs', {
    query: {
      limit: perPage,
      ...(organization === null ? {} : { organization_id: organization.id }),
      ...same,
      ...(from === undefined ? {} : { since: from }),
      ...(to === undefined ? {} : { until: dayAfter(to) }),
    },
  })
  if (!listed.ok) return problemPage(listed, visit.place)
  return {
    status: 200,
    title: 'Runs',
    main: h(Runs, {
      runs: listed.body.data,
      next: listed.body.next_cursor,
      chosen,
      organization: organization?.name ?? null,
      now: visit.now,
    }),
  }
}

/**
 * Returns the day after `day`. The API's search ends at the beginning of the returned day, so the results include
 * `day`. A text that is not a day is returned unchanged.
 */
function dayAfter(day: string): string {
  const time = Date.parse(`${day}T00:00:00Z`)
  return /^\d{4}-\d\d-\d\d$/.test(day) && !Number.isNaN(time)
    ? new Date(time + 86_400_000).toISOString().slice(0, 10)
    : day
}
