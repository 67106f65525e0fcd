import { describe, expect, test } from '@jest/globals'
import { references } from '../../../src/policy/template-syntax.ts'
import { resolve, TemplateError, type Scope } from '../../../src/policy/templates.ts'
import type { Json } from '../../../src/policy/types.ts'
import { builtinsAt } from '../template-scope.ts'

const scope: Scope = {
  inputs: {
    amount: 12.5,
    price: '1,234.50',
    name: 'Ana',
    rows: [
      { who: 'Ana', n: '3', team: 'a' },
      { who: 'Bo', n: '10', team: 'b' },
      { who: 'Cy', n: '3', team: 'a' },
    ],
    csv: 'who,n\nAna,3\n"Bo, Jr",10\n',
    'a-b': 7,
  },
  step: (id) => ({ read: { text: ' hi ', items: [1, 2, 3] }, skipped: null })[id],
  builtins: builtinsAt('2026-03-27T08:30:00.000Z', 'Europe/Berlin'),
}

const valueOf = (expression: string): Json => resolve(`{{ ${expression} }}`, scope).value

describe('an expression gives', () => {
  test.each<[string, Json]>([
    // Operators.
    ['input.amount * 2 - 1', 24],
    ['2 + 3 * 4 % 5', 4],
    ['-input.amount - -2', -10.5],
    ['7 / 2', 3.5],
    ["'a' + 'b' + text(1)", 'ab1'],
    ['1 < 2 && !(2 <= 1) || false', true],
    ["'2026-01-02' < '2026-01-10'", true],
    ["input.name in ['Ana', 'Bo']", true],
    ['{x: [1]} == {x: [1]}', true],
    ['1 == text(1)', false],
    ['input.amount > 10 ? "much" : "little"', 'much'],
    ['input.gone ?? "none"', 'none'],
    ['read.output.items[9] ?? 0', 0],
    ['skipped.output.x ?? "skipped"', 'skipped'],
    ['false ?? true', false],
    ['input.a-b', 7],
    ['input["a-b"] + 1', 8],
    ['read.output.items[1 + 1]', 3],
    ['input.rows[0]["who"]', 'Ana'],
    [String.raw`'it\'s \"ok\"\n\u00e9 \\'`, 'it\'s "ok"\né \\'],
    ['"}}" + "{{"', '}}{{'],
    ['{a: {b: 1}}', { a: { b: 1 } }],
    // Lists and objects.
    ['size(input.rows)', 3],
    ['input.rows.filter(row, number(row.n) > 5).map(row, row.who)', ['Bo']],
    ['map(input.rows, r, {who: r.who})[2]', { who: 'Cy' }],
    ['input.rows.map(a, input.rows.filter(b, b.team == a.team).size())', [2, 1, 2]],
    ["sort(input.rows, r, number(r.n), 'desc').first().who", 'Bo'],
    ['sort([3, 1, 2])', [1, 2, 3]],
    ['unique([1, "1", 1, {a: 1}, {a: 1}])', [1, '1', { a: 1 }]],
    [
      'group(input.rows, r, r.team).map(g, [g.key, g.items.size()])',
      [
        ['a', 2],
        ['b', 1],
      ],
    ],
    ['flat([[1], 2, [3, [4]]])', [1, 2, 3, [4]]],
    ['[first([1, 2]), last([1, 2]), first([])]', [1, 2, null]],
    ['slice([1, 2, 3], 1)', [2, 3]],
    ["slice('abc', -2, -1)", 'b'],
    ['any(input.rows, r, r.n == "10") && !all(input.rows, r, r.n == "10")', true],
    ['keys({b: 1, a: 2})', ['b', 'a']],
    ['merge({a: 1, b: 1}, {b: 2})', { a: 1, b: 2 }],
    ["pick(input.rows[0], ['who', 'gone'])", { who: 'Ana' }],
    ['sum(input.rows, r, number(r.n))', 16],
    ['[min(3, 1, 2), max([1, 5]), max(input.rows, r, number(r.n))]', [1, 5, 10]],
    // Texts and numbers.
    ['trim(read.output.text).upper()', 'HI'],
    ["replace('a-b-c', '-', '+')", 'a+b+c'],
    ["split('a,b', ',')", ['a', 'b']],
    ["join([1, 'b', null, {c: 1}], '; ')", '1; b; ; {"c":1}'],
    ["contains('abc', 'b') && contains([1], 1) && starts('abc', 'a') && ends('abc', 'c')", true],
    ["matches('order 47', '[0-9]+$')", true],
    [String.raw`extract('order 4711 of 8', '(\\d+)')`, '4711'],
    ["extract('none', '[0-9]+')", null],
    ["pad(text(7), 3, '0')", '007'],
    ["truncate('a long text', 6)", 'a lon…'],
    ['number(input.price) + 1', 1235.5],
    ["number('1.234,5', ',')", 1234.5],
    ['[round(1.005, 2), round(-2.5), floor(1.9), ceil(1.1), abs(-1)]', [1.01, -3, 1, 2, 1]],
    // Dates.
    ['add(today, days(3))', '2026-03-30'],
    ['add(today, business_days(1))', '2026-03-30'],
    ['subtract("2026-03-31", months(1))', '2026-02-28'],
    ['add(now, hours(2))', '2026-03-27T11:30:00+01:00'],
    // The clocks are set forward on 29 March.
    ["add(now, days(3), 'Europe/Berlin')", '2026-03-30T09:30:00+02:00'],
    ["difference('2026-12-24', today, 'days')", 272],
    ["difference('2026-03-30', today, 'business_days')", 1],
    ["difference(today, '2026-03-30', 'business_days')", -1],
    ["start_of(today, 'week')", '2026-03-23'],
    ["end_of(today, 'month')", '2026-03-31'],
    ['[weekday(today), week(today)]', [5, 13]],
    ["date('31.12.2026', 'dd.MM.yyyy')", '2026-12-31'],
    ["date('31.12.2026 08:00', 'dd.MM.yyyy HH:mm', 'Europe/Berlin')", '2026-12-31T08:00:00+01:00'],
    ["format(now, 'd MMMM yyyy, HH:mm', 'Asia/Tokyo')", '27 March 2026, 17:30'],
    ["format(today, 'd. MMMM', 'utc', 'de')", '27. März'],
    ["in_zone(now, 'America/New_York')", '2026-03-27T04:30:00-04:00'],
    // Formats.
    ['parse_json(\'{"a": [1]}\').a', [1]],
    ['json({a: [1]})', '{"a":[1]}'],
    ['parse_csv(input.csv).map(r, r.who)', ['Ana', 'Bo, Jr']],
    ["to_csv([{a: 1, b: 'x,\"y'}, {c: null}])", 'a,b,c\r\n1,"x,""y",\r\n,,\r\n'],
    ["markdown_table([{a: 'x|y', b: 2}])", '| a | b |\n| --- | --- |\n| x\\|y | 2 |'],
  ])('%s: %j', (expression, expected) => {
    expect(valueOf(expression)).toEqual(expected)
  })

  test('text where it stands in a longer text', () => {
    expect(resolve('{{ input.amount * 2 }} for {{input.name}}, {{ [1] }}', scope).value).toBe(
      '25 for Ana, [1]',
    )
  })
})

describe('an expression is an error that says what to change', () => {
  test.each<[string, string]>([
    ["1 + 'a'", 'write `text(…)` or `number(…)`'],
    ['input.price * 2', '`*` needs a number, not text: write `number(…)`'],
    ["1 < 'a'", 'write `number(…)`'],
    ['1 / 0', 'division by 0'],
    ["number('12 apples')", 'text that is a number'],
    ['read.output.gone + 1', 'there is no `gone` in the value'],
    ['first([]).name', 'there is no `name` in the value'],
    ['input.amount ? 1 : 2', 'a condition must be true or false'],
    ["matches('a', '(?=b)')", 'RE2'],
    ["date('31.12.2026')", 'read others with `date(text, pattern)`'],
    ['add(today, 3)', '`add` needs an object'],
    ["in_zone(now, 'Mars')", 'time zone such as'],
    ["parse_json('{')", 'text that is JSON'],
    ['min([])', 'a list that is not empty'],
    ["parse_json('1e999')", 'gives no number'],
    // Today and the zone of the machine are never read.
    ["date('09:00')", 'needs a date such as'],
    ["date('09:00', 'HH:mm')", 'cannot read the text with its pattern'],
    ["in_zone(now, 'local')", 'time zone such as'],
    ["date('1'.replace('1', '111111'), 'ddHHddHH')", 'cannot read the text'],
    ['size(1)', '`size` needs an object, not a number'],
  ])('%s: %s', (expression, message) => {
    expect(() => valueOf(expression)).toThrow(TemplateError)
    expect(() => valueOf(expression)).toThrow(message)
  })

  test.each<[string, string]>([
    ['nope(1)', 'there is no function `nope`'],
    ['uper(input.name)', 'do you mean `upper`'],
    ['filter(input.rows)', '`filter` is written `filter(list, row, condition)`'],
    ['1 +', 'expected a value'],
    ['(1', 'expected `)`'],
    ['size(input.rows', 'expected `,`, or `)`'],
    ['input.name = 1', 'in place of `=` write `==`'],
    ['true and false', 'in place of `and` write `&&`'],
    ['input.rows.map(r => r.n)', 'in place of `=>` write `map(rows, row, …)`'],
    ['input.rows.filter(row.n > 1)', 'a variable is named first, as in `filter(rows, row, …)`'],
    ['r-1 + 2', 'there is no'],
    ['{a: 1, a: 2}', 'written twice'],
    ["'x", 'a text in quotes has no end'],
    [`${'('.repeat(60)}1${')'.repeat(60)}`, 'nested'],
    [`1${' + 1'.repeat(600)}`, 'more than 500 operators'],
    [`'a'${'.trim()'.repeat(600)}`, 'more than 500 operators'],
    [`1 + '${'a'.repeat(10_001)}'`, '10,000 characters'],
    ['status.x', 'the output of a step is `status.output`'],
  ])('when it is read: %#', (expression, message) => {
    const [reference] = references(`{{ ${expression} }}`)
    const why = reference?.kind === 'unknown' ? reference.why : 'there is no'
    expect(why).toContain(message)
  })
})

test('only own fields are read', () => {
  for (const name of ['constructor', '__proto__', 'length', 'toString'])
    expect(valueOf(`input.rows['${name}'] ?? 'none'`)).toBe('none')
  expect(JSON.stringify(valueOf('merge({a: 1}, parse_json(\'{"__proto__": 1}\'))'))).toBe(
    '{"a":1,"__proto__":1}',
  )
})

test.each([
  ['{{input.a-b}}', 7],
  ['{{read.output.items[0]}}', 1],
  ['{{"a + b"}}', 'a + b'],
])('what was a reference before stays one: %s', (text, expected) => {
  expect(resolve(text, scope).value).toEqual(expected)
})

test('the sources of labels are all references in the text, also those that decide and those that are not taken', () => {
  const { sources } = resolve(
    "{{ true ? 'x' : a.output.b + steps['b'].output.rows.map(r, c.output) }}",
    scope,
  )
  expect(sources.get('')).toEqual(['a', 'b', 'c'])
})

const long = 'a'.repeat(250_000)
test.each([
  ['a product of lists', 'rows.map(a, rows.map(b, rows.filter(c, c == b)))'],
  ['a long join', `rows.map(a, join(rows, '${'x'.repeat(1_000)}'))`],
  ['texts that grow', "replace(replace(replace(long, 'a', long), 'a', long), 'a', long)"],
  ['a regular expression', "rows.map(r, matches(long, '(a*)*(a*)*(a*)*b'))"],
  ['a long pad', "rows.map(r, pad('x', 8000000))"],
  ['nested JSON', 'rows.map(r, json(rows.map(s, json(rows))))'],
  ['values that double', `[1]${'.map(a, [a, a])'.repeat(40)}`],
  ['a table of many names', "parse_csv(join(rows.map(r, join(rows, ','))) + join(rows.map(r, text('\\n'))))"],
  ['a pattern of many repeats', "rows.map(r, matches(long, '(?i)((\\\\pL?\\\\pN?){20}){20}b'))"],
  ['many dates', 'rows.map(a, rows.map(b, add(today, business_days(9000))))'],
  ['many zones', "rows.map(a, rows.map(b, in_zone(now, 'Europe/Berlin')))"],
  ['comparisons of long texts', 'rows.map(a, rows.map(b, long < long + a))'],
])('%s ends within the budget', (_, expression) => {
  const rows = Array.from({ length: 2_000 }, (_, n) => `row ${n}`)
  const inputs = { rows, long }
  const text = `{{ ${expression.replaceAll(/\b(rows|long)\b/g, 'input.$1')} }}`
  expect(() => resolve(text, { ...scope, inputs })).toThrow(
    /too many steps|more than 8 MiB|more than 64 nested levels|a regular expression/,
  )
})
