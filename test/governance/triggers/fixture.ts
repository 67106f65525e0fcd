import { triggerSender } from '../../../src/governance/triggers/schedule.ts'
import { startRunner, type Runner } from '../../../src/governance/lanes/runner.ts'
import type { ServiceMail } from '../../../src/governance/service-mail.ts'
import type { TriggerInput } from '../../../src/governance/triggers/settings.ts'
import { changeTrigger, createTrigger } from '../../../src/governance/triggers/triggers.ts'
import { createServiceAccount } from '../../../src/governance/people/service-accounts.ts'
import { createWorkflow } from '../../../src/governance/workflows/workflows.ts'
import { workflowDefinition } from '../../../src/contract/definition.ts'
import type { PollSettings, ScheduleSettings } from '../../../src/db/schema/triggers.ts'
import { startEngine, type Engine } from '../runs/engine-fixture.ts'

/** A workflow with the input `text`, a service account, and a runner for the lanes of triggers. */
export interface TriggerHome extends Engine {
  readonly workflowId: string
  readonly account: string
  /** Mails of this process. */
  readonly mails: ServiceMail[]
  schedule(schedule?: Partial<ScheduleSettings>, over?: Partial<TriggerInput>): Promise<string>
  /** A poll that reads the memory key `k`. */
  poll(poll?: Partial<PollSettings>): ReturnType<typeof createTrigger>
  webhook(webhook: object, over?: Partial<TriggerInput>): ReturnType<typeof createTrigger>
  change(id: string, change: Parameters<typeof changeTrigger>[3]): ReturnType<typeof changeTrigger>
  /** Makes the schedule due so many seconds ago, and wakes its lane. */
  makeDue(id: string, secondsAgo?: number): Promise<unknown>
  firingsOf(
    id: string,
  ): Promise<{ state: string; due_at: Date | null; run_id: string | null; reason: string | null }[]>
  /** Ends a run, as if it had gone so. */
  endRun(id: string, status?: string): Promise<unknown>
  eventsAbout(id: string): Promise<string[]>
  /** Nothing fires in this process any more. */
  stopRunner(): Promise<void>
}

export const everyHour: ScheduleSettings = {
  cron: null,
  every_seconds: 3_600,
  time_zone: 'UTC',
  catch_up: 'last',
  overlap: 'skip',
}

export const oneInput = {
  inputs: { text: { type: 'string' } },
  steps: [{ id: 's', tool: 'memory_set', params: { key: 'k', value: '{{input.text}}' } }],
  result: { text: '{{input.text}}' },
}

export async function startTriggerHome(environment: NodeJS.ProcessEnv = {}): Promise<TriggerHome> {
  const engine = await startEngine(environment)
  const { context, caller } = engine
  const { pool } = context
  await engine.settings({ approval_required_from: null })
  const definition = workflowDefinition.parse(oneInput)
  const { id: workflowId } = await createWorkflow(context, caller('member'), {
    name: 'w',
    description: '',
    definition,
  })
  const { id: account } = await createServiceAccount(context, caller('owner'), {
    name: 'nightly',
    role: 'member',
  })
  const mails: ServiceMail[] = []
  const runner: Runner = startRunner(
    context,
    [triggerSender(context, async (mail) => void mails.push(mail))],
    20,
  )
  const base = { name: 't', service_account: account, version: 'latest', untrusted: true } as const
  const make = (input: Partial<TriggerInput>) =>
    createTrigger(context, caller('admin'), workflowId, { inputs: {}, ...base, ...input })
  return {
    ...engine,
    workflowId,
    account,
    mails,
    schedule: async (schedule = {}, over = {}) =>
      (await make({ schedule: { ...everyHour, ...schedule }, inputs: { text: 'due {{due_at}}' }, ...over }))
        .id,
    poll: (poll = {}) => {
      const call = { tool: 'memory_get', params: { key: 'k' }, every_seconds: 3_600 }
      const items = { list: '{{ output.value }}', id: '{{ item.id }}', order: null }
      return make({ poll: { ...call, ...items, first: 'all', ...poll } })
    },
    webhook: (webhook, over = {}) =>
      make({
        webhook: { verify: 'standard', answer: 'accepted', ...webhook },
        inputs: { text: '{{body.text}}' },
        ...over,
      }),
    change: (id, change) => changeTrigger(context, caller('admin'), id, change),
    async makeDue(id, secondsAgo = 0) {
      await pool.query('update triggers set next_due_at = now() - make_interval(secs => $2) where id = $1', [
        id,
        secondsAgo,
      ])
      await pool.query(
        `update lanes set due_at = now(), paused_until = null where kind = 'trigger' and id = $1`,
        [id],
      )
    },
    async firingsOf(id) {
      const asked =
        'select state, due_at, run_id, reason from trigger_firings where trigger_id = $1 order by due_at, id'
      return (await pool.query(asked, [id])).rows
    },
    endRun: (id, status = 'completed') =>
      pool.query('update runs set status = $2, finished_at = now(), slot = null where id = $1', [id, status]),
    async eventsAbout(id) {
      const { rows } = await pool.query<{ type: string }>(
        `select canonical::jsonb->>'event_type' as type from audit_events
         where canonical::jsonb->'metadata'->>'trigger_id' = $1 order by seq`,
        [id],
      )
      return rows.map(({ type }) => type)
    },
    stopRunner: () => runner.stop(),
    async close() {
      await runner.stop()
      await engine.close()
    },
  }
}
