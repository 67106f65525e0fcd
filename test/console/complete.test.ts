import { expect, test } from '@jest/globals'
import { choicesAt, type Known } from '../../src/console/browser/complete.ts'
import { workflowSchema } from '../../src/api/workflow-schema.ts'

/* What the editor of a workflow offers at `|`. */

const text = { type: 'string' }
const known: Known = {
  schema: workflowSchema(),
  tools: [
    {
      name: 'file_read',
      description: 'reads',
      params: { properties: { path: { ...text, description: 'where' } } },
      output: { properties: { text, rows: { type: 'array' } } },
    },
    {
      name: 'mail_send',
      description: 'sends',
      params: { properties: { to: text, subject: text } },
      output: {},
    },
  ],
  functions: ['upper'],
  inputs: ['day', 'to'],
  steps: { read: 'file_read', sum: null },
}

function offered(given: string): string[] {
  const at = given.indexOf('|')
  const found = choicesAt(given.slice(0, at), given.slice(at + 1), known)
  const typed = given.slice(at - (found?.typed ?? 0), at)
  return (found?.list ?? []).map(({ label }) => label).filter((label) => label.startsWith(typed))
}

const inStep = (line: string) => `steps:\n  - id: a\n    tool: mail_send\n    params:\n      ${line}`

test.each<[string, string[]]>([
  // the names of a definition, without those that are there
  ['name: a\nde|', ['description']],
  ['ste|', ['steps']],
  // the fields of a step, in either place, and of an input
  ['steps:\n  - id: a\n    tool: file_read\n    on|', ['on_error']],
  ['steps:\n  - i|', ['id', 'if_skipped']],
  ['steps:\n  - id: a\n    id|', []],
  ['inputs:\n  to:\n    ty|', ['type']],
  // values
  ['inputs:\n  to:\n    type: b|', ['boolean']],
  ['if_skipped: |', ['run', 'skip']],
  ['steps:\n  - id: a\n    tool: ma|', ['mail_send']],
  ['{"steps": [\n  {"tool": "fi|', ['file_read']],
  // parameters of the tool of this step, which can stand above or below
  [inStep('|'), ['to', 'subject']],
  [inStep('to: x\n      |'), ['subject']],
  [
    'steps:\n  - id: b\n    tool: file_read\n  - id: a\n    params:\n      |\n    tool: mail_send',
    ['to', 'subject'],
  ],
  ['steps:\n  - id: b\n    tool: mail_send\n  - tool: file_read\n    params:\n      |', ['path']],
  ['steps:\n  - id: b\n    params:\n      |\n  - tool: file_read', []],
  // JSON in lines
  [
    '{\n  "steps": [\n    {\n      "id": "a",\n      "tool": "mail_send",\n      "params": {\n        "|',
    ['to', 'subject'],
  ],
  // expressions
  [inStep("to: '{{|"), ['input', 'read', 'sum', 'today', 'yesterday', 'now', 'item', 'run.id', 'run.requester.email', 'workflow.name', 'upper']], // prettier-ignore
  [inStep("to: '{{input.|"), ['day', 'to']],
  [inStep("to: 'at {{ upper(input.d|"), ['day']],
  [inStep("to: '{{read.|"), ['output', 'status', 'approval']],
  [inStep("to: '{{read.output.|"), ['text', 'rows']],
  [inStep("to: '{{read.approval.|"), ['comment']],
  [inStep("to: '{{sum.output.|"), []],
  [inStep("to: '{{nothing.|"), []],
  [inStep('to: "{{ read.output.text != \'re|'), []],
  // text
  [inStep('to: re|'), []],
  [inStep("to: '{{input.to}} re|"), []],
])('%j', (given, labels) => {
  expect(offered(given)).toEqual(labels)
})

test('without the schema of definitions, tools and expressions are offered', () => {
  const found = choicesAt(inStep(''), '', { ...known, schema: null })
  expect(found?.list.map(({ label, info }) => [label, info])).toEqual([
    ['to', undefined],
    ['subject', undefined],
  ])
  expect(choicesAt('na', '', { ...known, schema: null })?.list).toEqual([])
})
