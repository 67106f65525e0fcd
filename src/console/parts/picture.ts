import { h, type ComponentChild } from 'preact'
import type { StepView } from '../../governance/runs/read/read.ts'
import { box, layoutOf, type Layout, type Layouts, type Rail } from '../graph.ts'
import { itemWords } from './items.ts'
import { shownWhat } from '../../steps/index.ts'
import { RunState, stateOf, toneOf } from './state.ts'
import { Words } from './words.ts'

/** Units of the picture. In `rem`, it grows with the reader's font size. */
const unitsOfRem = 16

interface PictureProps {
  readonly layouts: Layouts
  readonly version: string
  readonly steps: readonly StepView[]
  readonly addressOf: (id: string) => string
}

type Drawn = Pick<PictureProps, 'steps' | 'addressOf'>

/** Screen readers leave it out: the list says the same. The style sheet shows the picture that fits the screen. */
export function Picture({ layouts, version, ...drawn }: PictureProps) {
  const layout = layoutOf(layouts, version, drawn.steps)
  if (layout === null)
    return h('p', { class: 'quiet' }, [
      `${drawn.steps.length.toLocaleString('en')} steps are too many for a picture. The list has them all.`,
    ])
  return [
    layout.rail === null ? null : h(Narrow, { rail: layout.rail, ...drawn }),
    h(Wide, { layout, ...drawn }),
  ]
}

function Wide({ layout, steps, addressOf }: Drawn & { readonly layout: Layout }) {
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
    h(Drawing, { ...layout, steps, arrow: 'arrow' }, [
      steps.map((step, place) =>
        h('foreignObject', { ...layout.boxes[place], ...box }, h(Box, { step, address: addressOf(step.id) })),
      ),
    ]),
  )
}

function Narrow({ rail, steps, addressOf }: Drawn & { readonly rail: Rail }) {
  return h('div', { class: 'rail', 'aria-hidden': 'true' }, [
    h(Drawing, { ...rail, steps, arrow: 'rail-arrow' }),
    h('div', { class: 'rail-boxes' }, [
      rail.rows.map((place) => {
        const step = steps[place]
        return step === undefined ? null : h(Box, { step, address: addressOf(step.id) })
      }),
    ]),
  ])
}

/** A line is solid if the step at its beginning has ended. */
function Drawing(
  props: Pick<Layout | Rail, 'width' | 'height' | 'lines'> & {
    readonly steps: readonly StepView[]
    /** Each picture has its own arrowhead, because browsers do not draw one of a hidden picture. */
    readonly arrow: string
    readonly children?: ComponentChild
  },
) {
  const { width, height, lines, steps, arrow, children } = props
  return h(
    'svg',
    {
      viewBox: `0 0 ${width} ${height}`,
      width: `${width / unitsOfRem}rem`,
      height: `${height / unitsOfRem}rem`,
      'aria-hidden': 'true',
      focusable: 'false',
    },
    [
      h('defs', null, h(Arrow, { id: arrow })),
      lines.map(({ from, path }) =>
        h('path', {
          d: path,
          class: steps[from]?.finished_at === null ? 'line' : 'line passed',
          'marker-end': `url(#${arrow})`,
        }),
      ),
      children,
    ],
  )
}

const Arrow = ({ id }: { id: string }) =>
  h('marker', { id, viewBox: '0 0 8 8', refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: 'auto' }, [
    h('path', { d: 'M0 0 8 4 0 8Z', class: 'arrow' }),
  ])

function Box({ step, address }: { step: StepView; address: string }) {
  const items = itemWords(step)
  return h('a', { class: `box ${toneOf(stateOf(step))}`, href: address, tabindex: -1 }, [
    h('span', { class: 'box-name' }, h(Words, { text: step.id, most: 60 })),
    h('span', { class: 'box-tool' }, [
      h(Words, { text: shownWhat(step), most: 60 }),
      items === null ? null : ` · ${items.short}`,
    ]),
    h(RunState, { status: stateOf(step) }),
  ])
}
