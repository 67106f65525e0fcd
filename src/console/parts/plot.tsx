import type { ComponentChildren } from 'preact'
import type { Tone } from './state.tsx'

/* Plots that the server draws. Each stands beside a table that says the same, so screen readers get its sentence alone. */

export interface Series {
  readonly word: string
  readonly tone: Tone
}

interface Column {
  readonly name: string
  /** One for each series. */
  readonly values: readonly number[]
}

const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0)

/** The units of the picture, which is stretched to the width of the page. */
const [width, height] = [1_000, 160] as const

/** Columns side by side, each with its parts one above the other. */
export function Columns(props: {
  readonly label: string
  readonly series: readonly Series[]
  readonly columns: readonly Column[]
  /** The words of the highest value. */
  words(value: number): string
}) {
  const { label, series, columns, words } = props
  const most = Math.max(0, ...columns.map(({ values }) => sum(values)))
  const [first, last] = [columns.at(0)?.name ?? '', columns.at(-1)?.name ?? '']
  return (
    <figure class="plot">
      <Legend series={series}>
        <span class="quiet">{`highest: ${words(most)}`}</span>
      </Legend>
      <svg viewBox={`0 0 ${width} ${height}`} preserveAspectRatio="none" role="img" aria-label={label}>
        {columns.map(({ name, values }, place) => (
          <g>
            <title>{`${name}: ${series.map(({ word }, at) => `${words(values[at] ?? 0)} ${word}`).join(', ')}`}</title>
            {partsOf(values, most).map(([top, size], at) => (
              <rect class={series[at]?.tone} {...placeOf(place, columns.length)} y={top} height={size} />
            ))}
          </g>
        ))}
      </svg>
      <div class="split small quiet" aria-hidden="true">
        <span>{columns.length >= fewest || first === last ? first : `${first} to ${last}`}</span>
        {columns.length >= fewest ? <span>{last}</span> : null}
      </div>
    </figure>
  )
}

/** Fewer columns leave room at the right. */
const fewest = 7

/** A fifth of a column's room is the gap to the next one. */
function placeOf(place: number, count: number): { readonly x: string; readonly width: string } {
  const room = width / Math.max(count, fewest)
  return { x: (place * room).toFixed(1), width: (room * 0.8).toFixed(1) }
}

/** The top and the height of each part, from below. */
function partsOf(values: readonly number[], most: number): readonly (readonly [string, string])[] {
  let below = 0
  return values.map((value) => {
    below += value
    const scale = most === 0 ? 0 : height / most
    return [(height - below * scale).toFixed(1), (value * scale).toFixed(1)]
  })
}

/** One bar with its parts side by side. */
export function Bar({
  label,
  parts,
}: {
  label: string
  parts: readonly (Series & { readonly value: number })[]
}) {
  const all = sum(parts.map(({ value }) => value))
  let before = 0
  return (
    <figure class="plot bar">
      <Legend series={parts} />
      <svg viewBox={`0 0 ${width} 20`} preserveAspectRatio="none" role="img" aria-label={label}>
        {parts.map(({ value, tone }) => {
          const size = all === 0 ? 0 : (value * width) / all
          before += size
          return (
            <rect class={tone} x={(before - size).toFixed(1)} y={0} width={size.toFixed(1)} height={20} />
          )
        })}
      </svg>
    </figure>
  )
}

const Legend = ({ series, children }: { series: readonly Series[]; children?: ComponentChildren }) => (
  <figcaption class="small">
    {series.map(({ word, tone }) => (
      <span class={`key ${tone}`}>{word}</span>
    ))}
    {children}
  </figcaption>
)
