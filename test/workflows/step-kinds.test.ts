import { expect, test } from '@jest/globals'
import { readRunEvents } from '../../src/governance/runs/read/events.ts'
import { readReceipt, type ReceiptView } from '../../src/governance/runs/read/receipt.ts'
import { runOf } from '../governance/runs/engine-fixture.ts'
import { useTestStack, type FakeReads, type Stack } from './worker-fixture.ts'
import { itemCases } from './item-cases.ts'
import { type Case, stepCases } from './step-cases.ts'

/* The states, events and receipts of every kind of step, with a real server. */

let stack: Stack
let reads: FakeReads
useTestStack((...both) => ([stack, reads] = both))

test.each(Object.entries({ ...stepCases, ...itemCases }))('%s', async (_name, expected) => {
  await stack.rules(...(expected.rules ?? []))
  const runId = await stack.run({ steps: expected.steps })
  for (const decision of expected.votes ?? []) await stack.vote(await stack.held(runId), 'admin', decision)
  const { steps: _steps, rules: _rules, votes: _votes, sideBySide, ...wanted } = expected
  const left = { ...(await seen(runId)), calls: Object.fromEntries(reads.calls) }
  const varies = sideBySide === true || wanted.events.includes('#1')
  expect(varies ? inOrder(left) : left).toEqual(varies ? inOrder(wanted) : wanted)
})

/** Sorts the events and receipts of steps or items that run at the same time. */
function inOrder(each: Omit<Case, 'steps' | 'sideBySide'>): Omit<Case, 'steps' | 'sideBySide'> {
  const sorted = (list: string) => list.split(', ').toSorted().join(', ')
  return { ...each, events: sorted(each.events), receipts: sorted(each.receipts) }
}

async function seen(runId: string): Promise<Omit<Case, 'steps' | 'calls' | 'sideBySide'>> {
  const states = await stack.ended(runId)
  const run = await runOf(stack.context, runId)
  const { events } = await readRunEvents(stack.context.db, runId, 0)
  const parts = await readReceipt(stack.context.db, stack.organizationId, runId)
  const receipt = JSON.parse(await parts.text()) as ReceiptView
  const place = (step: unknown, item: unknown) => (step ? ` ${step as string}${typeof item === 'number' ? `#${item}` : ''}` : '') // prettier-ignore
  return {
    states,
    nodes: `${run.nodes_executed}/${run.nodes_failed}`,
    reason: run.status_reason,
    events: events.slice(1).map((event) => `${event.type}${place(event['step_id'], event['item_index'])}`).join(', '), // prettier-ignore
    receipts: receipt.decisions
      .map(
        (each) =>
          `${place(each.step_id, each.item_index).trim()} ${each.verdict} ${each.rule_name ?? '-'} ${each.outcome ?? '-'}`,
      )
      .join(', '),
  }
}
