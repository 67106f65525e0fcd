import { h, type ComponentChild } from 'preact'
import type { StepView } from '../../governance/runs/read/read.ts'
import { box, layoutOf, type Layout, type Layouts } from '../graph.ts'
import { itemWords } from './items.ts'
import { RunState, toneOf } from './state.ts'
import { Words } from './words.ts'

/** Units of the picture per `rem`, so that the picture grows with the reader's font size. */
const unitsOfRem = 16

/**
 * The steps as boxes, with lines from each step to the steps that wait for it. The list of steps says the same in
 * words, so screen readers leave the boxes out.
 */
export function Picture({
  layouts,
  version,
  steps,
  addressOf,
}: {
  readonly layouts: Layouts
  /** Identifies the version of the workflow. */
  readonly version: string
  readonly steps: readonly StepView[]
  /** The address of the page of a step. */
  readonly addressOf: (id: string) => string
}): ComponentChild {
  const layout = layoutOf(layouts, version, steps)
  if (layout === null)
    return h(
      'p',
      { class: 'quiet' },
      `${steps.length.toLocaleString('en')} steps are too many for a picture. The list has them all.`,
    )
  const { width, height } = layout
  return h(
    'div',
    {
      class: 'picture',
      id: 'picture',
      role: 'region',
      'aria-label': 'The steps as a picture. The list of steps says the same in words.',
      tabindex: 0,
      'data-scroll': '',
    },
    h(
      'svg',
      {
        viewBox: `0 0 ${width} ${height}`,
        width: `${width / unitsOfRem}rem`,
        height: `${height / unitsOfRem}rem`,
        'aria-hidden': 'true',
        focusable: 'false',
      },
      [
        h(
          'defs',
          null,
          h(
            'marker',
            {
              id: 'arrow',
              viewBox: '0 0 8 8',
              refX: 7,
              refY: 4,
              markerWidth: 7,
              markerHeight: 7,
              orient: 'auto',
            },
            h('path', { d: 'M0 0 8 4 0 8Z', class: 'arrow' }),
          ),
        ),
        h(Lines, { layout, steps }),
        steps.map((step, place) => h(Box, { step, place: layout.boxes[place], address: addressOf(step.id) })),
      ],
    ),
  )
}

function Lines({
  layout,
  steps,
}: {
  readonly layout: Layout
  readonly steps: readonly StepView[]
}): ComponentChild {
  return layout.lines.map(({ from, path }) =>
    h('path', {
      d: path,
      class: steps[from]?.finished_at === null ? 'line' : 'line passed',
      'marker-end': 'url(#arrow)',
    }),
  )
}

function Box({
  step,
  place,
  address,
}: {
  readonly step: StepView
  readonly place: { readonly x: number; readonly y: number } | undefined
  readonly address: string
}): ComponentChild {
  if (place === undefined) return null
  const items = itemWords(step)
  return h(
    'foreignObject',
    { ...place, ...box },
    h('a', { class: `box ${toneOf(step.status)}`, href: address, tabindex: -1 }, [
      h('span', { class: 'box-name' }, h(Words, { text: step.id, most: 60 })),
      h('span', { class: 'box-tool' }, [
        h(Words, { text: step.tool, most: 60 }),
        items === null ? null : ` · ${items.short}`,
      ]),
      h(RunState, { status: step.status }),
    ]),
  )
}
