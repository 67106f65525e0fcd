import { describe, expect, test } from '@jest/globals'
import { getTool } from '../../src/catalog/index.ts'
import { checkDefinition } from '../../src/contract/definition-check.ts'
import type { WorkflowDefinition } from '../../src/contract/definition.ts'
import { catalog, type Step, parse, check } from './definition-tools.ts'

/* Errors of a definition that its schema cannot find. */

describe('errors that the schema cannot find', () => {
  test.each<[string, Step[], string, object?]>([
    ['unknown tool', [{ id: 'a', tool: 'fax' }], 'steps.0.tool: step `a`: there is no tool `fax`'],
    ['unknown tool of a prototype', [{ id: 'a', tool: 'constructor' }], 'there is no tool `constructor`'],
    [
      'unknown parameter',
      [{ id: 'a', params: { file: 'x' } }],
      'steps.0.params.file: step `a`: `read` has no parameter',
    ],
    [
      'missing parameter',
      [{ id: 'a', tool: 'mail' }],
      'steps.0.params.to: step `a`: `mail` needs the parameter `to`',
    ],
    ['wrong constant', [{ id: 'a', params: { path: 7 } }], 'parameter `path` must be text, not a number'],
    [
      'wrong constant inside',
      [{ id: 'a', tool: 'mail', params: { to: 'x', extra: { tags: [1] } } }],
      'steps.0.params.extra.tags.0: step `a`',
    ],
    ['duplicate id', [{ id: 'a' }, { id: 'a' }], 'steps.1.id: step `a`: another step has the same id'],
    ['reserved id', [{ id: 'item' }], 'step `item`: this id means something else'],
    ['forbidden id', [{ id: 'constructor' }], 'step `constructor`: this id means something else'],
    ['bad id', [{ id: 'a b' }], 'step `a b`: an id has letters'],
    ['bad id with #', [{ id: 'a#1' }], 'step `a#1`: an id has letters'],
    [
      'unknown step',
      [{ id: 'a', params: { path: 'x {{b.output.y}}' } }],
      '`{{b.output.y}}`: there is no step `b`',
    ],
    [
      'unknown depends_on',
      [{ id: 'a', depends_on: ['b'] }],
      'steps.0.depends_on: step `a`: there is no step `b`',
    ],
    ['waiting for itself', [{ id: 'a', depends_on: ['a'] }], 'step `a`: a step cannot wait for itself'],
    ['itself', [{ id: 'a', params: { path: '{{a}}' } }], 'step `a`: `{{a}}` refers to the step itself'],
    ['malformed reference', [{ id: 'a', params: { path: '{{a.b.c}}' } }], '`{{a.b.c}}` is not a reference'],
    [
      'reference without `output`',
      [{ id: 'a' }, { id: 'b', params: { path: '{{ steps.a.text[0] }}' } }],
      '`{{ steps.a.text[0] }}` is not a reference: write `{{steps.a.output.text[0]}}`',
    ],
    [
      'reference with a bad path',
      [{ id: 'a' }, { id: 'b', params: { path: '{{a.text | trim}}' } }],
      '`{{a.text | trim}}` is not a reference: write for example `{{input.name}}`',
    ],
    ['unclosed reference', [{ id: 'a', params: { path: 'x {{a' } }], '`{{a` is not a reference'],
    ['unknown input', [{ id: 'a', params: { path: '{{input.x}}' } }], 'the workflow declares no input `x`'],
    ['item outside', [{ id: 'a', params: { path: '{{item}}' } }], '`{{item}}` only has a value'],
    ['item in for_each', [{ id: 'a', for_each: '{{item}}' }], '`{{item}}` only has a value'],
    [
      'constant for_each',
      [{ id: 'a', for_each: 'rows' }],
      'steps.0.for_each: step `a`: `for_each` must be a template',
    ],
    ['long for_each', [{ id: 'a', for_each: Array(10_001).fill(1) }], 'more than 10,000 items'],
    [
      'unknown step in when',
      [{ id: 'a', when: { value: '{{b}}', operator: 'exists' } }],
      'steps.0.when.value: step `a`',
    ],
    [
      'when without compare',
      [{ id: 'a', when: { value: 1, operator: 'equals' } }],
      'needs a value in `compare`',
    ],
    [
      'when with one for a list',
      [{ id: 'a', when: { value: 1, operator: 'in', compare: 1 } }],
      'a list of values',
    ],
    [
      'when with a suffix',
      [{ id: 'a', when: { value: 1, operator: 'domain_in', compare: ['com'] } }],
      'public suffix',
    ],
    [
      'unknown step in the result',
      [{ id: 'a' }],
      'result.r: result `r`: `{{b}}`',
      { result: { r: '{{b}}' } },
    ],
    ['item in the result', [{ id: 'a' }], '`{{item}}` only has a value', { result: { r: '{{item}}' } }],
    [
      'bad default',
      [{ id: 'a' }],
      'inputs.n: input `n`: the default',
      { inputs: { n: { type: 'number', default: '1' } } },
    ],
    ['bad input name', [{ id: 'a' }], 'a name has letters', { inputs: { 'a b': { type: 'string' } } }],
    ['reserved input', [{ id: 'a' }], 'choose another', { inputs: { uploaded_files: { type: 'array' } } }],
  ])('%s', (_, steps, message, more = {}) => {
    expect(check(steps, more)).toContainEqual(expect.stringContaining(message))
  })

  test('a misspelt tool gets suggestions', () => {
    const definition = parse([{ id: 'a', tool: 'read_file' }])
    const message =
      'step `a`: there is no tool `read_file`: did you mean `file_read`; `GET /tools` lists the tools'
    expect(checkDefinition(definition, { get: getTool })).toEqual([{ path: 'steps.0.tool', message }])
  })

  test('a cycle names its steps and no others', () => {
    const steps = [
      { id: 'start' },
      { id: 'a', params: { path: '{{c}} {{start}}' } },
      { id: 'b', depends_on: ['a'] },
      { id: 'c', when: { value: '{{b.output}}', operator: 'exists', compare: true } },
      { id: 'end', depends_on: ['c'] },
    ]
    const [issue, ...others] = check(steps)
    expect(others).toEqual([])
    expect(issue).toMatch(/^steps: steps wait for each other in a cycle: /)
    expect(issue).not.toMatch(/start|end/)
    for (const id of ['a', 'b', 'c']) expect(issue).toContain(`\`${id}\``)
  })

  test('a value that a template fills in is checked during the run, if it can have any type', () => {
    expect(
      check([
        { id: 'a', tool: 'mail', params: { to: '{{b.output.x}}', copies: '{{b.output.x}}', extra: '{{b}}' } },
        { id: 'b' },
      ]),
    ).toEqual([])
  })

  test('a definition that skipped the schema is checked too', () => {
    const raw = JSON.parse(
      '{"steps": [{"id": "a", "tool": "read", "params": {"__proto__": 1}}]}',
    ) as WorkflowDefinition
    expect(checkDefinition(raw, catalog)).toEqual([
      expect.objectContaining({ path: 'steps.0.params.__proto__' }),
    ])
    const many = {
      steps: Array.from({ length: 1001 }, (_, index) => ({ id: `s${index}`, tool: 'read', params: {} })),
    }
    expect(checkDefinition(many, catalog)).toEqual([expect.objectContaining({ path: 'steps' })])
  })

  test('1,000 steps in a chain with a long cycle are checked quickly', () => {
    const chain = Array.from({ length: 1000 }, (_, index) => ({
      id: `s${index}`,
      depends_on: [`s${(index + 1) % 1000}`],
    }))
    expect(check(chain)).toHaveLength(1)
  })
})
