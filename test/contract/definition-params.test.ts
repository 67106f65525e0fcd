import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { getTool } from '../../src/catalog/index.ts'
import { checkDefinition } from '../../src/contract/definition-check.ts'
import { workflowDefinition } from '../../src/contract/definition.ts'
import { parseParams } from '../../src/contract/tool-params.ts'
import { resolve, type Scope } from '../../src/policy/templates.ts'
import type { Json, JsonObject } from '../../src/policy/types.ts'
import { list, catalog, check } from './forms-check.ts'

/* The types of parameters, and the law that the check of a definition keeps. */

describe('the type of a parameter', () => {
  test.each<[object]>([
    [{ repo: '{{a.output.issues[0].title}}' }],
    [{ repo: '{{a.output.next}}' }],
    [{ repo: 'number {{input.count}}' }],
    [{ repo: "{{''}}{{input.count}}" }],
    [{ repo: '{{a.output.either}}' }],
    [{ repo: '{{a.output.issues[0].more}}' }],
    [{ state: '{{input.text}}' }],
    [{ most: '{{input.count}}' }],
    [{ labels: '{{input.text}}' }],
    [{ labels: '{{input.rows}}' }],
    [{ labels: ['{{input.text}}', 'x'] }],
    [{ filter: '{{input.object}}' }],
    [{ filter: { author: '{{input.text}}', draft: '{{input.on}}' } }],
    [{ filter: { author: 'a {{input.text}}' } }],
    [{ any: ['{{a}}', { x: '{{input.count}}', y: '{{input.rows[0]}}' }] }],
  ])('fits: %j', (params) => {
    expect(check({ params })).toEqual([])
  })

  test.each<[object, string]>([
    [
      { repo: '{{input.count}}' },
      "params.repo: step `b`: parameter `repo` must be text, and `{{input.count}}` is a number: write `{{''}}{{input.count}}` to make it text",
    ],
    [{ repo: '{{input.on}}' }, '`repo` must be text, and `{{input.on}}` is true or false'],
    [{ repo: '{{a.output.total}}' }, '`repo` must be text, and `{{a.output.total}}` is a number'],
    [{ repo: '{{a}}' }, '`repo` must be text, and `{{a}}` is an object'],
    [{ most: '{{today}}' }, '`most` must be a number, and `{{today}}` is text'],
    [{ most: '1{{input.count}}' }, 'parameter `most` must be a number'],
    [{ state: '{{input.count}}' }, 'parameter `state` must be `open` or `closed`'],
    [{ labels: '{{input.count}}' }, 'parameter `labels` must be text or a list'],
    [{ labels: ['{{input.text}}', 5] }, 'parameter `labels.1` must be text'],
    [{ labels: ['{{input.text}}', 'x', 'y'] }, 'parameter `labels` must have at most 2 entries'],
    [{ labels: ['{{input.on}}'] }, 'parameter `labels.0` must be text, and `{{input.on}}` is true or false'],
    [{ filter: { author: '{{input.text}}', draft: 'no' } }, 'parameter `filter.draft` must be'],
    [{ filter: { autor: '{{input.text}}' } }, '`filter.autor`'],
    [{ filter: { draft: '{{input.on}}' } }, 'parameter `filter.author` is missing'],
    [{ filter: { author: '01234567890{{input.text}}' } }, '`filter.author` must have at most 10 characters'],
    [{ filter: { author: '{{"01234567890"}}' } }, '`filter.author` must have at most 10 characters'],
  ])('does not fit: %j', (params, message) => {
    expect(check({ params })).toContainEqual(expect.stringContaining(message))
  })

  test('of the tools in the catalogue', () => {
    const steps = [
      { id: 'read', tool: 'file_read', params: { path: 'a.md' } },
      {
        id: 'keep',
        tool: 'memory_set',
        params: { key: '{{read.output.size}}', value: '{{read.output.size}}' },
      },
      {
        id: 'send',
        tool: 'mail_send',
        params: { to: ['me', 7], subject: '{{index}}', text: '{{read}}' },
        for_each: [1],
      },
    ]
    const issues = checkDefinition(workflowDefinition.parse({ steps }), { get: getTool })
    expect(issues.map(({ path }) => path)).toEqual([
      'steps.1.params.key',
      'steps.2.params.to.1',
      'steps.2.params.subject',
      'steps.2.params.text',
    ])
  })
})

describe('the law of the check', () => {
  const texts = fc.constantFrom<Json>(
    'open',
    '{{input.text}}',
    '{{input.count}}',
    '{{input.on}}',
    '{{input.rows}}',
    '{{input.object}}',
    '{{a}}',
    '{{a.output.either}}',
    '{{a.output.issues[0].more}}',
    'x{{input.text}}',
    "{{''}}{{input.count}}",
    'a long text and {{input.on}}',
    7,
    false,
    null,
  )
  const value: fc.Arbitrary<Json> = fc.oneof(
    { weight: 3, arbitrary: texts },
    fc.array(texts, { maxLength: 3 }),
    fc.dictionary(fc.constantFrom('author', 'draft', 'other'), texts),
  )
  const params = fc.dictionary(fc.constantFrom('repo', 'state', 'most', 'labels', 'filter', 'any'), value)
  const given = fc.record({
    text: fc.constantFrom('open', 'x', ''),
    count: fc.constantFrom(1, 7, 1.5),
    on: fc.boolean(),
    rows: fc.array(fc.constantFrom<Json>('x', 1), { maxLength: 3 }),
    object: fc.dictionary(fc.constantFrom('author', 'draft'), fc.constantFrom<Json>('x', true)),
  })
  const output = fc.record({
    either: fc.constantFrom<Json>('open', { id: 'x' }),
    more: fc.constantFrom<Json>('open', 7, true, ['x'], { author: 'x' }),
  })

  test('only definitions whose calls would fail are refused', () => {
    const counts = { refused: 0, worked: 0 }
    fc.assert(
      fc.property(params, given, output, (params, inputs, { either, more }) => {
        const issues = check({ params })
        const outputs: JsonObject = { total: 1, either, issues: [{ more }] }
        const scope: Scope = { inputs, step: () => outputs, today: 'T', yesterday: 'Y', now: 'N' }
        const parsed = parseParams(list, resolve(params, scope).value as JsonObject)
        if (issues.length > 0) {
          counts.refused += 1
          expect(parsed.ok).toBe(false)
        } else if (parsed.ok) counts.worked += 1
      }),
      { numRuns: 2_000 },
    )
    expect(counts.refused).toBeGreaterThan(200)
    expect(counts.worked).toBeGreaterThan(200)
  })
})

test('10,000 templates over long lists are checked quickly', () => {
  const items = Array.from({ length: 9_000 }, (_, at) => ({ name: `n${at}`, list: ['x'] }))
  const steps = [
    { id: 'a', tool: 'list' },
    { id: 'b', tool: 'list', for_each: items, params: { any: Array(4_990).fill('{{item.name}}') } },
    { id: 'c', tool: 'list', params: { any: Array(4_990).fill('{{b.output[3].issues[0].more.x}}') } },
  ]
  const definition = workflowDefinition.parse({ steps })
  expect(checkDefinition(definition, catalog)).toEqual([])
})
