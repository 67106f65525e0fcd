import { newId } from '../../src/contract/ids.ts'
import { aDefinition, aLabelRule, aRule, addConnection, addKey, everyScope, formOf } from './fixtures.ts'
import type { TestServer } from './server.ts'

/** One of each object that a path can name. */
export interface Resources {
  readonly organizationId: string
  readonly ids: {
    readonly workflow: string
    readonly rule: string
    readonly labelRule: string
    readonly run: string
    readonly approval: string
    readonly key: string
    readonly session: string
    readonly connection: string
    readonly file: string
  }
}

/** Creates these objects: through the API where possible, otherwise as rows. */
export async function resourcesOf(
  server: TestServer,
  organizationId: string,
  userId: string,
): Promise<Resources> {
  const { context } = server
  const { id: key, secret } = await addKey(context, organizationId, userId, everyScope)
  const make = async (path: string, body: unknown): Promise<string> => {
    const answer = await server.call(secret, 'POST', path, body)
    if (answer.status !== 201) throw new Error(answer.text)
    return answer.body.id as string
  }
  const workflow = await make('/workflows', { name: 'Report', definition: aDefinition })
  const rule = await make(`/organizations/${organizationId}/rules`, aRule)
  const labelRule = await make(`/organizations/${organizationId}/label-rules`, aLabelRule)
  const run = newId('run')
  await context.db
    .insertInto('runs')
    .values({
      id: run,
      organization_id: organizationId,
      workflow_id: workflow,
      workflow_version: 1,
      interpreter_version: 1,
      status: 'completed',
      status_reason: 'the run completed',
      requested_by: userId,
      requester_email: 'requester@larkspur.example',
      api_key_id: key,
      input_hash: '0'.repeat(64),
      time_zone: 'UTC',
      risk: JSON.stringify({ level: 'high', reasons: [] }),
      cancel_requested_at: null,
      cancel_requested_by: null,
      started_at: new Date(),
      finished_at: new Date(),
      checked_at: null,
    })
    .execute()
  const approval = newId('approval')
  await context.db
    .insertInto('approvals')
    .values({
      id: approval,
      organization_id: organizationId,
      kind: 'run',
      status: 'approved',
      run_id: run,
      step_id: null,
      item_index: null,
      session_id: null,
      workflow_id: workflow,
      tool: null,
      side_effect: null,
      params_sealed: null,
      params_hash: null,
      rule_id: null,
      rule_name: null,
      labels: [],
      risk: JSON.stringify({ level: 'high', reasons: [] }),
      requested_by: userId,
      approver: 'admin',
      approvals_needed: 1,
      created_at: new Date(),
      expires_at: null,
      decided_at: new Date(),
      used_at: null,
      used_by: null,
      superseded_by: null,
    })
    .execute()
  const [session, now] = [newId('session'), new Date()]
  await context.db
    .insertInto('agent_sessions')
    .values({
      id: session,
      organization_id: organizationId,
      user_id: userId,
      session_id: session,
      run_id: newId('run'),
      agent_name: 'a',
      agent_kind: 'hook',
      status: 'live' as const,
      started_at: now,
      last_seen_at: now,
      ended_at: null,
      revoked_by: null,
      revoke_reason: null,
    })
    .execute()
  const connection = await addConnection(context, organizationId, userId)
  const file = await make('/files', formOf('a.txt', 'text'))
  return { organizationId, ids: { workflow, rule, labelRule, run, approval, key, session, connection, file } }
}
