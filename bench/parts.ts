import { randomUUID } from 'node:crypto'
import { waitForRun } from '../src/api/wait.ts'
import { readRunFields } from '../src/governance/runs/read/run-parts.ts'
import { createContext } from '../src/programs/create-context.ts'
import { withPostgres } from './support/postgres.ts'
import { machine, median, say } from './support/report.ts'
import { withSides, type Sides, type Start } from './support/run-sides.ts'

const rounds = 25
/** This many rounds run before the measurement. Their times are not counted. */
const warmUps = 3
const steps = 3

/** Measures the parts of a governed run, and of a bare workflow. Prints the median time of each part. */
export async function run(): Promise<void> {
  say(`parts: a run of ${steps} steps of 0 ms, medians of ${rounds}; ${machine()}`)
  await withPostgres((postgres) =>
    withSides(postgres, async (sides) => {
      await governed(sides)
      await bare(sides)
    }),
  )
}

interface Moment {
  readonly at: number
  readonly name: string
}

class Parts {
  readonly #times = new Map<string, number[]>()

  add(part: string, milliseconds: number): void {
    this.#times.set(part, [...(this.#times.get(part) ?? []), milliseconds])
  }

  say(title: string): void {
    say(title)
    for (const [part, times] of this.#times) say(`  ${median(times).toFixed(1).padStart(5)} ms ${part}`)
  }
}

async function governed(sides: Sides): Promise<void> {
  // In production, an API process answers the waiting caller, and another process is the worker. This context stands
  // for the API process.
  const api = createContext({ ...sides.context.config, processId: randomUUID() }, 'api')
  const start = await sides.governed(steps)
  const parts = new Parts()
  try {
    for (let round = -warmUps; round < rounds; round += 1) {
      let answer: Promise<number> | undefined
      const [startedAt, moments] = await watch(sides, start, (runId, name) => {
        if (name === 'accepted') answer = answered(api, sides, runId)
      })
      const answeredAt = await (answer as Promise<number>)
      if (round >= 0) addGoverned(parts, startedAt, answeredAt, moments)
    }
  } finally {
    await api.close()
  }
  parts.say('governed:')
}

/** Starts one run and waits for its end. Returns the time of its start, and the moments that were noted. */
async function watch(
  sides: Sides,
  start: Start,
  also: (runId: string, name: string) => void = () => {},
): Promise<[number, Moment[]]> {
  const moments: Moment[] = []
  sides.setNote((runId, name) => {
    moments.push({ at: performance.now(), name })
    also(runId, name)
  })
  const startedAt = performance.now()
  await start()
  moments.push({ at: performance.now(), name: 'all' })
  return [startedAt, moments]
}

/** Waits for the end of the run and reads its fields, as `execute?wait=` does. Returns the time when both are done. */
async function answered(api: Sides['context'], { caller }: Sides, runId: string): Promise<number> {
  await waitForRun(api, runId, 30, new AbortController().signal)
  await readRunFields(api, caller(), runId)
  return performance.now()
}

function addGoverned(parts: Parts, startedAt: number, answeredAt: number, moments: readonly Moment[]): void {
  const at = (name: string, index = 0): number =>
    moments.filter((moment) => moment.name === name)[index]?.at ?? NaN
  parts.add('accepting the run', at('accepted') - startedAt)
  parts.add('the way of the outbox to Temporal', at('start asked') - at('accepted'))
  parts.add('Temporal starts the workflow', at('start answered') - at('start asked'))
  parts.add('the first workflow task, up to the first call', at('memory_get begins') - at('start answered'))
  for (let step = 0; step < steps; step += 1) {
    const next = step + 1 < steps ? at('memory_get begins', step + 1) : at('finishRun begins')
    parts.add(`step ${step + 1}, before its body`, at('body begins', step) - at('memory_get begins', step))
    parts.add(`step ${step + 1}, after its body`, at('memory_get ends', step) - at('body ends', step))
    parts.add(`step ${step + 1}, the way to the next activity`, next - at('memory_get ends', step))
  }
  parts.add('the last activity of the run', at('finishRun ends') - at('finishRun begins'))
  parts.add('closing the workflow, until its caller knows', at('all') - at('finishRun ends'))
  parts.add('all', at('all') - startedAt)
  parts.add('(beside) from the last outcome to the answer', answeredAt - at('memory_get ends', steps - 1))
  parts.add('(beside) from the request to the answer', answeredAt - startedAt)
}

async function bare(sides: Sides): Promise<void> {
  const start = sides.bareLocal(steps)
  const parts = new Parts()
  for (let round = -warmUps; round < rounds; round += 1) {
    const [startedAt, moments] = await watch(sides, start)
    if (round < 0) continue
    const all = (name: string): number[] =>
      moments.filter((moment) => moment.name === name).map(({ at }) => at)
    const [begins, ends, [end]] = [all('memory_get begins'), all('memory_get ends'), all('all')]
    parts.add('starting, up to the first call', (begins[0] as number) - startedAt)
    for (let step = 1; step < steps; step += 1)
      parts.add('the way to the next activity', (begins[step] as number) - (ends[step - 1] as number))
    parts.add('closing the workflow, until its caller knows', (end as number) - (ends.at(-1) as number))
    parts.add('all', (end as number) - startedAt)
  }
  parts.say('bare, with local activities:')
}
