import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client'

/** No label has ids or addresses. docs/monitoring.md explains each metric; a test compares it with this table. */
export type Metrics = ReturnType<typeof createMetrics>

/** In seconds. */
const requestBuckets = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30]
const toolBuckets = [0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300]
const lockBuckets = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1, 5]
const batchBuckets = [1, 2, 4, 8, 16, 32, 64, 128, 256]

type Makers = ReturnType<typeof makersOf>

function makersOf(registry: Registry) {
  const named = <Label extends string>(name: string, help: string, labelNames: readonly Label[]) => ({
    name: `countersign_${name}`,
    help,
    labelNames: [...labelNames],
    registers: [registry],
  })
  const counter = <Label extends string>(name: string, help: string, ...labels: Label[]) =>
    new Counter(named(name, help, labels))
  const gauge = <Label extends string>(name: string, help: string, ...labels: Label[]) =>
    new Gauge(named(name, help, labels))
  const histogram = <Label extends string>(
    name: string,
    help: string,
    buckets: number[],
    ...labels: Label[]
  ) => new Histogram({ ...named(name, help, labels), buckets })
  return { counter, gauge, histogram }
}

const workMetrics = ({ counter, gauge, histogram }: Makers) => ({
  unapprovedCalls: counter('agent_unapproved_calls_total', 'Calls of agents that ran without a decision'),
  runsAccepted: counter('runs_accepted_total', 'Accepted runs, by first status', 'status'),
  runsRefused: counter('runs_refused_total', 'Runs refused by a rule before their start'),
  runsEnded: counter('runs_ended_total', 'Ended runs, by status', 'status'),
  toolCalls: counter('tool_calls_total', 'Calls of runs that ended or failed', 'tool', 'outcome'),
  toolSeconds: histogram('tool_call_seconds', 'Time of a tool’s body', toolBuckets, 'tool'),
  approvals: counter('approvals_total', 'Changes of approvals', 'change'),
  quotaRefusals: counter('quota_refusals_total', 'Refusals over a quota', 'limit'),
  rateRefusals: counter('rate_refusals_total', 'Requests refused over a rate limit', 'limit'),
  requests: counter('http_requests_total', 'Answered requests', 'method', 'route', 'status'),
  requestSeconds: histogram('http_request_seconds', 'Time of a request', requestBuckets, 'route'),
  batchSize: histogram('combiner_batch_size', 'Operations in one transaction', batchBuckets),
  lockSeconds: histogram('combiner_lock_seconds', 'Time under a chain’s lock', lockBuckets),
  failedBatches: counter('combiner_failed_batches_total', 'Transactions that failed', 'reason'),
  auditAlarms: gauge(
    'audit_logs_in_alarm',
    'Audit logs that this process has found changed, or without their kept checkpoint',
  ),
  waitingOperations: gauge('combiner_waiting_operations', 'Operations that wait for a transaction'),
  busyLanes: gauge('combiner_busy_lanes', 'Organizations with a transaction in flight'),
  relayed: counter('relay_messages_total', 'Messages of the outbox', 'kind', 'result'),
  webhookAttempts: counter('webhook_attempts_total', 'Messages sent to webhooks, by result', 'result'),
  messages: counter('notifications_total', 'Messages to people about approvals', 'channel', 'result'),
  reconciled: counter('reconciled_runs_total', 'Runs that differed from Temporal', 'result'),
  tasks: counter('task_rounds_total', 'Rounds of periodic tasks', 'task', 'result'),
  taskSuccess: gauge('task_last_success_timestamp_seconds', 'Last success of a task', 'task'),
  connections: gauge('database_connections', 'Connections of the pool', 'state'),
  connectionWaits: gauge('database_connection_waits', 'Callers that wait for a connection'),
  lostConnections: counter('database_connections_lost_total', 'Connections that the database ended'),
  workerSlots: gauge('worker_slots', 'Slots of the worker for tasks of Temporal', 'kind', 'state'),
  cachedWorkflows: gauge('worker_cached_workflows', 'Workflows in the memory of the worker'),
  lostLines: counter('log_lines_lost_total', 'Lines of the log that could not be written', 'to'),
})

/** Read for each scrape, from the database and disks. */
const stateMetrics = ({ gauge }: Makers) => ({
  databaseUp: gauge('database_up', 'Whether the state below could be read: 1 or 0'),
  openRuns: gauge('open_runs', 'Runs that have not ended, up to 10,000', 'status'),
  oldestRun: gauge('open_runs_oldest_seconds', 'Age of the oldest open run', 'status'),
  slotWaits: gauge('runs_waiting_for_slot', 'Runs that wait for a concurrency slot'),
  pendingApprovals: gauge('approvals_pending', 'Approvals that wait for a person', 'kind', 'age'),
  oldestApproval: gauge('approvals_oldest_seconds', 'Age of the oldest pending approval', 'kind'),
  unknownOutcomes: gauge('unknown_outcomes', 'Calls that a person must resolve, up to 10,000'),
  outbox: gauge('outbox_messages', 'Messages that Temporal has not got, up to 10,000'),
  oldestMessage: gauge('outbox_oldest_seconds', 'Age of the oldest message in the outbox'),
  diskFree: gauge('disk_free_bytes', 'Free bytes of the disk of a folder', 'folder'),
})

export function createMetrics(kind: string) {
  const registry = new Registry()
  registry.setDefaultLabels({ process: kind })
  const makers = makersOf(registry)
  const decisions = makers.counter('decisions_total', 'Decisions on calls', 'source', 'verdict')
  for (const verdict of ['allow', 'deny', 'require_approval'])
    for (const source of ['agents', 'workflows']) decisions.inc({ source, verdict }, 0)

  const readers: (() => Promise<void>)[] = []
  let isObserving = false
  return {
    decisions,
    ...workMetrics(makers),
    ...stateMetrics(makers),
    /** `read` sets gauges. It must be cheap and must not throw. */
    beforeScrape: (read: () => Promise<void>) => void readers.push(read),
    text: async (): Promise<string> => {
      // They observe the garbage collector, so they start only with the first scrape.
      if (!isObserving) collectDefaultMetrics({ register: registry })
      isObserving = true
      await Promise.all(readers.map((read) => read()))
      return registry.metrics()
    },
  }
}
