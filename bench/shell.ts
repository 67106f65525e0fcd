import { classifyCommand } from '../src/shell/classify.ts'
import { hostile } from '../test/shell/hostile.ts'
import { rowsOf } from '../test/shell/rows.ts'
import { count, machine, median, say } from './support/report.ts'

const rounds = 9

/** Measures how many ordinary shell commands are read per second, and how long hostile commands take. */
export async function run(): Promise<void> {
  say(`shell: one command after another in one thread; ${machine()}`)
  const ordinary = [...rowsOf('dev'), ...rowsOf('corpus')]
    .map(({ command }) => command)
    .filter((text) => text.length < 200)
  const rates: number[] = []
  for (let round = 0; round < rounds; round += 1) {
    const start = performance.now()
    for (let again = 0; again < 5; again += 1) for (const text of ordinary) classifyCommand(text)
    rates.push((ordinary.length * 5) / ((performance.now() - start) / 1000))
  }
  const rate = median(rates)
  say(
    `  ${count(ordinary.length)} ordinary commands: ${count(rate)}/s (goal 5,000/s: ${rate >= 5_000 ? 'holds' : 'MISSED'})`,
  )
  const cold = Object.entries(hostile)
  for (const [, text] of cold) classifyCommand(text)
  const times = cold.flatMap(([name, text]) =>
    Array.from({ length: 25 }, () => {
      const [start, cpu] = [performance.now(), process.cpuUsage()]
      classifyCommand(text)
      const { user, system } = process.cpuUsage(cpu)
      return { name, wall: performance.now() - start, cpu: (user + system) / 1000 }
    }),
  )
  const p99 = (of: 'wall' | 'cpu'): number =>
    times.map((each) => each[of]).sort((a, b) => a - b)[Math.floor(times.length * 0.99)] as number
  say(
    `  ${cold.length} hostile texts, 25 times each: p99 ${p99('wall').toFixed(2)} ms by the clock (goal 5 ms: ${p99('wall') < 5 ? 'holds' : 'MISSED'}), ${p99('cpu').toFixed(2)} ms of processor time with the collector’s own threads`,
  )
  const each = cold.map(([name]) => ({
    name,
    cpu: median(times.filter((time) => time.name === name).map(({ cpu }) => cpu)),
  }))
  for (const { name, cpu } of each.sort((a, b) => b.cpu - a.cpu).slice(0, 5))
    say(`    ${cpu.toFixed(2)} ms: ${name}`)
}
