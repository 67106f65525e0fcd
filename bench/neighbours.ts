import { fork, spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { Api } from '../test/support/client.ts'
import { allScopes } from '../src/governance/access/scopes.ts'
import { stackHome, startStack } from '../test/support/start-stack.ts'
import { prepareHonest, type Honest, type Measured } from './support/neighbours-honest.ts'
import type { HostileOrder } from './support/neighbours-hostile.ts'
import { machine, median, say } from './support/report.ts'

const usualRounds = 3
/** The hostile tenant starts this many milliseconds before the measurement. */
const headStart = 3_000
const plans = ['free', 'pro'] as const

/**
 * `npm run bench neighbours [seconds] [acts]`: measures how much a hostile tenant (organization) disturbs an honest
 * tenant. The honest tenant has a fixed load, first alone, and then together with the hostile tenant. The hostile
 * tenant does everything that its rights allow. The benchmark uses two hostile tenants in sequence: the first is on
 * plan `free`, and the second is on plan `pro`. All their limits are as high as an owner may set them. The benchmark
 * runs one stack, as `npm start` does. In reality, the hostile client would run on another machine. So the client has a
 * low priority and leaves the processor to the stack. The benchmark fails:
 *
 * - if a request of the honest tenant fails,
 * - if the honest tenant's p99 is over 250 ms, and also over three times its p99 without the hostile tenant.
 *
 * With `acts`, such as `questions,runs`, the hostile tenant does only these acts, in one round on plan `free`. This
 * shows which act disturbs the honest tenant.
 */
export async function run(args: readonly string[]): Promise<void> {
  const seconds = Number(args[0] ?? 20)
  if (!(seconds > 0)) throw new Error(`\`${args[0]}\` is not a number of seconds`)
  const acts = args[1]?.split(',') ?? null
  const rounds = acts === null ? usualRounds : 1
  say(`neighbours: ${rounds} rounds of ${seconds} s alone and ${seconds} s beside; ${machine()}`)
  const home = stackHome()
  const stack = await startStack({ dataDir: home.dataDir, env: { LOG_LEVEL: 'error' } })
  try {
    const honest = await prepareHonest(home.dataDir)
    await honest.load(5_000)
    for (const plan of acts === null ? plans : (['free'] as const))
      await besidePlan({ ...(await newTenant(home.dataDir, plan)), acts }, honest, { plan, rounds, seconds })
  } finally {
    await stack.stop()
    await home.remove()
  }
}

async function besidePlan(
  order: HostileOrder,
  honest: Honest,
  { plan, rounds, seconds }: { readonly plan: string; readonly rounds: number; readonly seconds: number },
): Promise<void> {
  const [alone, beside]: [Measured[], Measured[]] = [[], []]
  for (let round = 0; round < rounds; round += 1) {
    alone.push(await honest.load(seconds * 1_000))
    const hostile = await startHostile(order)
    await new Promise((resolve) => setTimeout(resolve, headStart))
    beside.push(await honest.load(seconds * 1_000))
    say(`  ${plan}, round ${round + 1}: the neighbour sent ${JSON.stringify(await hostile.stop())}`)
    await runsEnded(order)
  }
  report(plan, alone, beside)
}

function report(plan: string, alone: readonly Measured[], beside: readonly Measured[]): void {
  const p99 = (all: readonly Measured[], kind: string): number =>
    median(all.map((each) => each.p99[kind] ?? 0))
  for (const kind of Object.keys(alone[0]?.p99 ?? {})) {
    const [own, other] = [p99(alone, kind), p99(beside, kind)]
    const goal = Math.max(3 * own, 250)
    if (other > goal) process.exitCode = 1
    say(
      `  ${plan}, ${kind}: p99 ${own.toFixed(1)} ms alone, ${other.toFixed(1)} ms beside (goal ${goal.toFixed(0)} ms: ${other <= goal ? 'holds' : 'MISSED'})`,
    )
  }
  const failures = [...alone, ...beside].flatMap((each) => each.failures)
  if (failures.length === 0) return
  process.exitCode = 1
  say(`  ${plan}: MISSED: ${failures.length} requests of the honest tenant failed, such as ${failures[0]}`)
}

/**
 * Waits until all runs of the hostile tenant have ended. Otherwise these runs would disturb the next round, in which
 * the honest tenant must be alone. Throws after two minutes.
 */
async function runsEnded({ baseUrl, key }: HostileOrder): Promise<void> {
  const deadline = Date.now() + 120_000
  for (const status of ['running', 'queued']) {
    for (;;) {
      const response = await fetch(`${baseUrl}/api/v1/runs?status=${status}`, {
        headers: { authorization: `Bearer ${key}` },
      })
      const { data } = (await response.json()) as { data?: unknown[] }
      if (response.ok && data?.length === 0) break
      if (Date.now() > deadline) throw new Error('the runs of the neighbour do not end')
      await new Promise((resolve) => setTimeout(resolve, 500))
    }
  }
}

/** Creates an organization on this plan, and an API key with all scopes for this organization. */
async function newTenant(dataDir: string, plan: string): Promise<Omit<HostileOrder, 'acts'>> {
  const owner = new Api(dataDir, 'owner')
  const { id } = await owner.good<{ id: string }>('POST', '/organizations', { name: `Neighbour ${plan}` })
  const { api_key: key } = await owner.good<{ api_key: string }>('POST', '/api-keys', {
    name: 'neighbour',
    organization_id: id,
    scopes: allScopes,
  })
  await setPlan(dataDir, id, plan)
  return { baseUrl: owner.bootstrap.base_url, organizationId: id, key }
}

async function setPlan(dataDir: string, organizationId: string, plan: string): Promise<void> {
  const program = fileURLToPath(new URL('../src/programs/set-plan.ts', import.meta.url))
  const child = spawn(process.execPath, [program, organizationId, plan], {
    env: { ...process.env, DATA_DIR: dataDir },
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  const [code] = (await once(child, 'close')) as [number]
  if (code !== 0) throw new Error(`set-plan ended with ${code}`)
}

async function startHostile(order: HostileOrder): Promise<{ stop(): Promise<Record<string, number>> }> {
  const child = fork(new URL('./support/neighbours-hostile.ts', import.meta.url))
  child.send(order)
  await once(child, 'message')
  return {
    async stop() {
      child.send('stop')
      const [counts] = (await once(child, 'message')) as [Record<string, number>]
      child.kill('SIGKILL')
      return counts
    },
  }
}
