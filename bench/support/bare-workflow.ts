import { proxyActivities, proxyLocalActivities } from '@temporalio/workflow'

type Tools = { memory_get(step: number): Promise<unknown> }

const ordinary = proxyActivities<Tools>({
  startToCloseTimeout: '90s',
  heartbeatTimeout: '10s',
  retry: { maximumAttempts: 100_000 },
})
const local = proxyLocalActivities<Tools>({ startToCloseTimeout: '10s' })

/**
 * Runs `steps` activities in sequence, with the plain SDK. `npm run bench runs` compares governed runs with this
 * workflow.
 */
export async function bareRun(steps: number): Promise<void> {
  for (let step = 0; step < steps; step += 1) await ordinary.memory_get(step)
}

/** Runs `steps` local activities in sequence, with the plain SDK. */
export async function bareLocalRun(steps: number): Promise<void> {
  for (let step = 0; step < steps; step += 1) await local.memory_get(step)
}
