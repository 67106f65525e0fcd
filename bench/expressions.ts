import { builtinsOf } from '../src/policy/builtins.ts'
import { resolve } from '../src/policy/templates.ts'
import type { Json, JsonObject } from '../src/policy/types.ts'
import { facts } from '../src/tools/index.ts'
import { compilePolicy } from '../src/policy/decide.ts'
import { analyzePlan } from '../src/policy/plan.ts'
import type { PlanStep } from '../src/policy/plan-types.ts'
import { machine, median, say } from './support/report.ts'
import { planOf, rulesOf } from './support/rule-shapes.ts'

const rounds = 2_000

const rows = Array.from({ length: 100 }, (_, index) => ({
  name: `Person ${index}`,
  email: `person${index}@larkspur.example`,
  amount: String((index * 37) % 500),
  due: `2026-${String((index % 12) + 1).padStart(2, '0')}-15`,
}))
const inputs: JsonObject = {
  rows,
  csv: ['name,amount,due', ...rows.map(({ name, amount, due }) => `${name},${amount},${due}`)].join('\n'),
  mail: 'Dear team,\n\nplease refund order 4711.\n\nTom'.repeat(20),
  day: '2026-11-30',
  score: 7,
}

/** What people compute in workflows: see docs/expressions.md. */
const usual = [
  '{{ input.score >= 7 && input.day != null }}',
  '{{ input.score * 1.19 + 3 }}',
  '{{ trim(lower(input.mail)) }}',
  '{{ matches(input.mail, "order [0-9]+") ? "order" : "other" }}',
  '{{ format(add(input.day, days(3)), "yyyy-MM-dd") }}',
  '{{ start_of(input.day, "week") }}',
  '{{ split(input.mail, "\n").filter(line, size(line) > 0).first() }}',
  '{{ input.rows.map(row, row.email) }}',
  '{{ join(input.rows.map(row, row.name + ": " + row.amount), ", ") }}',
  '{{ input.rows.filter(row, number(row.amount) > 400).map(row, {who: row.name, days: difference(input.day, row.due, "days")}) }}',
  '{{ input.rows.sort(row, number(row.amount)).slice(0, 5) }}',
  '{{ input.rows.group(row, row.due) }}',
  '{{ sum(input.rows.map(row, number(row.amount))) }}',
  '{{ parse_csv(input.csv).filter(row, row.due < input.day) }}',
  '{{ markdown_table(input.rows) }}',
  '{{ json(input.rows) }}',
]

const words = Array.from({ length: 100_000 }, (_, index) => `w${index % 977}`)
const large: JsonObject = {
  text: words.join(' ').slice(0, 1_000_000),
  json: JSON.stringify(words),
  words,
  numbers: Array.from({ length: 300 }, (_, index) => index),
  spaces: `${' '.repeat(500_000)}x`,
}

/** Each of them must end, with a value or with an error, after what the budget allows. */
const hostile: readonly string[] = [
  '{{ input.numbers.map(a, input.numbers.map(b, input.numbers.map(c, a * b * c))) }}',
  `{{ ${'upper('.repeat(45)}input.text${')'.repeat(45)} }}`,
  '{{ matches(input.text, "(w1+)+(w2+)+(w3*)*x$") }}',
  '{{ matches(input.text, "(?:[a-z0-9 ]{1,500}){1,2}!") }}',
  '{{ replace(input.text, "w", "wwwwwwwwwwwwwwwwwwww") }}',
  '{{ join(input.words, input.text) }}',
  '{{ input.numbers.map(a, split(input.text, " ")) }}',
  '{{ input.numbers.map(a, parse_json(input.json)) }}',
  '{{ input.numbers.map(a, input.words.sort(word, word)) }}',
  '{{ unique(input.words) }}',
  '{{ input.numbers.map(a, trim(input.spaces)) }}',
  '{{ input.numbers.map(a, input.text + input.text) }}',
  '{{ input.numbers.map(a, to_csv(input.words.map(word, {w: word}))) }}',
  '{{ input.numbers.map(a, json(input.words)) }}',
]

const builtins = builtinsOf({
  id: 'run_1',
  requesterEmail: 'ann@larkspur.example',
  workflowName: 'bench',
  startedAt: new Date(Date.UTC(2026, 10, 30)),
  timeZone: 'Europe/Berlin',
})

const evaluate = (expression: string, given: JsonObject): Json | Error => {
  try {
    return resolve(expression, { inputs: given, step: () => undefined, builtins }).value
  } catch (error) {
    return error as Error
  }
}

function milliseconds(act: () => unknown): number {
  const start = performance.now()
  act()
  return performance.now() - start
}

/** `npm run bench expressions`: usual expressions, hostile ones, and a plan with an expression in each step. */
export function run(): Promise<void> {
  say(`expressions: ${usual.length} usual ones over 100 rows, ${hostile.length} hostile ones; ${machine()}`)
  const slowest = usual.map((expression) => {
    const value = evaluate(expression, inputs)
    if (value instanceof Error) throw new Error(`${expression}: ${value.message}`)
    const times = Array.from({ length: rounds }, () => milliseconds(() => evaluate(expression, inputs)))
    const sorted = times.slice(rounds / 10).sort((a, b) => a - b)
    return { expression, p99: sorted[Math.floor(sorted.length * 0.99)] as number }
  })
  slowest.sort((a, b) => b.p99 - a.p99)
  const [worst] = slowest
  say(
    `  p99 of the slowest: ${worst?.p99.toFixed(3)} ms (goal 1 ms: ${(worst?.p99 ?? 0) < 1 ? 'holds' : 'MISSED'})`,
  )
  for (const { expression, p99 } of slowest.slice(0, 3))
    say(`    ${p99.toFixed(3)} ms ${expression.slice(0, 80)}`)
  const ends = hostile.map((expression) => ({
    expression,
    taken: milliseconds(() => evaluate(expression, large)),
  }))
  ends.sort((a, b) => b.taken - a.taken)
  say(`  hostile ones, the slowest until the budget or a value ends it: ${ends[0]?.taken.toFixed(0)} ms`)
  for (const { expression, taken } of ends.slice(0, 3))
    say(`    ${taken.toFixed(0)} ms ${expression.slice(0, 80)}`)
  plan()
  return Promise.resolve()
}

function plan(): void {
  const policy = compilePolicy(facts, {
    rules: rulesOf('star', 1_000),
    labelRules: [],
    approvalsEnabled: true,
  })
  const plain = planOf(100)
  const steps = plain.steps.map((step, index): PlanStep => {
    const text = `{{ upper(input.title) + ": " + join(input.rows.filter(row, number(row.amount) > ${index}).map(row, row.name), ", ") }}`
    return { ...step, params: { ...step.params, text } }
  })
  const given = { ...plain, steps, inputs: { ...inputs, title: 'Report' } }
  const times = Array.from({ length: 60 }, () => milliseconds(() => analyzePlan(policy, given)))
  const usualTime = median(times.slice(10))
  say(
    `  a plan of 100 steps with an expression each, 1,000 rules: ${usualTime.toFixed(1)} ms (goal 30 ms: ${usualTime < 30 ? 'holds' : 'MISSED'})`,
  )
}
