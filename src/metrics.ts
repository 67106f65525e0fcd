import { collectDefaultMetrics, Counter, Registry } from 'prom-client'

/**
 * What a process counts, for Prometheus. Names and numbers only: no parameter, no secret, and nothing whose values are
 * without end (ids, tools' names) as a label.
 */
export interface Metrics {
  /** Answers to agents, by `decision`. */
  agentDecision(decision: 'allow' | 'deny' | 'require_approval'): void
  /** A call that ran although no decision had allowed it: worth an alert. */
  unapprovedCall(): void
  /** In Prometheus' text format. */
  text(): Promise<string>
}

export function createMetrics(kind: string): Metrics {
  const registry = new Registry()
  registry.setDefaultLabels({ process: kind })
  const decisions = new Counter({
    name: 'countersign_agent_decisions_total',
    help: 'Decisions on calls of agents, by decision',
    labelNames: ['decision'],
    registers: [registry],
  })
  const unapproved = new Counter({
    name: 'countersign_agent_unapproved_calls_total',
    help: 'Calls of agents that ran although no decision had allowed them',
    registers: [registry],
  })
  for (const decision of ['allow', 'deny', 'require_approval']) decisions.inc({ decision }, 0)
  let isObserving = false
  return {
    agentDecision: (decision) => decisions.inc({ decision }),
    unapprovedCall: () => unapproved.inc(),
    text: () => {
      // Of the process itself; not before somebody asks: it observes the garbage collector from then on.
      if (!isObserving) collectDefaultMetrics({ register: registry })
      isObserving = true
      return registry.metrics()
    },
  }
}
