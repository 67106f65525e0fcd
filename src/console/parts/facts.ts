import { h, type ComponentChild } from 'preact'

/** A list of facts, each with a name and a value. A fact whose value is null is left out. */
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
