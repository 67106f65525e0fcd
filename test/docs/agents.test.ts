import { readFileSync } from 'node:fs'
import { expect, test } from '@jest/globals'
import { agentTool } from '../../src/policy/agent-tools.ts'
import { unionLabels } from '../../src/policy/types.ts'

/* Those rows of docs/agents.md, "What a call counts as", that only name tools. */

const page = readFileSync(new URL('../../docs/agents.md', import.meta.url), 'utf8')
const words = (cell = ''): string[] => [...cell.matchAll(/`(\w+)`/g)].map(([, word = '']) => word)
const rows = [...page.matchAll(/^\| ((?:`\w+` ?)+) *\| (read|write|egress) +\| ([^|]*)\|$/gm)]

test.each(
  rows.map(([, tools, sideEffect, labels]) => ({ tools: words(tools), sideEffect, labels: words(labels) })),
)('$tools: $sideEffect', ({ tools, sideEffect, labels }) => {
  for (const name of tools) {
    const tool = agentTool(name)
    expect([name, tool?.sideEffect, tool?.code]).toEqual([name, sideEffect, undefined])
    expect([name, unionLabels(tool?.outputLabels ?? [])]).toEqual([name, labels])
  }
})

test('all six of them', () => {
  expect(rows).toHaveLength(6)
})
