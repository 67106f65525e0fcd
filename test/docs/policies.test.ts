import { readFileSync } from 'node:fs'
import { expect, test } from '@jest/globals'
import { getTool } from '../../src/catalog/index.ts'
import { compileToolAccess } from '../../src/policy/tool-access.ts'
import { limitNames } from '../../src/policy/tool-limits.ts'
import type { JsonObject } from '../../src/policy/types.ts'

/* The tables of docs/policies.md. test/api/docs/docs.test.ts runs the commands of that page. */

const page = readFileSync(new URL('../../docs/policies.md', import.meta.url), 'utf8')
const calls = [...page.matchAll(/^\| `(\w+)` +\| `(\w+)` +\| `(\{.*\})` +\| (allow|deny) +\|$/gm)].map(
  ([, tool = '', limit = '', params = '', answer]) => ({ tool, limit, params, answer }),
)

test('has eight calls', () => expect(calls).toHaveLength(8))

test.each(calls)('$tool $params: $answer', ({ tool, limit, params, answer }) => {
  const restrictions = { allowed_repos: ['acme/app', 'labs/*'], allowed_channels: ['#releases', '@me'] }
  expect(Object.keys(restrictions)).toContain(limit)
  const policies = [{ toolName: tool, role: null, allowed: null, restrictions }]
  const access = compileToolAccess({ policies, overrides: [], fallback: 'allow' }, (name) => getTool(name)?.constraints ?? {}) // prettier-ignore
  const call = { tool, role: 'member', sideEffect: 'read', params: JSON.parse(params) as JsonObject } as const
  expect(access.refusal(call) === null ? 'allow' : 'deny').toBe(answer)
})

test('the table of limits has each limit', () => {
  const named = [...page.matchAll(/^\| `(\w+)` +\| [A-Z]/gm)].map(([, name = '']) => name)
  expect(named.sort()).toEqual([...limitNames].sort())
})
