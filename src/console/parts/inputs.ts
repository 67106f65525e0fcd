import { h, type ComponentChild } from 'preact'
import type { RunView } from '../../governance/runs/read/read.ts'
import { Badge } from './state.ts'
import { Values } from './values.ts'
import { Words } from './words.ts'

/** The inputs of a run, and the labels of each input. */
export type InputsShown = Pick<RunView, 'inputs' | 'input_labels'>

/** If only names are shown, at most this many inputs are listed. */
const mostNames = 50

/**
 * Shows the inputs of a run with their labels. If the reader may not see values, shows only the names and the labels.
 */
export function Inputs({
  run: { inputs, input_labels },
  areShown,
}: {
  readonly run: InputsShown
  /** Whether the reader may see the values. */
  readonly areShown: boolean
}): ComponentChild {
  if (inputs === undefined)
    return h(
      'p',
      { class: 'quiet' },
      'Only the requester and people who may decide its approvals see the inputs.',
    )
  const names = Object.keys(inputs)
  if (names.length === 0) return h('p', { class: 'quiet' }, 'No inputs.')
  const labels = (name: string): ComponentChild => h(LabelsOf, { name, labels: input_labels })
  if (areShown) return h(Values, { values: inputs, beside: labels })
  return [
    h(
      'ul',
      { class: 'stack' },
      names
        .slice(0, mostNames)
        .map((name) =>
          h('li', { class: 'badges' }, [h('code', null, h(Words, { text: name, most: 100 })), labels(name)]),
        ),
    ),
    names.length > mostNames ? h('p', { class: 'quiet' }, `and ${names.length - mostNames} more`) : null,
  ]
}

/** Maximum number of labels beside one input. */
const mostLabels = 10

function LabelsOf({
  name,
  labels: all,
}: {
  readonly name: string
  readonly labels: InputsShown['input_labels']
}): ComponentChild {
  const labels = Object.hasOwn(all, name) ? (all[name] ?? []) : []
  return [
    labels.slice(0, mostLabels).map(({ label }) => h('span', { class: 'label' }, label)),
    labels.length > mostLabels
      ? h(Badge, { tone: 'off', word: `${labels.length - mostLabels} more labels` })
      : null,
  ]
}
