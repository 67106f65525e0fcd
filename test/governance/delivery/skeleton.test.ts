import { describe, expect, test } from '@jest/globals'
import { skeletonOf } from '../../../src/governance/delivery/skeleton.ts'
import type { WorkflowStep } from '../../../src/contract/definition.ts'

const skeletonStep = (tool: string, over: object = {}) => {
  const step = { id: 's', tool, params: {}, ...over } as WorkflowStep
  const version = { definition: { steps: [step] }, dependsOn: new Map() }
  return skeletonOf(version as unknown as Parameters<typeof skeletonOf>[0])[0]
}

describe('items at once', () => {
  test.each([
    ['memory_set', 10],
    ['memory_get', 10],
    ['file_read', 10],
    ['mail_send', undefined],
    ['github_list_issues', undefined],
    ['llm_generate', undefined],
  ])('of %s: %s', (tool, count) => {
    expect(skeletonStep(tool, { for_each: [1, 2] })?.itemsAtOnce).toBe(count)
    expect(skeletonStep(tool)?.itemsAtOnce).toBeUndefined()
  })

  test('of a quick call to a service: 10', () => {
    const step = skeletonStep('github_list_issues', { for_each: [1, 2], timeout_seconds: 10 })
    expect([step?.quick, step?.itemsAtOnce]).toEqual([true, 10])
  })
})
