import { h, type ComponentChild } from 'preact'
import type { StepView } from '../../governance/runs/read/read.ts'
import { box, layoutOf, type Layout, type Layouts } from '../graph.ts'
import type { Rail } from '../rail.ts'
import { itemWords } from './items.ts'
import { shownWhat } from '../../steps/index.ts'
import { RunState, stateOf, toneOf } from './state.ts'
import { Words } from './words.ts'

/**
 * One `rem` is this many units of the picture. The size of the picture is in `rem`, so the picture grows with the
 * reader's font size.
 */
const unitsOfRem = 16

interface PictureProps {
  readonly layouts: Layouts
  /** Identifies the version of the workflow. */
  readonly version: string
  readonly steps: readonly StepView[]
  /** The address of the page of a step. */
  readonly addressOf: (id: string) => string
}

type Drawn = Pick<PictureProps, 'steps' | 'addressOf'>

/**
 * Shows the steps as boxes, with lines from each step to the steps that wait for it. The list of steps says the same in
 * words, so screen readers leave the boxes out. On a narrow screen, the style sheet shows only the picture for narrow
 * screens.
 */
export function Picture({ layouts, version, ...drawn }: PictureProps): ComponentChild {
  const layout = layoutOf(layouts, version, drawn.steps)
  if (layout === null)
    return h(
      'p',
      { class: 'quiet' },
      `${drawn.steps.length.toLocaleString('en')} steps are too many for a picture. The list has them all.`,
    )
  return [
    layout.rail === null ? null : h(Narrow, { rail: layout.rail, ...drawn }),
    h(Wide, { layout, ...drawn }),
  ]
}

function Wide({ layout, steps, addressOf }: Drawn & { readonly layout: Layout }): ComponentChild {
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

function Narrow({ rail, steps, addressOf }: Drawn & { readonly rail: Rail }): ComponentChild {
  return h('div', { class: 'rail', 'aria-hidden': 'true' }, [
    h(Drawing, { ...rail, steps, arrow: 'rail-arrow' }),
    h(
      'div',
      { class: 'rail-boxes' },
      rail.rows.map((place) => {
        const step = steps[place]
        return step === undefined ? null : h(Box, { step, address: addressOf(step.id) })
      }),
    ),
  ])
}

/** Shows the SVG with the lines. A line is solid if the step at its beginning has ended. */
function Drawing({
  width,
  height,
  lines,
  steps,
  arrow,
  children,
}: Pick<Layout | Rail, 'width' | 'height' | 'lines'> & {
  readonly steps: readonly StepView[]
  /**
   * The id of the arrowhead. Each picture has its own arrowhead, because browsers do not draw an arrowhead that belongs
   * to a hidden picture.
   */
  readonly arrow: string
  readonly children?: ComponentChild
}): ComponentChild {
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

const Arrow = ({ id }: { readonly id: string }): ComponentChild =>
  h(
    'marker',
    { id, viewBox: '0 0 8 8', refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: 'auto' },
    h('path', { d: 'M0 0 8 4 0 8Z', class: 'arrow' }),
  )

function Box({ step, address }: { readonly step: StepView; readonly address: string }): ComponentChild {
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
