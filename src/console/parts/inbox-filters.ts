import { h, type ComponentChild } from 'preact'
import type { WaitingSummary } from '../../governance/approvals/summary.ts'
import { inboxPath } from '../../contract/pages.ts'
import { Choice, Filters } from './filters.ts'

/**
 * Shows the filters of the list of approvals. Each option shows how many approvals wait. The options for unknown
 * outcomes and for the reader's own decisions have no number.
 */
export function InboxFilters({
  chosen,
  waiting,
}: {
  readonly chosen: Readonly<Record<string, string>>
  readonly waiting: WaitingSummary | null
}): ComponentChild {
  const { kinds = [], rules = [], requesters = [], risks = [] } = waiting ?? {}
  const choice = (name: string, label: string, options: readonly Option[]): ComponentChild =>
    h(Choice, {
      name,
      label,
      chosen,
      options: options.map(
        ([value, words, count]) =>
          [value, words, count === null ? '' : ` (${count.toLocaleString('en')})`] as const,
      ),
    })
  return h(Filters, { path: inboxPath, chosen, names, title: 'Filter' }, [
    choice('kind', 'Kind', [
      ...kinds.map(({ kind, count }) => [kind, kindWords[kind], count] as const),
      ['resolution', 'Unknown outcomes', null],
    ]),
    choice(
      'rule_id',
      'Rule',
      rules.map(({ rule_id, rule_name, count }) => [rule_id, rule_name, count]),
    ),
    choice(
      'requested_by',
      'Asked by',
      requesters.map(({ user_id, email, count }) => [user_id, email, count]),
    ),
    choice(
      'risk',
      'Risk',
      risks.map(({ level, count }) => [level, level, count]),
    ),
    choice('mine', 'Who decides', [['true', 'me, now', null]]),
  ])
}

/**
 * An option of a filter: its value, its text, and the number of approvals with this value. The number is null if such
 * approvals are not counted.
 */
type Option = readonly [string, string, number | null]

const names = ['kind', 'rule_id', 'requested_by', 'risk', 'mine']

const kindWords = { step: 'Steps of runs', run: 'Whole runs', agent_call: 'Calls of agents' } as const
