import { expect, test } from '@jest/globals'
import type { UsualTerms } from '../../../src/governance/changes/gate.ts'
import type { Item } from '../../../src/governance/declared/plan.ts'
import { whyLooserItems } from '../../../src/governance/declared/stricter.ts'
import { readSettings } from '../../../src/policy/settings.ts'
import type { ChainTx } from '../../../src/governance/audit/chain-tx.ts'

const rule = (at: number) => ({
  name: `r${at}`,
  verdict: 'require_approval',
  status: 'active',
  tools: [`mcp__s__t${at}`],
})
const terms: UsualTerms = { usualSeconds: 3_600 }

/** Changes the first `changed` of `count` rules. */
async function why(count: number, changed: number, change: object) {
  let texts = 0
  const row = (at: number) => ({
    get text() {
      texts += 1
      return JSON.stringify(rule(at))
    },
  })
  const rules = new Map(Array.from({ length: count }, (_, at) => [`rule_${at}`, row(at)]))
  const policy = { rules, labelRules: new Map(), settings: readSettings({}), groups: new Map() }
  const items = Array.from({ length: changed }, (_, at) => ({
    action: 'change',
    kind: 'rule',
    name: `r${at}`,
    present: { id: `rule_${at}` },
    before: rule(at),
    after: { ...rule(at), ...change },
    isOther: true,
  }))
  const tx = { policy, organizationId: 'o' } as unknown as ChainTx
  const found = await whyLooserItems(tx, items as unknown as Item[], terms, async () => new Set())
  return { found, texts }
}

test('many changes read each of the other rules once', async () => {
  expect(await why(60, 20, { description: 'more' })).toEqual({ found: [], texts: 60 })
  const { found, texts } = await why(60, 20, { status: 'shadow' })
  expect([found.length, texts]).toEqual([20, 60])
})

test('more changes than are compared wait for a second person', async () => {
  const { found } = await why(60, 51, { description: 'more' })
  expect(found).toEqual([
    'it changes 51 rules and label rules: more than 50 are not compared with the others',
  ])
})
