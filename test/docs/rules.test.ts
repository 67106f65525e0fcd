import { readFileSync } from 'node:fs'
import { describe, expect, test } from '@jest/globals'
import { compilePolicy, decide } from '../../src/policy/decide.ts'
import { ruleInput } from '../../src/policy/rule.ts'
import type { JsonObject } from '../../src/policy/types.ts'

/* The rules of docs/rules.md, saved as a reader would save them, each with its table of calls. */

const page = readFileSync(new URL('../../docs/rules.md', import.meta.url), 'utf8')
const examples = page
  .split('```json rule\n')
  .slice(1)
  .map((text) => {
    const [json = '', rest = ''] = text.split('\n```\n', 2)
    const rule = ruleInput.parse(JSON.parse(json))
    const [table = ''] = rest.split(/\n\n(?!\|)/, 2)
    const rows = [...table.matchAll(/^\|(?: `([\w-]+)`)? *\| `(\{.*\})` *\| (\w+) *\|$/gm)]
    return { rule, rows: rows.map(([, label, params = '', verdict]) => ({ label, params, verdict })) }
  })

test('every example has calls', () => {
  expect(examples.map(({ rows }) => rows.length)).toEqual([7, 3, 3, 3])
})

describe.each(examples)('$rule.name', ({ rule, rows }) => {
  const policy = compilePolicy({ rules: [{ ...rule, id: 'rule_1' }], labelRules: [], approvalsEnabled: true })

  test.each(rows)('$label $params: $verdict', ({ label, params, verdict }) => {
    const call = { source: 'agents', tool: 'mail_send', sideEffect: 'egress' } as const
    const labels = label === undefined ? [] : [label]
    const decided = decide(policy, { ...call, labels, params: JSON.parse(params) as JsonObject })
    expect(decided.verdict).toBe(verdict)
  })
})
