import { expect, test } from '@jest/globals'
import { measureSlots } from '../../src/programs/worker-slots.ts'
import { createMetrics } from '../../src/shared/metrics.ts'

test('calls, local activities and workflows have slots of their own', async () => {
  const metrics = createMetrics('worker')
  const slots = {
    maxConcurrentActivityTaskExecutions: 10,
    maxConcurrentLocalActivityExecutions: 50,
    maxConcurrentWorkflowTaskExecutions: 20,
  }
  const status = {
    numInFlightActivities: 15,
    numInFlightNonLocalActivities: 3,
    numInFlightLocalActivities: 12,
    numInFlightWorkflowActivations: 21,
    numCachedWorkflows: 7,
  }
  measureSlots(metrics, slots, status)
  const { values } = await metrics.workerSlots.get()
  expect(values.map(({ labels, value }) => [labels['kind'], labels['state'], value])).toEqual([
    ['activity', 'used', 3],
    ['activity', 'free', 7],
    ['local_activity', 'used', 12],
    ['local_activity', 'free', 38],
    ['workflow', 'used', 21],
    ['workflow', 'free', 0],
  ])
})
