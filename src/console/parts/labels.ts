import { h, type ComponentChild } from 'preact'

/** Maximum number of labels in one line. */
const most = 12

export function Labels({ labels }: { readonly labels: readonly string[] }): ComponentChild {
  return h('span', { class: 'badges' }, [
    labels.slice(0, most).map((label) => h('span', { class: 'label' }, label)),
    labels.length > most ? h('span', { class: 'quiet small' }, `and ${labels.length - most} more`) : null,
  ])
}
