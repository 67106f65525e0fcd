import { withPostgres } from './support/postgres.ts'
import { machine, median, say } from './support/report.ts'
import { withSides, type Sides, type Start } from './support/run-sides.ts'

const rounds = 15
/**
 * This many rounds run before the measurement, and their times are not counted. During these rounds V8 compiles the
 * code of both sides, as in a process that has run for a while.
 */
const warmUps = 15
const manyRounds = 3
const manyWarmUps = 1
const manyRuns = 200

/**
 * Compares governed runs with a bare SDK workflow that runs the same activities. Both use one Temporal server and one
 * PostgreSQL.
 */
export async function run(): Promise<void> {
  say(`runs: governed against bare, one worker each in one process, fsync on; ${machine()}`)
  await withPostgres((postgres) =>
    withSides(postgres, async (sides) => {
      for (const milliseconds of [0, 20]) {
        sides.setBodyMilliseconds(milliseconds)
        for (const steps of [3, 20]) await single(sides, steps, milliseconds)
      }
      sides.setBodyMilliseconds(0)
      await many(sides)
    }),
  )
}

/** Returns the highest allowed ratio of our time to the time of the bare workflow with ordinary activities. */
const goalOf = (steps: number, milliseconds: number): number =>
  milliseconds > 0 ? 1.2 : steps > 3 ? 1.1 : 1.4

async function single(sides: Sides, steps: number, milliseconds: number): Promise<void> {
  const times = await interleaved(await startsOf(sides, steps), rounds, warmUps)
  const goal = goalOf(steps, milliseconds)
  const ratio = times.ours / times.bare
  say(
    `  ${steps} steps of ${milliseconds} ms: ${times.ours.toFixed(0)} against ${times.bare.toFixed(0)} ms, ` +
      `${ratio.toFixed(2)} x (goal ≤ ${goal} x: ${ratio <= goal ? 'holds' : 'MISSED'}); ` +
      `bare with local activities ${times.local.toFixed(0)} ms`,
  )
}

async function many(sides: Sides): Promise<void> {
  const all =
    (start: Start): Start =>
    async () => {
      await Promise.all(Array.from({ length: manyRuns }, start))
    }
  const { ours, bare, local } = await startsOf(sides, 5)
  const times = await interleaved(
    { ours: all(ours), bare: all(bare), local: all(local) },
    manyRounds,
    manyWarmUps,
  )
  const ratio = times.bare / times.ours
  say(
    `  ${manyRuns} runs of 5 steps: ${(times.ours / 1000).toFixed(2)} against ${(times.bare / 1000).toFixed(2)} s, ` +
      `throughput ${ratio.toFixed(2)} x (goal ≥ 1 x: ${ratio >= 1 ? 'holds' : 'MISSED'}); ` +
      `bare with local activities ${(times.local / 1000).toFixed(2)} s`,
  )
}

const names = ['ours', 'bare', 'local'] as const
type Starts = Record<(typeof names)[number], Start>

const startsOf = async (sides: Sides, steps: number): Promise<Starts> => ({
  ours: await sides.governed(steps),
  bare: sides.bare(steps),
  local: sides.bareLocal(steps),
})

/** Runs all sides in turn. Returns the median of each side in milliseconds. */
async function interleaved(
  starts: Starts,
  count: number,
  notCounted: number,
): Promise<Record<keyof Starts, number>> {
  const times: Record<keyof Starts, number[]> = { ours: [], bare: [], local: [] }
  for (let round = -notCounted; round < count; round += 1) {
    for (const side of names) {
      const started = performance.now()
      await starts[side]()
      if (round >= 0) times[side].push(performance.now() - started)
    }
  }
  return { ours: median(times.ours), bare: median(times.bare), local: median(times.local) }
}
