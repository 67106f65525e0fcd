import { type Known, opaOracle } from '../test/oracles/opa.ts'
import { facts } from '../src/tools/index.ts'
import { compilePolicy, decide } from '../src/policy/decide.ts'
import { analyzePlan } from '../src/policy/plan.ts'
import type { StoredRule } from '../src/policy/rule.ts'
import { compare, count, machine, median, say } from './support/report.ts'
import { callsOf, planOf, rulesOf } from './support/rule-shapes.ts'

const rules = 1000
const rounds = 5

/**
 * Compares the speed of our rule evaluation with the speed of OPA, with the same rules. Also measures the analysis of a
 * whole plan.
 */
export async function run(): Promise<void> {
  say(`rules: ${count(rules)} rules, one call after another, medians of ${rounds} rounds; ${machine()}`)
  for (const shape of ['spread', 'star'] as const) await decisions(shape)
  plans()
}

async function decisions(shape: 'spread' | 'star'): Promise<void> {
  const saved = rulesOf(shape, rules)
  const calls = callsOf(shape, 2000)
  const policy = compilePolicy(facts, { rules: saved, labelRules: [], approvalsEnabled: true })
  const opa = (await opaOracle(known(saved)))({ rules: saved, approvalsEnabled: true, calls })
  const asked = calls.slice(0, 20)
  const wrong = asked.filter((call) => decide(policy, call).verdict !== opa(call).effect).length
  const [ours, theirs]: [number[], number[]] = [[], []]
  const times: number[] = []
  for (let round = 0; round < rounds; round += 1) {
    ours.push(rate(calls, (call) => times.push(milliseconds(() => decide(policy, call)))))
    theirs.push(rate(asked, opa))
  }
  const what = shape === 'star' ? 'all on one tool, with `param: "*"`' : 'spread over the tools'
  compare(`  ${what}`, median(ours), median(theirs), 'calls/s', 20)
  const p99 = times.sort((a, b) => a - b)[Math.floor(times.length * 0.99)] as number
  say(`    p99 ${p99.toFixed(3)} ms (goal 2 ms: ${p99 < 2 ? 'holds' : 'MISSED'}); disagreements: ${wrong}`)
}

/**
 * Returns facts about texts, such as the mail addresses in a text. OPA gets these facts as input. Our own side must
 * compute them itself.
 */
function known(saved: readonly StoredRule[]): Known {
  const written = saved.flatMap(({ params = [] }) =>
    params.flatMap(({ operator, value }) => (operator === 'domain_in' ? value : [])),
  )
  return {
    domains: Object.fromEntries(written.map((domain) => [domain, domain])),
    readingOf: (text) => ({
      id: /\/d\/(\w+)/.exec(text)?.[1] ?? text,
      addresses: [...text.matchAll(/[a-z0-9.]+@[a-z0-9.]+/g)].map(([address]) => address),
      hosts: text.includes('@')
        ? [...text.matchAll(/@([a-z0-9.]+)/g)].map(([, host]) => host as string)
        : [/^https:\/\/([a-z.]+)/.exec(text)?.[1] ?? null],
    }),
  }
}

function plans(): void {
  const policy = compilePolicy(facts, {
    rules: rulesOf('star', rules),
    labelRules: [],
    approvalsEnabled: true,
  })
  const plan = planOf(100)
  const times = Array.from({ length: 60 }, () => milliseconds(() => analyzePlan(policy, plan)))
  const usual = median(times.slice(10))
  const verdict = usual < 20 ? 'holds' : 'MISSED'
  say(
    `  a plan of 100 steps, all rules with \`param: "*"\` on its tool: ${usual.toFixed(1)} ms (goal 20 ms: ${verdict})`,
  )
  say(`    the first one in a new process: ${(times[0] as number).toFixed(0)} ms`)
}

function rate<T>(inputs: readonly T[], act: (input: T) => unknown): number {
  const taken = milliseconds(() => inputs.forEach((input) => act(input)))
  return (inputs.length / taken) * 1000
}

function milliseconds(act: () => unknown): number {
  const start = performance.now()
  act()
  return performance.now() - start
}
