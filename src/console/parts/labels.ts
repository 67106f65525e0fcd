import { h, type ComponentChild } from 'preact'

/** Shows the labels of data in one line. */
export function Labels({
  labels,
  most = 12,
}: {
  readonly labels: readonly string[]
  /** Maximum number of labels that are named. */
  readonly most?: number
}): ComponentChild {
  return h('span', { class: 'badges' }, [
    labels.slice(0, most).map((label) => h('span', { class: 'label' }, label)),
    labels.length > most ? h('span', { class: 'quiet small' }, `and ${labels.length - most} more`) : null,
  ])
}
