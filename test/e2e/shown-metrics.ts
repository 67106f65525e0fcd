import { expect } from '@jest/globals'
import type { StartedStack } from '../support/start-stack.ts'

/** The metrics of a process: `name{labels}` and value. */
async function scrape(
  stack: StartedStack,
  process: 'metrics_url' | 'worker_metrics_url',
): Promise<Map<string, number>> {
  const text = await (await fetch(stack.bootstrap<Record<string, string>>()[process] as string)).text()
  const lines = text.split('\n').filter((line) => line.startsWith('countersign_'))
  return new Map(
    lines.map((line) => {
      const [, name, labels = '', value] = /^(\w+)(?:\{(.*)\})? (\S+)$/.exec(line) as string[]
      return [`${name}{${labels.split(',').toSorted().join(',')}}`, Number(value)]
    }),
  )
}

/** Expects that the metrics show calls, decisions, quotas, batches and tasks of the runs before, and no ids. */
export async function expectMetrics(stack: StartedStack): Promise<void> {
  const [api, worker] = await Promise.all([scrape(stack, 'metrics_url'), scrape(stack, 'worker_metrics_url')])
  const seen = (series: string): number => (api.get(series) ?? 0) + (worker.get(series) ?? 0)
  for (const series of [
    'countersign_runs_accepted_total{process="api",status="accepted"}',
    'countersign_runs_ended_total{process="worker",status="failed"}',
    'countersign_decisions_total{process="worker",source="workflows",verdict="require_approval"}',
    'countersign_decisions_total{process="api",source="agents",verdict="require_approval"}',
    'countersign_tool_calls_total{outcome="retry",process="worker",tool="mail_send"}',
    'countersign_tool_call_seconds_count{process="worker",tool="mail_send"}',
    'countersign_approvals_total{change="granted",process="api"}',
    'countersign_quota_refusals_total{limit="workflow_runs_per_hour",process="api"}',
    'countersign_http_requests_total{method="POST",process="api",route="/workflows/{id}/execute",status="202"}',
    'countersign_http_request_seconds_count{process="api",route="/authorize"}',
    'countersign_combiner_batch_size_count{process="worker"}',
    'countersign_combiner_lock_seconds_count{process="api"}',
    'countersign_relay_messages_total{kind="run.start",process="api",result="delivered"}',
    'countersign_task_rounds_total{process="worker",result="success",task="heartbeat"}',
    'countersign_task_rounds_total{process="api",result="success",task="keeping checkpoints of audit logs"}',
    'countersign_task_rounds_total{process="worker",result="success",task="keeping checkpoints of audit logs"}',
    'countersign_worker_slots{kind="activity",process="worker",state="free"}',
    'countersign_database_connections{process="worker",state="idle"}',
    'countersign_database_up{process="worker"}',
    'countersign_approvals_oldest_seconds{kind="agent_call",process="api"}',
    'countersign_disk_free_bytes{folder="logs",process="api"}',
  ])
    expect([series, seen(series) > 0]).toEqual([series, true])
  const missing = [...api, ...worker].filter(([, value]) => Number.isNaN(value))
  expect(missing).toEqual([])
  // Ids would make the number of series grow for ever.
  expect(
    [...api.keys(), ...worker.keys()].filter((series) =>
      /(org|run|wf|usr|apr|dec|key)_[0-9A-Z]{20}/.test(series),
    ),
  ).toEqual([])
}
