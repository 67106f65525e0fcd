import { withPostgres } from './support/postgres.ts'
import { machine, median, say } from './support/report.ts'
import { withSides, type Sides, type Start } from './support/run-sides.ts'

const rounds = 7
const manyRounds = 3
const manyRuns = 200

/**
 * Compares governed runs with the same activities in a bare SDK workflow, on one Temporal server and one PostgreSQL.
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

async function single(sides: Sides, steps: number, milliseconds: number): Promise<void> {
  const pair = { ours: await sides.governed(steps), theirs: sides.bare(steps) }
  const times = await interleaved(pair, rounds)
  const extra = times.ours - times.theirs
  const what = `  ${steps} steps of ${milliseconds} ms: ${times.ours.toFixed(0)} against ${times.theirs.toFixed(0)} ms`
  if (milliseconds === 0) {
    // Goal: at most 6 ms more per step and 20 ms more per run.
    const goal = 6 * steps + 20
    say(`${what}, +${extra.toFixed(1)} ms (goal +${goal} ms: ${extra <= goal ? 'holds' : 'MISSED'})`)
  } else {
    const ratio = times.ours / times.theirs
    say(`${what}, ${ratio.toFixed(2)} x (goal ≤ 1.25 x: ${ratio <= 1.25 ? 'holds' : 'MISSED'})`)
  }
}

async function many(sides: Sides): Promise<void> {
  const all =
    (start: Start): Start =>
    async () => {
      await Promise.all(Array.from({ length: manyRuns }, start))
    }
  const pair = { ours: all(await sides.governed(5)), theirs: all(sides.bare(5)) }
  const times = await interleaved(pair, manyRounds)
  const ratio = times.theirs / times.ours
  say(
    `  ${manyRuns} runs of 5 steps: ${(times.ours / 1000).toFixed(2)} against ${(times.theirs / 1000).toFixed(2)} s, ` +
      `throughput ${ratio.toFixed(2)} x (goal ≥ 0.85 x: ${ratio >= 0.85 ? 'holds' : 'MISSED'})`,
  )
}

/** Medians in milliseconds, after one round that does not count. */
async function interleaved(pair: { ours: Start; theirs: Start }, count: number) {
  const times: Record<'ours' | 'theirs', number[]> = { ours: [], theirs: [] }
  for (let round = 0; round <= count; round += 1) {
    for (const side of ['ours', 'theirs'] as const) {
      const started = performance.now()
      await pair[side]()
      if (round > 0) times[side].push(performance.now() - started)
    }
  }
  return { ours: median(times.ours), theirs: median(times.theirs) }
}
