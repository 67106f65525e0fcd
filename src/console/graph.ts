import { Graph, layout } from '@dagrejs/dagre'
import { LRUCache } from 'lru-cache'

/* Positions in a picture of steps depend only on the definition, so they are computed once for each version. */

export const box = { width: 212, height: 82 } as const

const mostBoxes = 60

/**
 * Rows that the lines may cross in total. The layout blocks this process, and 300 crossed rows take about 70
 * milliseconds (docs/decisions/0127).
 */
const mostCrossed = 300

export interface Layout {
  readonly width: number
  readonly height: number
  readonly boxes: readonly { readonly x: number; readonly y: number }[]
  /** SVG paths. Step `to` waits for step `from`: indexes in the list of steps. */
  readonly lines: readonly { readonly from: number; readonly to: number; readonly path: string }[]
  /** For narrow screens; null if it would need too many lines beside each other. */
  readonly rail: Rail | null
}

export type Layouts = LRUCache<string, Layout>
export const createLayouts = (): Layouts => new LRUCache({ max: 200 })

/** Returns null if the picture would be too large. `key` names the version of the workflow. */
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

/** Without those that follow from others: a line from a to c, if b waits for a and c for b. */
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

/** A step stands one row below the lowest step that it waits for. */
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

/** The length of all lines together, in rows. */
function crossedRows(steps: readonly GraphStep[], rows: ReadonlyMap<string, number>): number {
  const rowOf = (id: string): number => rows.get(id) ?? 0
  return steps.reduce(
    (sum, { id, depends_on }) => depends_on.reduce((all, needed) => all + rowOf(id) - rowOf(needed), sum),
    0,
  )
}

/** Many steps in few rows would be too wide from top to bottom: such a picture is drawn from left to right. */
function isWide(rows: ReadonlyMap<string, number>): boolean {
  const sizes = new Map<number, number>()
  for (const row of rows.values()) sizes.set(row, (sizes.get(row) ?? 0) + 1)
  const widest = Math.max(0, ...sizes.values())
  return widest > 3 && sizes.size < widest
}

/** The library's own types do not resolve with this compiler's settings. */
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

/** A smooth line: each inner point is the control point of a curve, which ends halfway to the next point. */
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

/* For narrow screens: the steps below each other, and lines at their left to those that wait for them. */

export interface GraphStep {
  readonly id: string
  readonly depends_on: readonly string[]
}

/** Between the tops of two boxes, in units of the picture. The style sheet has the same distance. */
const pitch = 64
const boxHeight = 56
/** How far below the middle of its first box a line begins, and above that of the second it ends. */
const apart = 9
/** A lane is a vertical track for lines. `arrowWidth` lies between the boxes and the nearest lane. */
const laneWidth = 10
const arrowWidth = 16
const corner = 6

/** More lanes would leave no room for the boxes. */
const mostLanes = 8

export interface Rail {
  /** Indexes of the steps, from the top. Each stands below the steps that it waits for. */
  readonly rows: readonly number[]
  readonly width: number
  readonly height: number
  /** SVG paths. `from` is the index of the step at which the line begins. */
  readonly lines: readonly { readonly from: number; readonly path: string }[]
}

/** All lines that begin at one step. They share a lane, down to the row of the lowest step that waits for it. */
interface Fan {
  readonly from: number
  readonly top: number
  readonly targets: readonly number[]
  readonly bottom: number
}

export function railOf(steps: readonly GraphStep[]): Rail | null {
  const rows = inOrder(steps)
  const fans = fansOf(steps, rows)
  const lanes = lanesOf(fans)
  const count = Math.max(0, ...lanes.values()) + 1
  if (count > mostLanes) return null
  const width = arrowWidth + count * laneWidth
  return {
    rows,
    width,
    height: rows.length * pitch - (pitch - boxHeight),
    lines: fans.flatMap((fan) =>
      fan.targets.map((target) => ({
        from: fan.from,
        path: lineIn({ width, lane: lanes.get(fan) ?? 0, top: fan.top, bottom: target }),
      })),
    ),
  }
}

/** In the order of the definition, but never above a step that is waited for. */
function inOrder(steps: readonly GraphStep[]): number[] {
  const places = new Map(steps.map(({ id }, place) => [id, place]))
  const rows = new Set<number>()
  const add = (place: number): void => {
    if (rows.has(place)) return
    for (const needed of steps[place]?.depends_on ?? []) {
      const found = places.get(needed)
      if (found !== undefined) add(found)
    }
    rows.add(place)
  }
  for (const place of steps.keys()) add(place)
  return [...rows]
}

function fansOf(steps: readonly GraphStep[], rows: readonly number[]): Fan[] {
  const rowOf = new Map(rows.map((place, row) => [steps[place]?.id ?? '', row]))
  return rows.flatMap((from, top) => {
    const id = steps[from]?.id ?? ''
    const targets = steps.flatMap((step) => (step.depends_on.includes(id) ? [rowOf.get(step.id) ?? 0] : []))
    return targets.length === 0 ? [] : [{ from, top, targets, bottom: Math.max(...targets) }]
  })
}

/** The shortest fans get the lanes nearest to the boxes, so that few lines cross. */
function lanesOf(fans: readonly Fan[]): ReadonlyMap<Fan, number> {
  const lanes: Fan[][] = []
  const found = new Map<Fan, number>()
  for (const fan of fans.toSorted((a, b) => a.bottom - a.top - (b.bottom - b.top))) {
    const free = lanes.findIndex((lane) =>
      lane.every((each) => each.bottom <= fan.top || each.top >= fan.bottom),
    )
    const lane = free === -1 ? lanes.length : free
    lanes[lane] = [...(lanes[lane] ?? []), fan]
    found.set(fan, lane)
  }
  return found
}

function lineIn(props: { width: number; lane: number; top: number; bottom: number }): string {
  const { width, lane, top, bottom } = props
  const x = width - arrowWidth - lane * laneWidth
  const middle = (row: number): number => row * pitch + boxHeight / 2
  const [from, to] = [middle(top) + apart, middle(bottom) - apart]
  return `M${width} ${from}H${x + corner}Q${x} ${from} ${x} ${from + corner}V${to - corner}Q${x} ${to} ${x + corner} ${to}H${width - 1}`
}
