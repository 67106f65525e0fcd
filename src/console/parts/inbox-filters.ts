import { h, type ComponentChild } from 'preact'
import type { ApprovalView } from '../../governance/approvals/read.ts'
import { visible } from './words.ts'

/** Choices that are on the page now: one for each rule and person of the listed items. */
export function Filters({
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
  const given = Object.keys(chosen).filter((name) => name !== 'cursor')
  return h('details', { class: 'filters', open: given.length > 0 }, [
    h('summary', null, given.length === 0 ? 'Filter' : `Filter (${given.length})`),
    h('form', { method: 'get', action: '/console/approvals', class: 'filter-form' }, [
      h(Choice, { name: 'kind', label: 'Kind', chosen, options: kinds }),
      h(Choice, { name: 'rule_id', label: 'Rule', chosen, options: [...rules].filter(([id]) => id !== '') }),
      h(Choice, { name: 'requested_by', label: 'Asked by', chosen, options: [...people] }),
      h(Choice, {
        name: 'risk',
        label: 'Risk',
        chosen,
        options: risks,
      }),
      h('div', { class: 'buttons' }, [
        h('button', null, 'Show'),
        h('a', { class: 'button', href: '/console/approvals' }, 'Clear'),
      ]),
    ]),
  ])
}

const kinds: readonly (readonly [string, string])[] = [
  ['step', 'Steps of runs'],
  ['run', 'Whole runs'],
  ['agent_call', 'Calls of agents'],
]

const risks = (['low', 'medium', 'high', 'critical'] as const).map((each) => [each, each] as const)

function Choice({
  name,
  label,
  chosen,
  options,
}: {
  readonly name: string
  readonly label: string
  readonly chosen: Readonly<Record<string, string>>
  readonly options: readonly (readonly [string, string])[]
}): ComponentChild {
  const value = chosen[name] ?? ''
  const isListed = value === '' || options.some(([id]) => id === value)
  return h('div', null, [
    h('label', { for: name }, label),
    h('select', { id: name, name }, [
      h('option', { value: '' }, 'any'),
      isListed ? null : h('option', { value, selected: true }, visible(value.slice(0, 60).toWellFormed())),
      options.map(([id, words]) =>
        h('option', { value: id, selected: id === value }, visible(words.slice(0, 80).toWellFormed())),
      ),
    ]),
  ])
}
