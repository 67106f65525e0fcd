import { afterEach, beforeEach, expect, test } from '@jest/globals'
import { newId } from '../../../src/contract/ids.ts'
import type { WorkflowEngine } from '../../../src/governance/delivery/workflow-engine.ts'
import { reconcile } from '../../../src/governance/delivery/reconciler.ts'
import { expireDue } from '../../../src/governance/approvals/expire.ts'
import { recordAccountEvents } from '../../../src/governance/people/account-events.ts'
import { acceptRun } from '../../../src/governance/runs/start/accept.ts'
import { createWorkflow } from '../../../src/governance/workflows/workflows.ts'
import { workflowDefinition } from '../../../src/contract/definition.ts'
import { addOrganization } from '../../api/fixtures.ts'
import { asAdmin } from '../../support/postgres.ts'
import { oneStep, runOf, useEngine, type Engine } from '../runs/engine-fixture.ts'

/* Periodic tasks go on for all other organizations if the audit chain of one organization takes no entry. */

let engine: Engine
useEngine((started) => (engine = started))

let other: Awaited<ReturnType<typeof addOrganization>>
beforeEach(async () => {
  other = await addOrganization(engine.context)
  await asAdmin(engine.adminUrl, (client) =>
    client.query(`create function refuse() returns trigger language plpgsql as $$
        begin raise exception 'the chain is broken'; end $$;
      create trigger broken before update on chain_head for each row
        when (new.organization_id = '${engine.organizationId}' and new.seq <> old.seq) execute function refuse()`),
  )
})
const heal = () =>
  asAdmin(engine.adminUrl, (client) => client.query('drop function if exists refuse() cascade'))
afterEach(heal)

const ask = async (sql: string, values: unknown[] = []) =>
  (await engine.context.pool.query<Record<string, unknown>>(sql, values)).rows

/** Inserts approvals of agents' calls whose time has been over for so many minutes. */
async function insertDue(organizationId: string, userId: string, count: number, minutes: number) {
  for (let each = 0; each < count; each += 1)
    await ask(
      `insert into approvals (id, organization_id, kind, requested_by, params_hash, labels, approver, approvals_needed, status, risk, created_at, expires_at, tool)
       values ($1, $2, 'agent_call', $3, 'h', '{}', 'admin', 1, 'pending', '{"level": "low", "reasons": []}', now() - interval '1 day', now() - make_interval(mins => $4), 'Write')`,
      [newId('approval'), organizationId, userId, minutes],
    )
}
const statusesIn = async (organizationId: string) =>
  (await ask('select distinct status from approvals where organization_id = $1', [organizationId])).map(
    ({ status }) => status,
  )

test('approvals of other organizations expire, however many of the broken one are due', async () => {
  await insertDue(engine.organizationId, engine.caller('member').userId, 110, 60)
  await insertDue(other.id, other.owner.userId, 2, 5)
  await expireDue(engine.context)
  expect(await statusesIn(other.id)).toEqual(['expired'])
  expect(await statusesIn(engine.organizationId)).toEqual(['pending'])
  // Only approvals of the broken organization are left, so the task fails.
  await expect(expireDue(engine.context)).rejects.toThrow('the chain is broken')
  await heal()
  while ((await expireDue(engine.context)) > 0);
  expect(await statusesIn(engine.organizationId)).toEqual(['expired'])
})

test('account events of other organizations are recorded, however many of the broken one wait', async () => {
  await ask('delete from account_events')
  const insert = (organizationId: string, userId: string, count: number) =>
    ask(
      `insert into account_events (organization_id, user_id, type)
       select $1, $2, 'user.password_changed' from generate_series(1, $3)`,
      [organizationId, userId, count],
    )
  await insert(engine.organizationId, engine.caller('member').userId, 210)
  await insert(other.id, other.owner.userId, 1)
  await recordAccountEvents(engine.context)
  const waiting = () => ask('select organization_id, count(*)::int from account_events group by 1')
  expect(await waiting()).toEqual([{ organization_id: engine.organizationId, count: 210 }])
  await heal()
  await recordAccountEvents(engine.context)
  await recordAccountEvents(engine.context)
  expect(await waiting()).toEqual([])
})

test('runs of other organizations are closed that have ended in Temporal', async () => {
  const { context } = engine
  await heal()
  const ours = await engine.run()
  const caller = { ...engine.caller('owner'), ...other.owner, organizationId: other.id }
  const workflow = { name: 'w', description: '', definition: workflowDefinition.parse(oneStep) }
  const { id: workflowId } = await createWorkflow(context, caller, workflow)
  const { runId: theirs } = await acceptRun(context, { caller, workflowId, inputs: {} })
  await asAdmin(engine.adminUrl, (client) =>
    client.query(`create function refuse() returns trigger language plpgsql as $$
        begin raise exception 'this run is broken'; end $$;
      create trigger broken before update on runs for each row
        when (new.id = '${ours}' and new.finished_at is not null) execute function refuse()`),
  )
  const temporal = { describe: async () => 'terminated' } as unknown as WorkflowEngine
  await reconcile(context, temporal, async () => false, -60)
  expect((await runOf(context, theirs)).status).toBe('cancelled')
  expect((await runOf(context, ours)).status).not.toBe('cancelled')
})
