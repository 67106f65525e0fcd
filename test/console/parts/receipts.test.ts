import { expect, test } from '@jest/globals'
import { h } from 'preact'
import { renderToString } from 'preact-render-to-string'
import { Receipts } from '../../../src/console/parts/receipts.ts'
import type { PersonsVisit } from '../../../src/console/visit.ts'
import type { ReceiptDecision } from '../../../src/governance/runs/read/receipt.ts'

const decisionOf = (item_index: number): ReceiptDecision =>
  ({
    decision_id: `dec_${item_index}`,
    step_id: 'send',
    item_index,
    tool: 'mail_send',
    side_effect: 'outbound',
    destination: null,
    verdict: 'allow',
    reason: '',
    explanation: `Rule \`r\` holds it. Its approval \`apr_01M8${item_index}\` lets this one call through.`,
    labels: [],
    approval: { id: `apr_01M8${item_index}`, status: 'approved', votes: [] },
    outcome: 'completed',
    decided_at: '2026-11-25T10:00:00.000Z',
  }) as unknown as ReceiptDecision

test('decisions about items are in the order of the items, and name an approval by its link alone', () => {
  const visit = { query: new URLSearchParams(), now: new Date('2026-11-25T10:01:00.000Z') } as PersonsVisit
  const html = renderToString(
    h(Receipts, {
      receipt: { decisions: [2, 0, 1].map(decisionOf), next_cursor: null },
      path: '/console/runs/run_1',
      visit,
      mayOpenApprovals: true,
      words: { first: 'First', next: 'Next' },
    }),
  )
  const text = html.replaceAll(/<[^>]*>/g, '')
  expect([...text.matchAll(/send, item (\d)/g)].map(([, item]) => item)).toEqual(['1', '2', '3'])
  expect(text).toContain('Rule r holds it. Its approval lets this one call through.')
  expect(text).not.toContain('apr_')
  expect([...html.matchAll(/approvals\/apr_01M8(\d)"/g)].map(([, item]) => item)).toEqual(['0', '1', '2'])
})
