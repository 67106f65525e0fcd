/** The measurements of one moment. */
export interface Sample {
  /** The moment as a fraction of the whole time, from 0 to 1. */
  readonly at: number
  /** The measured values by name. Not every value is measured each time. */
  readonly values: Readonly<Record<string, number>>
}

/** A quantity has not grown if its later value is at most `factor` times its earlier value plus `plus`. */
interface Bound {
  /**
   * Says which values are compared: the means of the samples, or the smallest samples. `least` is better if work in
   * progress can only make a value larger.
   */
  readonly by: 'mean' | 'least'
  readonly factor: number
  readonly plus: number
}

/**
 * Quantities that must not grow from the second quarter to the last. Heaps are compared after full collections. So a
 * leak of 1 KiB per run is visible after some thousand runs. Resident memory also contains garbage that V8 has not
 * collected yet.
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
  // These values count rows that retention should have deleted by now. They must always be 0.
  'runs past retention': { by: 'mean', factor: 0, plus: 0 },
  'events past retention': { by: 'mean', factor: 0, plus: 0 },
}

export interface Verdict {
  readonly name: string
  /** The value in the second quarter. */
  readonly early: number
  /** The value in the last quarter. */
  readonly late: number
  /** The maximum allowed value of `late`. Is null if the quantity may grow. */
  readonly most: number | null
  readonly holds: boolean
}

/** Compares the second quarter of the time with the last quarter. The first quarter is the warm-up. */
export function judge(samples: readonly Sample[]): Verdict[] {
  const early = samples.filter(({ at }) => at >= 0.25 && at < 0.5)
  const late = samples.filter(({ at }) => at >= 0.75)
  const names = new Set([...samples.flatMap(({ values }) => Object.keys(values)), ...Object.keys(bounds)])
  return [...names].map((name) => {
    const bound = bounds[name]
    const by = bound?.by ?? 'mean'
    const [before, after] = [summary(early, name, by), summary(late, name, by)]
    const most = bound === undefined ? null : before * bound.factor + bound.plus
    // A missing measurement is NaN. Comparisons with NaN are false, so `holds` is false.
    return { name, early: before, late: after, most, holds: most === null || after <= most }
  })
}

function summary(part: readonly Sample[], name: string, by: Bound['by']): number {
  const values = part.flatMap((sample) => sample.values[name] ?? [])
  if (values.length === 0) return Number.NaN
  return by === 'least' ? Math.min(...values) : values.reduce((sum, each) => sum + each, 0) / values.length
}
