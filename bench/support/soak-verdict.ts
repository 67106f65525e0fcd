/** What was measured at one moment. */
export interface Sample {
  /** The moment, as part of the whole time: from 0 to 1. */
  readonly at: number
  /** By name; not everything is measured each time. */
  readonly values: Readonly<Record<string, number>>
}

/** How much of a quantity counts as none more: at most `factor` times what it was, and `plus` on top. */
interface Bound {
  /** `least`: what is under way at that moment only adds to what is held. */
  readonly by: 'mean' | 'least'
  readonly factor: number
  readonly plus: number
}

/**
 * What must not grow from the second quarter to the last. Heaps are compared after full collections: a leak of 1 KiB a
 * run shows after some thousand runs. Resident memory also has what V8 has taken and not collected yet.
 */
const bounds: Readonly<Record<string, Bound>> = {
  'api heap MiB': { by: 'least', factor: 1.05, plus: 0.5 },
  'worker heap MiB': { by: 'least', factor: 1.05, plus: 0.5 },
  'workflows heap MiB': { by: 'least', factor: 1.05, plus: 0.5 },
  'api outside heaps MiB': { by: 'least', factor: 1.1, plus: 8 },
  'worker outside heaps MiB': { by: 'least', factor: 1.1, plus: 8 },
  'api MiB': { by: 'mean', factor: 1.1, plus: 0 },
  'worker MiB': { by: 'mean', factor: 1.1, plus: 0 },
  connections: { by: 'mean', factor: 1.1, plus: 2 },
  outbox: { by: 'mean', factor: 1, plus: 10 },
  heartbeats: { by: 'mean', factor: 1, plus: 0 },
  // Of retention: what it leaves behind, which must be nothing at any time.
  'runs past retention': { by: 'mean', factor: 0, plus: 0 },
  'events past retention': { by: 'mean', factor: 0, plus: 0 },
}

export interface Verdict {
  readonly name: string
  /** In the second quarter. */
  readonly early: number
  /** In the last. */
  readonly late: number
  /** The most that `late` may be; null for what may grow. */
  readonly most: number | null
  readonly holds: boolean
}

/** Compares the second quarter with the last: what warms up is over by then, what grows without end shows. */
export function judge(samples: readonly Sample[]): Verdict[] {
  const early = samples.filter(({ at }) => at >= 0.25 && at < 0.5)
  const late = samples.filter(({ at }) => at >= 0.75)
  const names = new Set([...samples.flatMap(({ values }) => Object.keys(values)), ...Object.keys(bounds)])
  return [...names].map((name) => {
    const bound = bounds[name]
    const by = bound?.by ?? 'mean'
    const [before, after] = [summary(early, name, by), summary(late, name, by)]
    const most = bound === undefined ? null : before * bound.factor + bound.plus
    // What was not measured has not held: NaN is not at most anything.
    return { name, early: before, late: after, most, holds: most === null || after <= most }
  })
}

function summary(part: readonly Sample[], name: string, by: Bound['by']): number {
  const values = part.flatMap((sample) => sample.values[name] ?? [])
  if (values.length === 0) return Number.NaN
  return by === 'least' ? Math.min(...values) : values.reduce((sum, each) => sum + each, 0) / values.length
}
