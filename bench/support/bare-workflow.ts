import { proxyActivities } from '@temporalio/workflow'

/** The other side of `npm run bench runs`: the same activities in sequence, with the plain SDK. */
export async function bareRun(steps: number): Promise<void> {
  const { memory_get: call } = proxyActivities<{ memory_get(step: number): Promise<unknown> }>({
    startToCloseTimeout: '90s',
    heartbeatTimeout: '10s',
    retry: { maximumAttempts: 100_000 },
  })
  for (let step = 0; step < steps; step += 1) await call(step)
}
