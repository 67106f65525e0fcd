import { h, type ComponentChild } from 'preact'

/** Shows a list of facts, each with a name and a value. Leaves out a fact whose value is null. */
export function Facts({
  facts,
}: {
  readonly facts: readonly (readonly [string, ComponentChild | null])[]
}): ComponentChild {
  return h(
    'dl',
    { class: 'facts' },
    facts.map(([name, value]) =>
      value === null ? null : h('div', null, [h('dt', null, name), h('dd', null, value)]),
    ),
  )
}
