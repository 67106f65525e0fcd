import { z } from 'zod'
import type { RerunFilter } from '../../db/schema/runs.ts'
import { actOnce } from '../../governance/idempotency.ts'
import { readOwned, listOwned } from '../../governance/page.ts'
import {
  cancelRerun,
  createRerun,
  listRerunItems,
  matchRuns,
  rerunRows,
} from '../../governance/runs/start/reruns.ts'
import { accepted, ok, tagged } from '../route.ts'
import { emptyBody, id, listOf, listQueryOfPath, named, pageIn, time } from '../schemas/common.ts'
import { manyBody, rerunFilter } from '../schemas/run-requests.ts'
import { runStatus } from '../schemas/runs.ts'
import { inOwned } from '../subjects.ts'

const { route } = tagged('Runs')

const count = z.int().min(0)
const rerunShape = {
  id,
  organization_id: id,
  requested_by: id,
  requester_email: z.string(),
  status: z.enum(['going', 'ended']),
  reason: z.string().nullable().describe('why nothing starts now, or why it ended before all were started'),
  filter: rerunFilter,
  options: z.strictObject({
    from: z.enum(['failed', 'start']),
    version: z.enum(['same', 'latest']),
    on_repeat: z.enum(['hold', 'skip', 'allow']),
  }),
  counts: z
    .strictObject({
      total: count,
      waiting: count,
      started: count,
      refused: count,
      cancelled: count,
      open: count,
      held: count,
      completed: count,
      failed: count,
    })
    .describe('`open`, `held`, `completed` and `failed` are about the new runs'),
  created_at: time,
  expires_at: time.describe('what has not started by then never does'),
  ended_at: time.nullable(),
}
const rerun = named('Rerun', rerunShape)
const rerunItem = named('RerunItem', {
  run_id: id,
  workflow_id: id,
  version: z.int().describe('of the workflow, as of the request'),
  state: z.enum(['waiting', 'started', 'refused', 'cancelled']),
  new_run_id: id.nullable(),
  status: runStatus.nullable().describe('of the new run'),
  reason: z.string().nullable(),
})
const besides = {
  more: z.boolean().describe('others match too: ask again afterwards'),
  already_waiting: count.describe('would match too, but wait in another request that goes on'),
}
const matched = named('RerunMatches', {
  matches: count.describe('at most 1,000'),
  ...besides,
})

const reads = { scope: 'runs:read', role: 'viewer', subject: 'organization' } as const
const writes = { scope: 'runs:write', role: 'member' } as const
const one = '/organizations/{id}/reruns/{rerun}' as const
const oneRerun = inOwned('rerun', rerunRows)

export const rerunRoutes = [
  route({
    key: 'POST /runs/rerun',
    needs: { ...writes, subject: 'own' },
    audit: ['rerun.requested'],
    summary: 'Run many ended runs again, for example after an outage',
    description:
      'The oldest 1,000 that match: your own, or as an admin all. A run that was made again already, or waits in another request, does not match. A worker starts them one after another, with your rights at that time. With `latest`, the versions are those of now: what is saved later does not count.',
    body: manyBody,
    responses: { 200: matched, 202: named('NewRerun', { ...rerunShape, ...besides }) },
    async handle({ context, caller, body, once }) {
      const { dry_run: isDry, organization_id: _, filter, ...options } = body
      if (isDry) {
        const { runs, more, waiting } = await matchRuns(context, caller, filter as RerunFilter)
        return ok({ matches: runs.length, more, already_waiting: waiting })
      }
      const request = { filter: filter as RerunFilter, options }
      const {
        id: made,
        more,
        waiting,
      } = await actOnce(once, () => createRerun(context, caller, request, once))
      return accepted({
        ...(await readOwned(context, rerunRows, caller, made)),
        more,
        already_waiting: waiting,
      })
    },
  }),
  route({
    key: 'GET /organizations/{id}/reruns',
    needs: reads,
    summary: 'Requests to run many runs again, newest first',
    description: 'Ended ones are kept for 30 days.',
    query: listQueryOfPath,
    responses: { 200: listOf(rerun) },
    handle: async ({ context, caller, query }) =>
      ok(await listOwned(context, rerunRows, caller, pageIn(query))),
  }),
  route({
    key: `GET ${one}`,
    needs: reads,
    inner: [oneRerun],
    summary: 'One such request, with its progress',
    responses: { 200: rerun },
    handle: async ({ context, caller, params }) =>
      ok(await readOwned(context, rerunRows, caller, params.rerun)),
  }),
  route({
    key: `GET ${one}/runs`,
    needs: reads,
    inner: [oneRerun],
    summary: 'The runs of such a request, in the order in which they start',
    query: listQueryOfPath,
    responses: { 200: listOf(rerunItem) },
    handle: async ({ context, params, query }) =>
      ok(await listRerunItems(context.db, params.rerun, pageIn(query))),
  }),
  route({
    key: `POST ${one}/cancel`,
    needs: { ...writes, subject: 'organization' },
    inner: [oneRerun],
    audit: ['rerun.cancelled'],
    summary: 'Start no further run; what was started goes on',
    body: emptyBody,
    responses: { 200: rerun },
    async handle({ context, caller, params, once }) {
      await actOnce(once, () => cancelRerun(context, caller, params.rerun, once))
      return ok(await readOwned(context, rerunRows, caller, params.rerun))
    },
  }),
]
