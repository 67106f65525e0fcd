import { Graph, layout } from '@dagrejs/dagre'
import { LRUCache } from 'lru-cache'
import { railOf, type GraphStep, type Rail } from './rail.ts'

/*
 * Positions of the boxes and lines in a picture of steps. The positions depend only on the workflow's definition, so
 * they are computed once for each version of a workflow.
 */

/** The size of a box, in units of the picture. */
export const box = { width: 212, height: 82 } as const

/** A picture has at most this many steps. Nobody could read a larger picture. */
const mostBoxes = 60

/**
 * The lines of a picture may cross at most this many rows in total. Otherwise no picture is drawn. The layout blocks
 * this process, and 300 crossed rows take about 70 milliseconds (docs/decisions/0127).
 */
const mostCrossed = 300

export interface Layout {
  readonly width: number
  readonly height: number
  /** Upper left corners of the boxes, in the order of the steps. */
  readonly boxes: readonly { readonly x: number; readonly y: number }[]
  /**
   * Each line is an SVG path from step `from` to step `to`, and step `to` waits for step `from`. Both numbers are
   * indexes in the list of steps.
   */
  readonly lines: readonly { readonly from: number; readonly to: number; readonly path: string }[]
  /** The picture for narrow screens. Is null if this picture would need too many lines beside each other. */
  readonly rail: Rail | null
}

/** The layouts that this process has computed. The key names the version of the workflow. */
export type Layouts = LRUCache<string, Layout>
export const createLayouts = (): Layouts => new LRUCache({ max: 200 })

/**
 * Returns the layout of these steps, or null if the picture would be too large. `key` names the version of the
 * workflow.
 */
export function layoutOf(layouts: Layouts, key: string, all: readonly GraphStep[]): Layout | null {
  if (all.length > mostBoxes) return null
  const steps = withoutImplied(all)
  const rows = rowsOf(steps)
  if (crossedRows(steps, rows) > mostCrossed) return null
  const known = layouts.get(key)
  if (known !== undefined) return known
  const made = computed(steps, isWide(rows) ? 'LR' : 'TB')
  layouts.set(key, made)
  return made
}

/**
 * Leaves out each dependency that follows from other dependencies of the step. Example: step c waits for a and b, and b
 * waits for a. Then c keeps only the dependency on b, because a line from a to c would only cross other lines.
 */
function withoutImplied(steps: readonly GraphStep[]): readonly GraphStep[] {
  const byId = new Map(steps.map((step) => [step.id, step]))
  const before = new Map<string, ReadonlySet<string>>()
  const allBefore = (id: string): ReadonlySet<string> => {
    const known = before.get(id)
    if (known !== undefined) return known
    const needed = byId.get(id)?.depends_on ?? []
    const found = new Set(needed.flatMap((each) => [each, ...allBefore(each)]))
    before.set(id, found)
    return found
  }
  return steps.map(({ id, depends_on: needed }) => ({
    id,
    depends_on: needed.filter((each) => !needed.some((other) => allBefore(other).has(each))),
  }))
}

/** Returns the row of each step. A step stands one row below the lowest step that it waits for. */
function rowsOf(steps: readonly GraphStep[]): ReadonlyMap<string, number> {
  const byId = new Map(steps.map((step) => [step.id, step]))
  const rows = new Map<string, number>()
  const rowOf = (id: string): number => {
    const known = rows.get(id)
    if (known !== undefined) return known
    const row = Math.max(-1, ...(byId.get(id)?.depends_on ?? []).map(rowOf)) + 1
    rows.set(id, row)
    return row
  }
  for (const { id } of steps) rowOf(id)
  return rows
}

/** Returns the length of all lines together. The length of a line is the distance of its two steps in rows. */
function crossedRows(steps: readonly GraphStep[], rows: ReadonlyMap<string, number>): number {
  const rowOf = (id: string): number => rows.get(id) ?? 0
  return steps.reduce(
    (sum, { id, depends_on }) => depends_on.reduce((all, needed) => all + rowOf(id) - rowOf(needed), sum),
    0,
  )
}

/**
 * Returns true if a picture from top to bottom would be too wide, because many steps share few rows. In this case, the
 * picture is drawn from left to right.
 */
function isWide(rows: ReadonlyMap<string, number>): boolean {
  const sizes = new Map<number, number>()
  for (const row of rows.values()) sizes.set(row, (sizes.get(row) ?? 0) + 1)
  const widest = Math.max(0, ...sizes.values())
  return widest > 3 && sizes.size < widest
}

/**
 * The part of the layout library's graph that this file uses. This file declares the type, because the library's own
 * types do not resolve with this compiler's settings.
 */
interface Drawing {
  setGraph(options: object): void
  setDefaultEdgeLabel(label: () => object): void
  setNode(id: string, size: { width: number; height: number }): void
  setEdge(from: string, to: string): void
  graph(): { width?: number; height?: number }
  node(id: string): Partial<Point>
  edges(): { v: string; w: string }[]
  edge(edge: { v: string; w: string }): { points?: Point[] }
}

function computed(steps: readonly GraphStep[], rankdir: 'LR' | 'TB'): Layout {
  const places = new Map(steps.map(({ id }, place) => [id, place]))
  const graph = new Graph() as unknown as Drawing
  graph.setGraph({ rankdir, nodesep: 20, ranksep: 36, marginx: 2, marginy: 2 })
  graph.setDefaultEdgeLabel(() => ({}))
  for (const place of places.values()) graph.setNode(String(place), { ...box })
  for (const [place, { depends_on }] of steps.entries())
    for (const needed of depends_on) {
      const from = places.get(needed)
      if (from !== undefined) graph.setEdge(String(from), String(place))
    }
  layout(graph)
  const { width = 0, height = 0 } = graph.graph()
  return {
    width: Math.ceil(width),
    height: Math.ceil(height),
    boxes: steps.map((_, place) => {
      const { x = 0, y = 0 } = graph.node(String(place))
      return { x: round(x - box.width / 2), y: round(y - box.height / 2) }
    }),
    lines: graph.edges().map((edge) => ({
      from: Number(edge.v),
      to: Number(edge.w),
      path: pathOf(graph.edge(edge).points ?? []),
    })),
    rail: railOf(steps),
  }
}

interface Point {
  readonly x: number
  readonly y: number
}

const round = (number: number): number => Math.round(number * 10) / 10
const at = ({ x, y }: Point): string => `${round(x)} ${round(y)}`

/**
 * Returns the SVG path of a smooth line. Each point between the first and the last is the control point of a curve. The
 * curve ends halfway to the next point.
 */
function pathOf(points: readonly Point[]): string {
  const [first, ...others] = points
  const last = others.at(-1)
  if (first === undefined || last === undefined) return ''
  const curves = others.slice(0, -1).map((point, index) => {
    const next = others[index + 1] ?? last
    return `Q${at(point)} ${at({ x: (point.x + next.x) / 2, y: (point.y + next.y) / 2 })}`
  })
  return [`M${at(first)}`, ...curves, `L${at(last)}`].join('')
}
