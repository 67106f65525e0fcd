import type { ApprovalView } from '../governance/approvals/read.ts'

/** Several calls that are approved together must have the same tool, the same rule and the same labels. */
export type Traits = Readonly<Record<'tool' | 'rule' | 'labels', string>>

export const traitsOf = ({
  kind,
  tool,
  rule_id,
  labels,
}: Pick<ApprovalView, 'kind' | 'tool' | 'rule_id' | 'labels'>): Traits => ({
  tool: JSON.stringify([kind, tool]),
  rule: rule_id ?? '',
  labels: JSON.stringify([...labels].sort()),
})
