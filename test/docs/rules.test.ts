import { readFileSync } from 'node:fs'
import { describe, expect, test } from '@jest/globals'
import { getTool } from '../../src/catalog/index.ts'
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
    const rows = [...table.matchAll(/^\|(?: `([\w-]+)`)? *\| `(\{.*\}|[a-z\d.:-]+)` *\| (\w+) *\|$/gm)]
    return { rule, rows: rows.map(([, of, what = '', verdict]) => ({ of, what, verdict })) }
  })

test('every example has calls', () => {
  expect(examples.map(({ rows }) => rows.length)).toEqual([7, 3, 3, 5, 3, 3, 3])
})

describe.each(examples)('$rule.name', ({ rule, rows }) => {
  const policy = compilePolicy({ rules: [{ ...rule, id: 'rule_1' }], labelRules: [], approvalsEnabled: true })

  // The first column has a label of an agent's call, or the tool of a workflow's call. The second column has the
  // parameters, or the host to which the call goes.
  test.each(rows)('$of $what: $verdict', ({ of, what, verdict }) => {
    const call =
      of !== undefined && getTool(of) !== undefined
        ? ({ source: 'workflows', tool: of, labels: [] } as const)
        : ({ source: 'agents', tool: 'mail_send', labels: of === undefined ? [] : [of] } as const)
    const params = what.startsWith('{') ? (JSON.parse(what) as JsonObject) : {}
    const given = { sideEffect: 'egress', params, destination: what.startsWith('{') ? null : what } as const
    expect(decide(policy, { ...call, ...given }).verdict).toBe(verdict)
  })
})
