import { h, type ComponentChild } from 'preact'
import type { ApprovalView } from '../../governance/approvals/read.ts'
import { inboxPath } from '../../contract/pages.ts'
import { Choice, Filters } from './filters.ts'

/** Choices that are on the page now: one for each rule and person of the listed items. */
export function InboxFilters({
  chosen,
  items,
}: {
  readonly chosen: Readonly<Record<string, string>>
  readonly items: readonly ApprovalView[]
}): ComponentChild {
  const rules = new Map(items.map(({ rule_id, rule_name }) => [rule_id ?? '', rule_name ?? '']))
  const people = new Map(
    items.map(({ requested_by, requester_email }) => [requested_by, requester_email ?? requested_by]),
  )
  return h(Filters, { path: inboxPath, chosen, names, title: 'Filter' }, [
    h(Choice, { name: 'kind', label: 'Kind', chosen, options: kinds }),
    h(Choice, { name: 'rule_id', label: 'Rule', chosen, options: [...rules].filter(([id]) => id !== '') }),
    h(Choice, { name: 'requested_by', label: 'Asked by', chosen, options: [...people] }),
    h(Choice, { name: 'risk', label: 'Risk', chosen, options: risks }),
  ])
}

const names = ['kind', 'rule_id', 'requested_by', 'risk']

const kinds: readonly (readonly [string, string])[] = [
  ['step', 'Steps of runs'],
  ['run', 'Whole runs'],
  ['agent_call', 'Calls of agents'],
]

const risks = (['low', 'medium', 'high', 'critical'] as const).map((each) => [each, each] as const)
