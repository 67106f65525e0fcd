import type { StepView } from '../visit.ts'
import type { ComponentChild } from 'preact'
import { box, layoutOf, type Layout, type Layouts, type Rail } from '../graph.ts'
import { itemWords } from './items.tsx'
import { shownWhat } from '../../steps/index.ts'
import { RunState, stateOf, toneOf } from './state.tsx'
import { Words } from './words.tsx'

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
    return (
      <p class="quiet">{`${drawn.steps.length.toLocaleString('en')} steps are too many for a picture. The list has them all.`}</p>
    )
  return (
    <>
      {layout.rail === null ? null : <Narrow rail={layout.rail} {...drawn} />}
      <Wide layout={layout} {...drawn} />
    </>
  )
}

function Wide({ layout, steps, addressOf }: Drawn & { readonly layout: Layout }) {
  return (
    <div
      class="picture"
      id="picture"
      role="region"
      aria-label="The steps as a picture. The list of steps says the same in words."
      tabindex={0}
      data-scroll=""
    >
      <Drawing {...layout} steps={steps} arrow="arrow">
        {steps.map((step, place) => (
          <foreignObject {...layout.boxes[place]} {...box}>
            <Box step={step} address={addressOf(step.id)} />
          </foreignObject>
        ))}
      </Drawing>
    </div>
  )
}

function Narrow({ rail, steps, addressOf }: Drawn & { readonly rail: Rail }) {
  return (
    <div class="rail" aria-hidden="true">
      <Drawing {...rail} steps={steps} arrow="rail-arrow" />
      <div class="rail-boxes">
        {rail.rows.map((place) => {
          const step = steps[place]
          return step === undefined ? null : <Box step={step} address={addressOf(step.id)} />
        })}
      </div>
    </div>
  )
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
  return (
    <svg
      viewBox={`0 0 ${width} ${height}`}
      width={`${width / unitsOfRem}rem`}
      height={`${height / unitsOfRem}rem`}
      aria-hidden="true"
      focusable="false"
    >
      <defs>
        <Arrow id={arrow} />
      </defs>
      {lines.map(({ from, path }) => (
        <path
          d={path}
          class={steps[from]?.finished_at === null ? 'line' : 'line passed'}
          marker-end={`url(#${arrow})`}
        />
      ))}
      {children}
    </svg>
  )
}

const Arrow = ({ id }: { id: string }) => (
  <marker id={id} viewBox="0 0 8 8" refX={7} refY={4} markerWidth={7} markerHeight={7} orient="auto">
    <path d="M0 0 8 4 0 8Z" class="arrow" />
  </marker>
)

function Box({ step, address }: { step: StepView; address: string }) {
  const items = itemWords(step)
  return (
    <a class={`box ${toneOf(stateOf(step))}`} href={address} tabindex={-1}>
      <span class="box-name">
        <Words text={step.id} most={60} />
      </span>
      <span class="box-tool">
        <Words text={shownWhat(step)} most={60} />
        {items === null ? null : ` · ${items.short}`}
      </span>
      <RunState status={stateOf(step)} />
    </a>
  )
}
