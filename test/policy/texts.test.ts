import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { z } from 'zod'
import { workflowDefinition } from '../../src/contract/definition.ts'
import { Budget } from '../../src/policy/budget.ts'
import { globsMeet, matchesGlob } from '../../src/policy/glob.ts'
import { Hole } from '../../src/policy/values.ts'
import { headlineWithField, readAs } from '../../src/policy/issues.ts'
import { includesText } from '../../src/policy/operators/contains.ts'
import { ruleInput } from '../../src/governance/rules/rule-kinds.ts'
import { inOneLine, isOneLine, isPattern, nameField } from '../../src/policy/text.ts'
import { cpuMilliseconds } from './cpu-time.ts'

test.each([
  ['mail_send', 'mail_send', true],
  ['mail_send', 'mail_send2', false],
  ['*', '', true],
  ['*', 'anything', true],
  ['mcp__*__read', 'mcp__files__read', true],
  ['mcp__*__read', 'mcp__files__reads', false],
  ['*_send', 'mail_send', true],
  ['a*b*c', 'aXbYbZc', true],
  ['a?c', 'abc', true],
  ['a?c', 'ac', false],
  ['a.c', 'abc', false],
  ['', 'a', false],
])('%s on %s: %s', (glob, name, expected) => {
  expect(matchesGlob(glob, name)).toBe(expected)
})

test('a hostile glob stays cheap', () => {
  expect(matchesGlob('*a'.repeat(100), 'a'.repeat(20_000) + 'b')).toBe(false)
})

test('matches what a regular expression matches', () => {
  const word = (unit: string) => fc.string({ unit: fc.constantFrom(...unit.split('')), maxLength: 9 })
  fc.assert(
    fc.property(word('xy*?'), word('xy'), (glob, name) => {
      const source = glob
        .split('')
        .map((char) => ({ '*': '.*', '?': '.' })[char] ?? char)
        .join('')
      expect(matchesGlob(glob, name)).toBe(new RegExp(`^${source}$`).test(name))
    }),
    { numRuns: 20_000 },
  )
})

test('a thousand globs that almost fit a long name cost little', () => {
  const globs = Array.from({ length: 1_000 }, () => `*${'a'.repeat(99)}b`)
  expect(cpuMilliseconds(() => globs.forEach((glob) => matchesGlob(glob, 'a'.repeat(190))))).toBeLessThan(40)
})

describe('globsMeet', () => {
  test.each([
    ['mail_*', '*_send', true],
    ['mail_*', 'memory_*', false],
    ['a?c', 'ab?', true],
    ['a?', 'a', false],
    ['*', '', true],
    ['?*', '', false],
  ])('%s and %s: %s', (a, b, expected) => {
    expect(globsMeet(a, b)).toBe(expected)
    expect(globsMeet(b, a)).toBe(expected)
  })

  test('is true exactly when some name matches both', () => {
    const letters = ['x', 'y']
    const longer = (names: string[]) => names.flatMap((name) => letters.map((letter) => name + letter))
    let [all, last] = [[''], ['']]
    for (let length = 1; length <= 6; length++) all = all.concat((last = longer(last)))
    const glob = fc.string({ unit: fc.constantFrom('x', 'y', '*', '?'), maxLength: 3 })
    fc.assert(
      fc.property(glob, glob, (a, b) => {
        expect(globsMeet(a, b)).toBe(all.some((name) => matchesGlob(a, name) && matchesGlob(b, name)))
      }),
      { numRuns: 1000 },
    )
  })
})

const signs = fc.constantFrom(...'a é\n\r\t\u0000\u001b\u0085\u2028\u202e\u2069'.split(''))

test('a name has one line, and a text in one line keeps all other characters', () => {
  fc.assert(
    fc.property(fc.string({ unit: signs, maxLength: 8 }), (text) => {
      const line = inOneLine(text)
      expect(isOneLine(line)).toBe(true)
      expect(line.replaceAll(' ', '')).toBe(text.replaceAll(/[^aé]/g, ''))
      expect(line === text).toBe(isOneLine(text))
      if (nameField(10).safeParse(text).success) expect(line).toBe(text)
    }),
  )
})

test.each(['Отчёт', '報告', 'تقرير', 'naïve', '👩‍🚀 launch', 'a\u00a0b'])('`%s` is a name', (name) => {
  expect(nameField(200).safeParse(name).success).toBe(true)
})

test.each([
  ...['^.*@acme\\.com$', '^acme$', '^a.*', '^\\d+', 'acme\\.com$', '.*@acme.com$', '^(a|b)$'],
  ...['.*@acme\\.com', '.+@x', '[a-z]+@acme\\.com', 'v[0-9]{2}', 'run-\\d+', '/^acme/'],
])('`%s` is plainly a regular expression', (text) => {
  expect(isPattern(text)).toBe(true)
})

test.each([
  ...['5$', '$5', '$5.00', 'US$', '^_^', '^', '$', '^$', '.*', '*.pdf', 'notes.*'],
  ...['C:\\data\\report.*', '.**', '...', '[draft-2] plan', '\\\\server\\d$', 'a^2 + b^2', '^GSPC'],
  ...['price in $', 'what? (really)', 'a@acme.com'],
])('`%s` is text', (text) => {
  expect(isPattern(text)).toBe(false)
})

test.each(['[a-a', '[0-9', '[a-b]', '\\d', '.*[', '[[[['])(
  'a text of many `%s` takes linear time',
  (part) => {
    const texts = Array.from({ length: 20 }, (_, n) => `${n}${part.repeat(2_000 / part.length)}`)
    expect(cpuMilliseconds(() => texts.forEach(isPattern))).toBeLessThan(200)
  },
)

test('finds what `includes` finds', () => {
  const unit = fc.constantFrom('a', 'ab', 'aab', 'b')
  const long = fc.array(unit, { maxLength: 8 }).map((parts) => parts.join('').repeat(40))
  fc.assert(
    fc.property(long, long, fc.nat(400), (text, more, from) => {
      const pattern = (text + more).slice(from)
      for (const whole of [text, more + text, text + more, more + text + more])
        expect(includesText(whole, pattern, new Budget())).toBe(whole.includes(pattern))
    }),
  )
})

test.each([
  ['at the beginning', `ab${'a'.repeat(1_998)}`],
  ['in the middle', `${'a'.repeat(999)}b${'a'.repeat(1_000)}`],
  ['at the end', `${'a'.repeat(1_999)}b`],
])('another letter %s of a long pattern costs little', (_, pattern) => {
  const text = 'a'.repeat(2 ** 21)
  const find = () => expect(includesText(text, pattern, new Budget())).toBe(false)
  // V8 took more than a second for the first one.
  expect(Math.min(...[1, 2, 3].map(() => cpuMilliseconds(find)))).toBeLessThan(200)
})

test('long patterns pay by the length of the text', () => {
  const budget = new Budget(3_000)
  const find = () => includesText('a'.repeat(64_000), 'b'.repeat(300), budget)
  expect(find()).toBe(false)
  expect(find).toThrow('too large')
})

test('a look for many pieces in a text pays by their number', () => {
  const hole = new Hole('a', { after: [...Array<string>(900).fill('a'), 'q', ''] })
  const budget = new Budget(100)
  expect(hole.mayBecome('a'.repeat(1_990), budget)).toBe(false)
  expect(() => hole.mayBecome('a'.repeat(1_990), budget)).toThrow('too large')
  // Another first piece costs nothing.
  expect(hole.mayBecome('b', budget)).toBe(false)
})

const issuesOf = (schema: z.ZodType, value: unknown, options?: { quotes: boolean }) => {
  const read = readAs(schema, value, options)
  return read.ok ? [] : read.issues
}
const linesOf = (schema: z.ZodType, value: unknown) =>
  issuesOf(schema, value).map(({ path, message }) => `${path} ${message}`)

describe('readAs', () => {
  test('names every wrong and every unknown field by its path', () => {
    const schema = z.strictObject({ a: z.string(), b: z.array(z.strictObject({ c: z.int() })) })
    expect(issuesOf(schema, { b: [{ c: 1.5, d: 1 }], e: 1, f: 2 })).toEqual([
      { path: 'a', message: 'is missing' },
      { path: 'b.0.c', message: 'must be a whole number, not `1.5`' },
      { path: 'b.0.d', message: 'unknown field: write `c`' },
      { path: 'e', message: 'unknown field: write `a` or `b`' },
      { path: 'f', message: 'unknown field: write `a` or `b`' },
    ])
  })

  test('says so if an object has no fields', () => {
    expect(linesOf(z.strictObject({}), { a: 1 })).toEqual(['a unknown field: there are no fields here'])
  })

  test('of a union, shows the mistakes in the branch that was meant', () => {
    const schema = z.union([z.string(), z.array(z.int()).min(1), z.strictObject({ a: z.int() })])
    expect(linesOf(schema, { a: 'x' })).toEqual(['a must be a number, not text'])
    expect(linesOf(schema, [])).toEqual([' must have at least 1 entry'])
    expect(linesOf(schema, 7)).toEqual([' must be text, a list or an object, not a number'])
    expect(linesOf(schema, undefined)).toEqual([' is missing'])
  })

  test('shows no value where it must not', () => {
    const schema = z.strictObject({ a: z.array(z.string()), b: z.enum(['x']), c: z.int(), d: z.literal('y') })
    const secret = { a: 'secret', b: 'secret', c: 41.7, d: 12_345 }
    expect(JSON.stringify(issuesOf(schema, secret))).toContain('secret')
    expect(JSON.stringify(issuesOf(schema, secret, { quotes: false }))).not.toMatch(/secret|41\.7|12345/)
  })
})

const rule = { name: 'r', verdict: 'deny' }
const condition = (operator: string, value: unknown) => ({
  ...rule,
  params: [{ param: 'to', operator, value }],
})
const hold = { ...rule, verdict: 'require_approval', tools: ['*'] }
const step = { id: 's', tool: 'file_read' }
const withStep = (more: object) => ({ steps: [{ ...step, ...more }] })
const list = 'must be a list: write `[` before it and `]` after it'
const effects = '`read`, `write` or `egress`'

test.each<[z.ZodType, unknown, string]>([
  [ruleInput, { ...rule, side_effects: 'egress' }, `side_effects ${list}`],
  [ruleInput, { ...rule, side_effects: ['send'] }, `side_effects.0 must be ${effects}, not \`send\``],
  [ruleInput, { ...rule, tools: 'mail_send' }, `tools ${list}`],
  [ruleInput, { ...rule, labels: ['pii'] }, 'labels must be an object, not a list'],
  [ruleInput, { ...rule, labels: null }, 'labels must be an object, not null'],
  [ruleInput, { ...rule, tools: 'x'.repeat(41) }, 'tools must be a list, not text'],
  [ruleInput, condition('is', 'x'), 'params.0.operator must be `equals`, `in`, '],
  [ruleInput, condition('in', 'x'), `params.0.value ${list}`],
  [ruleInput, condition('exists', 'yes'), 'params.0.value must be `true` or `false`, not text'],
  [
    ruleInput,
    condition('equals', []),
    `params.0.value must be text, a number or \`true\` or \`false\`, not a list`,
  ],
  [ruleInput, { name: 'r', tools: ['*'] }, 'verdict is missing: give `allow`, `require_approval` or `deny`'],
  [ruleInput, { ...hold, approvals_needed: '2' }, 'approvals_needed must be a number, not text'],
  [ruleInput, { ...hold, approvals_needed: 21 }, 'approvals_needed must be at most 20'],
  [ruleInput, [], ' must be an object, not a list'],
  [workflowDefinition, { steps: {} }, 'steps must be a list, not an object'],
  [workflowDefinition, withStep({ depends_on: 'a' }), `steps.0.depends_on ${list}`],
  [workflowDefinition, withStep({ for_each: 3 }), 'steps.0.for_each must be a template or a list'],
  [workflowDefinition, withStep({ retry: { attempts: 2 } }), 'steps.0.retry.backoff_seconds is missing'],
  [workflowDefinition, { steps: [step], inputs: { a: 'string' } }, 'inputs.a must be an object, not text'],
  [workflowDefinition, { steps: [step], inputs: [] }, 'inputs must be an object, not a list'],
])('%# one line in plain words', (schema, value, expected) => {
  const lines = linesOf(schema, value)
  expect(lines).toHaveLength(1)
  expect(lines[0]?.startsWith(expected)).toBe(true)
})

test('a headline names the first field and counts the others', () => {
  expect(headlineWithField('no', [{ path: 'a', message: 'is missing' }])).toBe('no: `a` is missing')
  const two = [
    { path: 'a', message: 'unknown field: write `b`' },
    { path: 'b', message: 'x' },
  ]
  expect(headlineWithField('no', two)).toBe('no: `a` is an unknown field: write `b` (and 1 more)')
  expect(headlineWithField('no', [{ path: 'a', message: 'give one' }])).toBe('no: `a`: give one')
  expect(headlineWithField('no', [{ path: '', message: 'give one' }])).toBe('no: give one')
})

const make = () => ({
  entries: z.array(z.union([z.int().min(0), z.string().max(3)])).max(1_000),
  unchecked: z.strictObject({ list: z.array(z.strictObject({ n: z.int() })).optional() }),
  changed: z.array(z.string().transform((text) => text.length)).min(1),
})

describe('a schema with bounded reading', () => {
  test('accepts and refuses the same values as before, with the same first mistakes', () => {
    const [bounded, plain] = [make(), make()]
    const entry = fc.oneof(fc.integer({ min: -3, max: 300 }), fc.string({ maxLength: 5 }), fc.constant(null))
    const value = fc.oneof(
      fc.array(entry, { maxLength: 300, size: 'max' }),
      fc.array(fc.nat(), { minLength: 90, maxLength: 1_100, size: 'max' }),
      fc.array(fc.string({ maxLength: 4 }), { minLength: 90, maxLength: 300, size: 'max' }),
      fc.record({
        list: fc.array(fc.record({ n: fc.oneof(fc.integer(), entry) }), { maxLength: 300, size: 'max' }),
      }),
    )
    fc.assert(
      fc.property(value, (given) => {
        for (const name of ['entries', 'unchecked', 'changed'] as const) {
          const read = readAs<unknown>(bounded[name], given)
          const whole = plain[name].safeParse(given)
          expect(read.ok).toBe(whole.success)
          if (read.ok) expect(read.value).toEqual(whole.data)
          else
            expect(read.issues.map(({ path }) => path)).toEqual(
              whole.error?.issues.slice(0, read.issues.length).map(({ path }) => path.join('.')),
            )
        }
      }),
    )
  })

  test('stops reading a list at its hundredth mistake, every time', () => {
    let looks = 0
    const entry = z.string().refine(() => ((looks += 1), false), 'is wrong')
    const lists = z.strictObject({ lists: z.array(z.array(entry)) })
    const given = { lists: Array.from({ length: 500 }, () => Array.from({ length: 300 }, () => 'a')) }
    for (let times = 1; times <= 5; times += 1) {
      const read = readAs(lists, given)
      expect(read.ok ? [] : read.issues).toHaveLength(100)
      expect(looks).toBe(100 * times)
    }
  })

  test('reports more mistakes than the stack could hold', () => {
    const lists = z.array(z.array(z.string().min(1, 'is empty')))
    const given = Array.from({ length: 4_000 }, () => Array.from({ length: 90 }, () => ''))
    expect(readAs(lists, given)).toMatchObject({ ok: false, issues: { length: 100 } })
  })

  test('checks nothing else about a text that is too long', () => {
    const text = z
      .string()
      .max(3)
      .refine(() => {
        throw new Error('was asked')
      })
      .optional()
    expect(readAs(z.array(text), ['long'])).toEqual({
      ok: false,
      issues: [{ path: '0', message: 'must have at most 3 characters' }],
    })
  })

  test('shortens long names, paths and messages', () => {
    const name = 'k'.repeat(3_000)
    const schema = z.record(
      z.string(),
      z.custom(() => false, { message: 'm'.repeat(3_000) }),
    )
    expect(readAs(schema, { [name]: 1 })).toEqual({
      ok: false,
      issues: [{ path: `${'k'.repeat(100)}…`, message: `${'m'.repeat(1_000)}…` }],
    })
    const unknown = Object.fromEntries(Array.from({ length: 5_000 }, (_, n) => [`k${n}`, 0]))
    expect(readAs(z.strictObject({}), unknown)).toMatchObject({ ok: false, issues: { length: 100 } })
  })
})
