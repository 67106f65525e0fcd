import { beforeEach, expect, test } from '@jest/globals'
import { expireDue } from '../../../src/governance/approvals/expire.ts'
import { cancelRun } from '../../../src/governance/runs/end/cancel.ts'
import {
  eventsOf,
  go,
  hold,
  holdRule,
  makeLate,
  opOf,
  useEngine,
  type Engine,
} from '../runs/engine-fixture.ts'

let engine: Engine
useEngine((started) => (engine = started))
beforeEach(async () => {
  await engine.settings({ approval_threshold: 1, approval_required_from: null })
  await engine.rules(holdRule())
})

/** The run's audit entries about approvals: type, status and actor. */
async function auditOf(runId: string): Promise<string[]> {
  const rows = await engine.context.db
    .selectFrom('audit_events')
    .select('canonical')
    .where('run_id', '=', runId)
    .where('event_type', 'like', 'approval.%')
    .orderBy('seq')
    .execute()
  return rows.map(({ canonical }) => {
    const entry = JSON.parse(canonical) as { event_type: string; status: string; actor: { id: string } }
    return `${entry.event_type} ${entry.status} ${entry.actor.id.replace(runId, 'run')}`
  })
}

const requested = 'approval.requested pending run'
const admin = () => engine.caller('admin').userId

test.each<[string, (approvalId: string, runId: string) => Promise<unknown>, () => string[]]>([
  ['given and used', async (id, runId) => {
    await engine.vote(id, 'admin')
    await go(engine, opOf(runId))
  }, () => [`approval.granted approved ${admin()}`]],
  ['rejected', (id) => engine.vote(id, 'admin', 'reject'), () => [`approval.rejected rejected ${admin()}`]],
  ['voted on, one vote of two', async (id) => {
    await engine.settings({ approval_threshold: 2 })
    await engine.vote(id, 'admin')
  }, () => [`approval.voted pending ${admin()}`]],
  ['expired by the periodic check', async (id) => {
    await makeLate(engine.context, id)
    await expireDue(engine.context)
  }, () => ['approval.expired expired approvals']],
  ['expired when a vote comes too late', async (id) => {
    await makeLate(engine.context, id)
    await expect(engine.vote(id, 'admin')).rejects.toMatchObject({ code: 'approval_expired' })
  }, () => ['approval.expired expired approvals']],
  ['expired when its call asks again', async (id, runId) => {
    await makeLate(engine.context, id)
    await engine.decide(opOf(runId))
  }, () => ['approval.expired expired run']],
  ['withdrawn because its run is cancelled', (_id, runId) =>
    cancelRun(engine.context, { caller: engine.caller('member'), runId }), () => []],
])('an approval that is %s has these audit entries, and one event tells its run', async (name, change, expected) => {
  const runId = await engine.run()
  const id = await hold(engine, opOf(runId))
  await change(id, runId)
  expect(await auditOf(runId)).toEqual([requested, ...expected()])
  const events = (await eventsOf(engine.context, runId)).filter((type) => type.startsWith('approval.'))
  const last = name.startsWith('voted') ? 'approval.voted' : 'approval.decided'
  expect(events).toEqual(['approval.created', last])
}) // prettier-ignore

test('the request and each vote of an item name the item', async () => {
  const runId = await engine.run()
  const id = await hold(engine, opOf(runId, { item: 3 }))
  await engine.vote(id, 'admin', 'reject')
  const { rows } = await engine.context.pool.query<{ canonical: string }>(
    `select canonical from audit_events where run_id = $1 and event_type like 'approval.%' order by seq`,
    [runId],
  )
  const found = rows.map(({ canonical }) => {
    const { event_type: type, metadata } = JSON.parse(canonical) as { event_type: string; metadata: object }
    return [type, metadata]
  })
  const of = expect.objectContaining({ approval_id: id, step_id: 's', item_index: 3 })
  expect(found).toEqual([
    ['approval.requested', of],
    ['approval.rejected', of],
  ])
})
