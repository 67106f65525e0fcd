import { describe, expect, test } from '@jest/globals'
import { workflowDefinition } from '../../src/contract/definition.ts'
import type { JsonObject } from '../../src/policy/types.ts'
import { kindOf, ownActivities } from '../../src/steps/index.ts'
import { issuesOfSteps } from './issues.ts'

const issuesOf = (step: object) => issuesOfSteps([{ id: 'pause', ...step }])

const step = workflowDefinition.parse({ steps: [{ id: 'pause', wait: { seconds: 1 } }] }).steps[0]
const { run } = kindOf(step as NonNullable<typeof step>)

/** Returns when a wait ends that began at this time, or the words of its error. */
function endOf(values: JsonObject, timeZone = 'Europe/Berlin', began = '2026-03-01T00:00:00Z'): string {
  if (run.as !== 'pause') throw new Error('a wait is a pause')
  try {
    return run.until(values, new Date(began), timeZone).toISOString()
  } catch (error) {
    return (error as Error).message
  }
}

describe('a step `wait` is saved', () => {
  test.each([
    [{ wait: { seconds: 0 } }],
    [{ wait: { seconds: 31_622_400 } }],
    [{ wait: { seconds: '{{input.seconds}}' } }],
    [{ wait: { until: '2026-12-24T09:00:00' } }],
    [{ wait: { until: '2026-12-24 09:00' } }],
    [{ wait: { until: '2026-12-24' } }],
    [{ wait: { until: '2026-12-24T09:00:00.5+05:30' } }],
    [{ wait: { until: '{{input.day}}T09:00:00' } }],
    [{ wait: { until: '{{input.day}}' }, summary: 'Until the morning' }],
    [{ wait: { seconds: 5 }, for_each: [1, 2], when: { value: '{{item}}', operator: 'equals', compare: 1 } }],
  ])('%j', (given) => {
    expect(issuesOf(given)).toEqual([])
  })

  test('and keeps only its own fields', () => {
    expect(step).toEqual({ id: 'pause', wait: { seconds: 1 } })
  })
})

const noTime =
  'must be a time such as `2026-12-24T09:00:00`, `2026-12-24T09:00:00+01:00` or a day such as `2026-12-24`'

describe('a step is refused', () => {
  test.each([
    [{}, `steps.0.tool: a step needs \`tool\` or ${ownActivities.map((name) => `\`${name}\``).join(' or ')}`],
    [{ tool: 'file_read', wait: { seconds: 1 } }, 'steps.0.wait: a step has `tool` or `wait`, not both'],
    [{ wait: { seconds: 1 }, params: {} }, 'steps.0.params: only a step with `tool` has `params`: leave it out'],
    [{ wait: { seconds: 1 }, timeout_seconds: 5 }, 'steps.0.timeout_seconds: only a step with `tool` has `timeout_seconds`: leave it out'],
    [{ wait: {} }, 'steps.0.wait: step `pause`: a `wait` has either `seconds` or `until`'],
    [{ wait: { seconds: 1, until: '2026-12-24' } }, 'steps.0.wait: step `pause`: a `wait` has either `seconds` or `until`'],
    [{ wait: { seconds: -1 } }, 'steps.0.wait.seconds: step `pause`: must not be negative'],
    [{ wait: { seconds: 31_622_401 } }, 'steps.0.wait.seconds: step `pause`: must be at most 31622400 (a year)'],
    [{ wait: { seconds: '5' } }, 'steps.0.wait.seconds: step `pause`: must be a number, or one template that gives a number, and this is text'],
    [{ wait: { seconds: '{{input.day}}' } }, 'steps.0.wait.seconds: step `pause`: must be a number, or one template that gives a number, and `{{input.day}}` is text'],
    [{ wait: { until: 'tomorrow' } }, `steps.0.wait.until: step \`pause\`: ${noTime}`],
    [{ wait: { until: '2026-02-30' } }, `steps.0.wait.until: step \`pause\`: ${noTime}`],
    [{ wait: { until: '{{input.list}}' } }, 'steps.0.wait.until: step `pause`: must be text with a time, and `{{input.list}}` is a list'],
    [{ wait: { until: '{{input.none}}' } }, 'steps.0.wait.until: step `pause`: `{{input.none}}`: the workflow declares no input `none`'],
    [{ wait: { until: '{{pause.output}}' } }, 'steps.0.wait.until: step `pause`: `{{pause.output}}` refers to the step itself'],
    [{ wait: { days: 1 } }, 'steps.0.wait: Unrecognized key: "days"'],
  ])('%j', (given, message) => {
    expect(issuesOf(given)).toContain(message)
  }) // prettier-ignore

  test('if it takes a field of the output of a wait, which has none', () => {
    const steps = [
      { id: 'pause', wait: { seconds: 1 } },
      { id: 'read', tool: 'file_read', params: { path: '{{pause.output.at}}' } },
    ]
    expect(issuesOfSteps(steps)).toEqual([
      'steps.1.params.path: step `read`: parameter `path`: `{{pause.output.at}}`: the output of step `pause` is an object, which has no `at`',
    ])
  })
})

describe('the time at which a wait ends', () => {
  test.each([
    ['seconds from its begin', { seconds: 90.5 }, '2026-03-01T00:01:30.500Z'],
    ['a local time', { until: '2026-03-02T09:00:00' }, '2026-03-02T08:00:00.000Z'],
    ['a local time in summer', { until: '2026-07-02T09:00' }, '2026-07-02T07:00:00.000Z'],
    ['the first moment of a day', { until: '2026-03-02' }, '2026-03-01T23:00:00.000Z'],
    ['a time with its own offset', { until: '2026-03-02T09:00:00-05:00' }, '2026-03-02T14:00:00.000Z'],
    ['a time of UTC', { until: '2026-03-02T09:00:00Z' }, '2026-03-02T09:00:00.000Z'],
    // The clocks skip 02:30 on 29 March 2026, and show 02:30 twice on 25 October.
    ['a time that the clocks skip', { until: '2026-03-29T02:30:00' }, '2026-03-29T01:30:00.000Z'],
    ['a time that comes twice', { until: '2026-10-25T02:30:00' }, '2026-10-25T00:30:00.000Z'],
    ['a past time', { until: '2020-01-01' }, '2019-12-31T23:00:00.000Z'],
  ])('%s', (_name, values, end) => {
    expect(endOf(values)).toBe(end)
  })

  test.each([
    ['Asia/Kathmandu', '2026-03-01T18:15:00.000Z'],
    ['America/St_Johns', '2026-03-02T03:30:00.000Z'],
    ['Pacific/Kiritimati', '2026-03-01T10:00:00.000Z'],
    // The clocks go from 24:00 to 01:00, so this day has no midnight.
    ['Africa/Cairo', '2026-04-23T22:00:00.000Z', '2026-04-24'],
  ])('in %s', (timeZone, end, day = '2026-03-02') => {
    expect(endOf({ until: day }, timeZone)).toBe(end)
  })

  test.each([
    [{ seconds: 'soon' }, '`wait.seconds` must be a number, and it is text'],
    [{ seconds: null }, '`wait.seconds` must be a number, and it is null'],
    [{ seconds: 40_000_000 }, '`wait.seconds` must be at most 31622400 (a year)'],
    [{ until: 'soon' }, `\`wait.until\` ${noTime}`],
    [{ until: 5 }, `\`wait.until\` ${noTime}`],
    [{ until: '2027-03-03' }, '`wait.until` is more than a year away'],
  ])('is refused for %j', (values, message) => {
    expect(endOf(values)).toBe(message)
  })
})
