import { sql } from 'kysely'
import type { RunStatus } from '../../contract/status.ts'
import type { WorkflowDefinition } from '../../contract/definition.ts'
import { getTool } from '../../tools/index.ts'
import type { Configured, Reading } from '../context.ts'
import type { Caller } from '../access/identity.ts'
import { covers } from '../access/scopes.ts'
import { hasPart, listPage, type Page, type PageRequest } from '../page.ts'
import { readConnected, toolStanding } from '../tools/connections.ts'
import { summaryOf, toolsOf, type WorkflowSummary } from './workflows.ts'

export interface ListedWorkflow extends WorkflowSummary {
  readonly created_by_email: string
  readonly last_run: { readonly id: string; readonly status: RunStatus; readonly created_at: string } | null
  readonly trigger_count: number
  /** Why tools of its current version do not work for the caller now. */
  readonly warnings: readonly string[]
}

interface Sought {
  /** The whole name. */
  readonly name?: string | undefined
  /** Part of the name or slug; upper or lower case does not matter. */
  readonly search?: string | undefined
}

const lastRun = sql<ListedWorkflow['last_run']>`(
  select json_build_object('id', r.id, 'status', r.status, 'created_at', r.created_at) from runs r
  where r.workflow_id = w.id order by r.id desc limit 1)`

/** Newest first. */
export async function listWorkflows(
  context: Configured & Reading,
  caller: Pick<Caller, 'organizationId' | 'userId' | 'scopes'>,
  { name, search }: Sought,
  page: PageRequest,
): Promise<Page<ListedWorkflow>> {
  const connections = await readConnected(context.db, caller.organizationId, caller.userId)
  const seesRuns = covers(caller.scopes, 'runs:read')
  const whyNot = (tool: string): string[] => {
    const found = getTool(tool)
    const why = found && toolStanding(context.config.tools, connections, found, caller.userId).unavailable
    return why ? [why] : []
  }
  const query = context.db
    .selectFrom('workflows as w')
    .innerJoin('users as u', 'u.id', 'w.created_by')
    .innerJoin('workflow_versions as v', (join) =>
      join.onRef('v.workflow_id', '=', 'w.id').onRef('v.version', '=', 'w.current_version'),
    )
    .selectAll('w')
    .select([
      'u.email',
      'v.tools',
      sql<string | null>`case when v.tools is null then v.definition end`.as('unread'),
      (seesRuns ? lastRun : sql<null>`null`).as('last_run'),
      sql<number>`(select count(*)::int from triggers t where t.workflow_id = w.id)`.as('trigger_count'),
    ])
    .where('w.organization_id', '=', caller.organizationId)
    .where('w.deleted_at', 'is', null)
    .where('w.poll_of', 'is', null)
    .$if(name !== undefined, (all) => all.where('w.name', '=', name as string))
    .$if(search !== undefined, (all) =>
      all.where(hasPart(sql`concat(w.name, ' ', w.slug)`, search as string)),
    )
  return listPage(
    context.db,
    query,
    'workflow',
    page,
    ({ email, tools, unread, last_run: run, trigger_count, ...row }) => ({
      ...summaryOf(row),
      created_by_email: email,
      last_run: run && { ...run, created_at: new Date(run.created_at).toISOString() },
      trigger_count,
      warnings: (tools ?? toolsOf(JSON.parse(unread as string) as WorkflowDefinition)).flatMap(whyNot),
    }),
    'w.id',
  )
}
