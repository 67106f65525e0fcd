import { h } from 'preact'
import type { AgentSessionView } from '../../governance/agents/read.ts'
import type { Page as ListPage } from '../../governance/page.ts'
import { chosenOf } from '../parts/pager.ts'
import { sessionFilters, Sessions } from '../parts/sessions.ts'
import type { PersonsVisit, Shown } from '../visit.ts'
import { problemPage } from './problem.ts'

const perPage = '50'

/** `GET /console/sessions`: the agents' sessions of the organization, newest first. */
export async function sessionsPage(visit: PersonsVisit): Promise<Shown> {
  const { organization } = visit.person
  const chosen = chosenOf(visit.query, [...sessionFilters, 'cursor'])
  const listed = await visit.api.call<ListPage<AgentSessionView>>('GET /agent-sessions', {
    query: {
      limit: perPage,
      ...(organization === null ? {} : { organization_id: organization.id }),
      ...chosen,
    },
  })
  if (!listed.ok) return problemPage(listed, visit.place)
  return {
    status: 200,
    title: 'Agents',
    main: h(Sessions, {
      sessions: listed.body.data,
      next: listed.body.next_cursor,
      chosen,
      organization: organization?.name ?? null,
      now: visit.now,
    }),
  }
}
