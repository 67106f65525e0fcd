/*
 * The picture of steps for narrow screens. The steps stand below each other. At their left, lines lead from each step
 * to the steps that wait for it.
 */

export interface GraphStep {
  readonly id: string
  readonly depends_on: readonly string[]
}

/** Distance between the tops of two boxes, in units of the picture. The style sheet has the same distance. */
const pitch = 64
const boxHeight = 56
/** A line begins this far below the middle of its first box, and ends this far above the middle of its second box. */
const apart = 9
/**
 * A lane is a vertical track for lines. `laneWidth` is the distance between two lanes. `arrowWidth` is the distance
 * between the boxes and the nearest lane.
 */
const laneWidth = 10
const arrowWidth = 16
const corner = 6

/** A picture has at most this many lanes beside each other. More lanes would leave no room for the boxes. */
const mostLanes = 8

export interface Rail {
  /** Indexes of the steps, from the top. Each step stands below the steps that it waits for. */
  readonly rows: readonly number[]
  readonly width: number
  readonly height: number
  /** SVG paths. `from` is the index of the step at which the line begins. */
  readonly lines: readonly { readonly from: number; readonly path: string }[]
}

/**
 * All lines that begin at one step. These lines share one lane (a vertical track). They use the lane from the row of
 * this step down to the row of the lowest step that waits for this step.
 */
interface Fan {
  readonly from: number
  readonly top: number
  readonly targets: readonly number[]
  readonly bottom: number
}

/** Returns the picture, or null if it would need too many lanes. */
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
        path: pathOf({ width, lane: lanes.get(fan) ?? 0, top: fan.top, bottom: target }),
      })),
    ),
  }
}

/**
 * Returns the indexes of the steps in the order of the definition. There is one exception: a step never stands above a
 * step that it waits for.
 */
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

/**
 * Returns the lane of each fan (the lines that begin at one step). The shortest fans get the lanes nearest to the
 * boxes, so that few lines cross.
 */
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

function pathOf({
  width,
  lane,
  top,
  bottom,
}: {
  width: number
  lane: number
  top: number
  bottom: number
}): string {
  const x = width - arrowWidth - lane * laneWidth
  const middle = (row: number): number => row * pitch + boxHeight / 2
  const [from, to] = [middle(top) + apart, middle(bottom) - apart]
  return `M${width} ${from}H${x + corner}Q${x} ${from} ${x} ${from + corner}V${to - corner}Q${x} ${to} ${x + corner} ${to}H${width - 1}`
}
