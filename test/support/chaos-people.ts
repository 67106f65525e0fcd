import { setTimeout as delay } from 'node:timers/promises'
import type { CrashHome } from './chaos.ts'
import type { Approval, Run } from './client-types.ts'

/** Returns a function for random numbers in [0, 1). The same seed gives the same numbers (mulberry32). */
export function seededRandom(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

export interface People {
  readonly surprises: readonly string[]
  /** After this call, the approver approves every pending approval at each poll. */
  hurry(): void
  stop(): Promise<void>
}

/**
 * Starts a simulated approver. At each poll, it approves each pending approval with a probability of 0.1. If a step has
 * an unknown outcome, it looks into the mailbox (the sink). It resolves the step as `done` if the mail is there, else
 * as `retry`. `surprises` collects answers that a careful client cannot explain.
 */
export function startPeople(home: CrashHome, random: () => number): People {
  const surprises: string[] = []
  let hurried = false
  let stopped = false
  const round = async (): Promise<void> => {
    const { data: waiting } = await home.approver.good<{ data: Approval[] }>(
      'GET',
      '/approvals?status=pending&limit=200',
    )
    for (const { id } of waiting) {
      if (!hurried && random() > 0.1) continue
      const { status, code } = await home.approver.decide(id, 'approve')
      // After a crash, a repeated request may find that this approver has already voted or that the run has ended. The
      // answer then has the code `approval_already_decided`.
      if (status !== 200 && code !== 'approval_already_decided')
        surprises.push(`approve ${id}: ${status} ${code}`)
    }
    const { data: paused } = await home.approver.good<{ data: Run[] }>('GET', '/runs?status=paused&limit=200')
    for (const { id } of paused) await resolve(id)
  }
  const resolve = async (runId: string): Promise<void> => {
    const run = await home.approver.run(runId)
    const unknown = run.steps.find((step) => step.status === 'unknown_outcome')
    if (unknown === undefined) return
    const outcome = home.sink.count(run.inputs?.['subject'] as string) > 0 ? 'done' : 'retry'
    const { status, code } = await home.approver.resolve(runId, unknown.id, outcome)
    // The code `bad_transition` means that another outcome came first. Either the step itself ended late, or our own
    // earlier request was carried out and a crash lost its answer.
    if (status !== 200 && code !== 'bad_transition') surprises.push(`resolve ${runId}: ${status} ${code}`)
  }
  const working = (async () => {
    while (!stopped) {
      await round().catch((error: Error) => surprises.push(error.message))
      await delay(250)
    }
  })()
  return {
    surprises,
    hurry: () => (hurried = true),
    async stop() {
      stopped = true
      await working
    },
  }
}
