import { expect, test } from '@jest/globals'
import { h } from 'preact'
import { renderToString } from 'preact-render-to-string'
import { RunReason } from '../../../src/console/parts/run-reason.ts'
import type { RunView, StepView } from '../../../src/governance/runs/read/read.ts'

const stepOf = (id: string, total: number, completed: number): StepView =>
  ({ id, items: { total, states: { completed, rejected: total - completed } } }) as StepView

const shown = (status: RunView['status'], steps: readonly StepView[]): string => {
  const status_reason = 'step `send` was rejected at item 3 of 6 (counted from 0): `a@b.test` rejected it'
  return renderToString(h(RunReason, { run: { status, status_reason, steps } })).replaceAll(/<[^>]*>/g, '')
}

const reason = 'Step send was rejected at item 4 of 6: a@b.test rejected it.'

test('a run that ended badly says which items completed all the same', () => {
  expect(shown('rejected', [stepOf('read', 2, 2), stepOf('send', 6, 3)])).toBe(
    `${reason} 3 of 6 items of step send completed.`,
  )
})

test.each([
  ['a completed run', 'completed', 3],
  ['a run that goes on', 'paused', 3],
  ['a run without a completed item', 'rejected', 0],
] as const)('%s says only its reason', (_, status, completed) => {
  expect(shown(status, [stepOf('send', 6, completed)])).toBe(reason)
})
