import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { loadavg } from 'node:os'
import { setTimeout as delay } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { github } from '../test/tools/services/github.ts'
import { withPostgres, type BenchPostgres } from './support/postgres.ts'
import { machine, median, say } from './support/report.ts'
import { withToolSides, type ToolSides } from './support/tool-sides.ts'

const rounds = 100
const largeCalls = 200
const largeBytes = 5_000_000
const goal = 12

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void

/** `npm run bench tools`: compares a governed call with the bare client, and measures memory with large outputs. */
export async function run(): Promise<void> {
  say(`tools: GitHub's stand-in in this process, fsync on; ${machine()}, load ${loadavg()[0]?.toFixed(1)}`)
  await withPostgres(async (postgres) => {
    const emulator = await github.start()
    try {
      await withToolSides(postgres, emulator.url, times)
    } finally {
      await emulator.close()
    }
  })
  // This measurement has its own database, because an installation is bootstrapped only once.
  await withPostgres(large)
}

async function times(sides: ToolSides): Promise<void> {
  const place = { owner: 'admin', repo: 'app', issue_number: 1 }
  await compare(
    'reads an issue',
    () => sides.governed('github_get_issue', { repo: github.place }),
    () => sides.bare.rest.issues.get(place),
  )
  await compare(
    'writes a comment',
    () => sides.governed('github_comment', { repo: github.place, body: 'hello' }),
    () => sides.bare.rest.issues.createComment({ ...place, body: 'hello' }),
  )
}

async function compare(
  what: string,
  prepare: () => Promise<() => Promise<void>>,
  bare: () => Promise<unknown>,
): Promise<void> {
  const taken: Record<'ours' | 'theirs', number[]> = { ours: [], theirs: [] }
  for (let round = -10; round < rounds; round += 1) {
    const sides = { ours: await prepare(), theirs: bare }
    for (const side of round % 2 === 0 ? (['ours', 'theirs'] as const) : (['theirs', 'ours'] as const)) {
      const started = performance.now()
      await sides[side]()
      // Negative rounds do not count, because new processes and connections are slower at first.
      if (round >= 0) taken[side].push(performance.now() - started)
    }
  }
  const [ours, theirs] = [median(taken.ours), median(taken.theirs)]
  const pairs = taken.ours.map((each, index) => each - (taken.theirs[index] ?? 0)).sort((a, b) => a - b)
  const quarter = (at: number) => pairs[Math.floor(pairs.length * at)]?.toFixed(1)
  const extra = median(pairs)
  say(
    `  ${what}: ${ours.toFixed(1)} against ${theirs.toFixed(1)} ms, ${(ours / theirs).toFixed(1)} x, ` +
      `+${extra.toFixed(1)} ms (quarters ${quarter(0.25)} and ${quarter(0.75)}; goal +${goal} ms: ${extra <= goal ? 'holds' : 'MISSED'})`,
  )
}

async function large(postgres: BenchPostgres): Promise<void> {
  const server = await startLargeIssue()
  try {
    await withToolSides(postgres, server.url, async (sides) => {
      const one = async () => {
        await (
          await sides.governed('github_get_issue', { repo: 'a/b', number: 1 })
        )()
      }
      for (let n = 0; n < 10; n += 1) await one()
      let peak = 0
      const held: number[] = []
      for (let n = 1; n <= largeCalls; n += 1) {
        await one()
        peak = Math.max(peak, process.memoryUsage.rss())
        if (n % (largeCalls / 4) === 0) held.push(await heldMebibytes())
      }
      const flat = (held.at(-1) ?? 0) - (held[0] ?? 0)
      say(
        `  ${largeCalls} calls of ${largeBytes / 1e6} MB one after another: ${held.map((each) => each.toFixed(0)).join(', ')} MiB ` +
          `in use after each quarter (goal: flat within 32 MiB: ${flat < 32 ? 'holds' : 'MISSED'}), peak ${mebibytes(peak)} MiB resident`,
      )
      peak = 0
      const watch = setInterval(() => (peak = Math.max(peak, process.memoryUsage.rss())), 20)
      for (let n = 0; n < largeCalls; n += 20) await Promise.all(Array.from({ length: 20 }, one))
      clearInterval(watch)
      const after = await heldMebibytes()
      say(
        `  the same, 20 at a time: ${after.toFixed(0)} MiB in use at the end, peak ${mebibytes(peak)} MiB resident`,
      )
    })
  } finally {
    await server.close()
  }
}

const mebibytes = (bytes: number): string => (bytes / 1024 ** 2).toFixed(0)

/** Returns the memory in MiB that is left after full garbage collections. */
async function heldMebibytes(): Promise<number> {
  for (let times = 0; times < 3; times += 1) {
    collect()
    await delay(50)
  }
  const { heapUsed, external } = process.memoryUsage()
  return (heapUsed + external) / 1024 ** 2
}

/**
 * Starts a server that replaces GitHub's API. It answers `/user` with an account, and every other request with an issue
 * that has a large text.
 */
async function startLargeIssue() {
  const issue = Buffer.from(
    JSON.stringify({ number: 1, title: 't', state: 'open', html_url: 'u', body: 'x'.repeat(largeBytes) }),
  )
  const server = createServer((request, response) => {
    response.writeHead(200, { 'content-type': 'application/json' })
    response.end(request.url === '/user' ? '{"login":"admin"}' : issue)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: () => new Promise((resolve) => void server.close(resolve)),
  }
}
