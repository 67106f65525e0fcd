import { decideSteps } from '../../../src/calls/runs/effect.ts'
import type { EffectKey } from '../../../src/contract/ids.ts'
import { chosenEvents } from '../../../src/contract/webhook-events.ts'
import {
  errorBinding,
  outputBinding,
  paramsBinding,
  resultBinding,
} from '../../../src/governance/sealing/bindings.ts'
import { opOf } from '../../governance/runs/engine-fixture.ts'
import type { Person } from '../access-matrix/place.ts'
import { formOf } from '../fixtures.ts'
import type { TestServer } from '../server.ts'

/* An organization in which a value stands in every place that can hold one. */

/** Every planted value begins with it. */
export const mark = 'planted-5c1e'

export const rows = {
  run: 'a run',
  heldRun: 'a run with an approval that an admin may decide',
  ownersRun: 'a run with an approval that needs an owner',
  groupsRun: 'a run with an approval that a group decides',
  approval: 'an approval that an admin may decide',
  ownersApproval: 'an approval that needs an owner',
  groupsApproval: 'an approval that a group decides',
  memory: 'a value in memory',
  restricted: 'a value in memory with a restricted label',
} as const
export type Row = keyof typeof rows

export interface PlantedRun {
  readonly id: string
  readonly row: 'run' | 'heldRun' | 'ownersRun' | 'groupsRun'
  /** Null if the call was not held. */
  readonly approvalId: string | null
  readonly values: Readonly<Record<'input' | 'output' | 'result' | 'item' | 'detail' | 'param', string>>
}

export interface Planted {
  readonly runs: readonly PlantedRun[]
  readonly workflowId: string
  readonly agentApproval: { readonly id: string; readonly value: string }
  readonly sessionId: string
  readonly fileId: string
  readonly webhookId: string
  readonly memory: readonly { readonly key: string; readonly row: Row; readonly value: string }[]
}

/** `look` has an output, an item of `each` has failed, and `s` sends a mail, which a rule may hold. */
const definition = {
  inputs: { note: { type: 'string' } },
  steps: [
    { id: 'look', tool: 'memory_get', params: { key: 'k' } },
    { id: 'each', tool: 'memory_get', params: { key: 'k' }, for_each: ['{{input.note}}'] },
    { id: 's', tool: 'mail_send', params: { to: 'me', subject: 'x', text: '{{input.note}}' } },
  ],
}

type People = Readonly<Record<'asker' | 'owner' | 'reader' | 'grouped', Person>>

/** `asker` starts the runs and writes the values. */
export async function plant(server: TestServer, organizationId: string, people: People): Promise<Planted> {
  const send = async (by: 'asker' | 'owner', method: string, path: string, body?: unknown) => {
    const answer = await server.call(people[by].key, method, path, body)
    if (answer.status >= 300) throw new Error(`${method} ${path}: ${answer.text}`)
    return answer.body
  }
  const ours = `/organizations/${organizationId}`
  await send('owner', 'PATCH', `${ours}/governance`, { approvals_enabled: true })
  const webhook = { url: 'http://127.0.0.1:9/hook', events: chosenEvents }
  const { id: webhookId } = await send('owner', 'POST', `${ours}/webhooks`, webhook)
  for (const [name, part] of [
    ['auditors', 'reader'],
    ['finance', 'grouped'],
  ] as const)
    // prettier-ignore
    await send('owner', 'POST', `${ours}/groups`, { name, members: [people[part].userId] })
  for (const [name, approver] of [
    ['admin', 'admin'],
    ['owner', 'owner'],
    ['finance', { group: 'finance' }],
  ] as const)
    // prettier-ignore
    await send('owner', 'POST', `${ours}/rules`, {
      ...{ name: `${name} decides`, verdict: 'require_approval', tools: ['mail_send'], approver },
      params: [{ param: 'subject', operator: 'equals', value: name }],
    })
  await send('owner', 'POST', `${ours}/rules`, {
    ...{ name: 'agents ask', verdict: 'require_approval', applies_to: ['agents'], tools: ['Bash'] },
  })
  const { id: workflowId } = await send('asker', 'POST', '/workflows', {
    name: 'Report',
    definition,
    readers: ['auditors'],
  })
  const runs: PlantedRun[] = []
  for (const [row, subject] of [
    ['run', 'nobody'],
    ['heldRun', 'admin'],
    ['ownersRun', 'owner'],
    ['groupsRun', 'finance'],
  ] as const)
    // prettier-ignore
    runs.push(await plantRun(row, subject))
  const agents = `${mark}-command`
  const asked = { agent: { name: 'a', kind: 'hook' }, session_id: 's', tool_name: 'Bash', tool_input: { command: `echo ${agents}` } } // prettier-ignore
  const { approval_id: agentApproval } = await send('asker', 'POST', '/authorize', asked)
  const [session] = (await send('owner', 'GET', '/agent-sessions')).data
  const file = await send('asker', 'POST', '/files', formOf('notes.csv', `name\n${mark}-file\n`))
  const memory = [
    { key: 'plain', row: 'memory', value: `${mark}-memory`, labels: [] },
    { key: 'restricted', row: 'restricted', value: `${mark}-restricted`, labels: ['pii'] },
  ] as const
  for (const { key, value, labels } of memory) await send('asker', 'PUT', `/memory/${key}`, { value, labels })
  return {
    ...{ runs, workflowId, webhookId, memory, sessionId: session.id, fileId: file.id },
    agentApproval: { id: agentApproval, value: agents },
  }

  async function plantRun(row: PlantedRun['row'], subject: string): Promise<PlantedRun> {
    const { context } = server
    const value = (place: string): string => `${mark}-${row}-${place}`
    const path = `/workflows/${workflowId}/execute?wait=0`
    const { execution_id: id } = await send('asker', 'POST', path, { inputs: { note: value('input') } })
    const call = opOf(id, { params: { to: 'a@b.test', subject, text: value('param') } })
    await context.combiner.join(organizationId, decideSteps, call)
    const put = (columns: string, of: EffectKey, ...values: readonly unknown[]) =>
      context.pool.query(
        `insert into effects (run_id, step_id, item_index, organization_id, tool, state, finished_at, ${columns})
         values ($1, $2, $3, $4, 'memory_get', $5, now(), $6, $7, $8)`,
        [of.runId, of.stepId, of.itemIndex, organizationId, ...values],
      )
    const seal = (binding: string, plain: unknown) => context.sealer.seal(binding, JSON.stringify(plain))
    const [look, item] = [
      { runId: id, stepId: 'look', itemIndex: -1 },
      { runId: id, stepId: 'each', itemIndex: 0 },
    ]
    const nothing = [null, null]
    await put('output_sealed, error, error_detail_sealed', look, 'completed', await seal(outputBinding(look), value('output')), ...nothing) // prettier-ignore
    await put(
      'params_sealed, error, error_detail_sealed',
      item,
      'failed',
      await seal(paramsBinding(item), { params: { key: 'k' }, paramLabels: [], item: value('item') }),
      JSON.stringify({ code: 'e', message: 'it failed', retryable: false }),
      await seal(errorBinding(item), { said: value('detail') }),
    )
    await context.pool.query(
      `update run_steps set finished_at = now(), status = case step_id when 'look' then 'completed' else 'failed' end,
         item_count = case step_id when 'each' then 1 end where run_id = $1 and step_id <> 's'`,
      [id],
    )
    const result = await seal(resultBinding(id), value('result'))
    await context.pool.query('update runs set result_sealed = $2 where id = $1', [id, result])
    const approval = await context.db.selectFrom('approvals').select('id').where('run_id', '=', id).executeTakeFirst() // prettier-ignore
    const names = ['input', 'output', 'result', 'item', 'detail', 'param'] as const
    const values = Object.fromEntries(names.map((name) => [name, value(name)])) as PlantedRun['values']
    return { id, row, approvalId: approval?.id ?? null, values }
  }
}
