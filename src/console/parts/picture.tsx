import type { ComponentChild } from 'preact'
import { box, layoutOf, type GraphStep, type Layout, type Layouts, type Rail } from '../graph.ts'
import type { Tone } from './state.tsx'
import { Words } from './words.tsx'

/** Units of the picture. In `rem`, it grows with the reader's font size. */
const unitsOfRem = 16

/** A box of the picture. */
export interface DrawnStep extends GraphStep {
  /** What it calls or does. */
  readonly what: string
  readonly tone: Tone
  readonly badge: ComponentChild
  /** Lines that begin at it are solid. */
  readonly hasEnded: boolean
  readonly address: string
}

interface Drawn {
  readonly steps: readonly DrawnStep[]
}

type PictureProps = Drawn & { readonly layouts: Layouts; readonly version: string }

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

function Wide({ layout, steps }: Drawn & { readonly layout: Layout }) {
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
            <Box step={step} />
          </foreignObject>
        ))}
      </Drawing>
    </div>
  )
}

function Narrow({ rail, steps }: Drawn & { readonly rail: Rail }) {
  return (
    <div class="rail" aria-hidden="true">
      <Drawing {...rail} steps={steps} arrow="rail-arrow" />
      <div class="rail-boxes">
        {rail.rows.map((place) => {
          const step = steps[place]
          return step === undefined ? null : <Box step={step} />
        })}
      </div>
    </div>
  )
}

function Drawing(
  props: Pick<Layout | Rail, 'width' | 'height' | 'lines'> &
    Drawn & {
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
          class={steps[from]?.hasEnded === true ? 'line passed' : 'line'}
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

function Box({ step: { id, what, tone, badge, address } }: { step: DrawnStep }) {
  return (
    <a class={`box ${tone}`} href={address} tabindex={-1}>
      <span class="box-name">
        <Words text={id} most={60} />
      </span>
      <span class="box-tool">
        <Words text={what} most={80} />
      </span>
      {badge}
    </a>
  )
}
