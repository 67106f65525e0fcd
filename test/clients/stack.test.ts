import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { noted } from '../adapters/run-mcp.ts'
import { until } from '../stack/until.ts'
import type { Approval } from '../support/client-types.ts'
import type { AgentClient, Place } from './client.ts'
import { clients } from './clients.ts'
import { ensureClients } from './install.ts'
import { gatewayLog, installGateway, readable, through } from './product-gateway.ts'
import { installHook } from './product-hook.ts'
import { startClient } from './run-client.ts'
import type { Calls, Turn } from './script.ts'
import { agentWorld, release, type AgentWorld } from './world.ts'

/* A whole stack that is killed while the real clients wait for an approver. Also tests hook and gateway together. */

let world: AgentWorld
beforeAll(async () => {
  await ensureClients()
  world = await agentWorld()
}, 600_000)
afterAll(() => world.close())

const approvalsOf = async (text: string): Promise<Approval[]> => {
  const { data } = await world.admin.good<{ data: Approval[] }>('GET', '/approvals?kind=agent_call&limit=200')
  return data.filter(({ params }) => JSON.stringify(params).includes(text))
}
const claude = clients[0]?.[1] as AgentClient

/** Number of tool calls that the server behind the gateway has seen. */
const callsThrough = (place: Place): number =>
  noted(gatewayLog(place)).filter(({ method }) => method === 'tools/call').length
const linesOf = ({ work }: Place): number => readable(join(work, 'RAN')).split('\n').length - 1

interface Way {
  readonly client: AgentClient
  readonly install: typeof installHook | typeof installGateway
  readonly calls: (text: string) => Calls
  /** How often the call has run. */
  readonly ran: (place: Place) => number
}
const ways: readonly Way[] = [
  ...clients.map(([, client]) => ({
    ...{ client, install: installHook, ran: linesOf },
    calls: (text: string) => [client.shell(`echo ${text} >> RAN`)],
  })),
  {
    ...{ client: claude, install: installGateway, ran: callsThrough },
    calls: (say) => [through(claude, 'odd__echo', { say })],
  },
]

test('killed while clients wait, by the hook and by the gateway: the same calls can be approved afterwards, and each runs once', async () => {
  const waiting = await Promise.all(
    ways.map(async ({ client, install, calls, ran }) => {
      const text = `${release.word}-${randomUUID()}`
      const started = await startClient(client, {
        // An approval is valid for one call: the second call is held again.
        script: [calls(text), calls(text)],
        setup: (place) => install(client, place, { url: world.url, key: world.key, wait: 75 }),
      })
      const { id } = await world.held(text)
      return { id, text, started, ran: () => ran(started.place) }
    }),
  )
  await world.crash()
  expect(waiting.map(({ ran }) => ran())).toEqual(ways.map(() => 0))
  await Promise.all(waiting.map(({ id }) => world.approve(id)))
  for (const { id, text, started, ran } of waiting) {
    await until('the second is held anew', async () => {
      const others = (await approvalsOf(text)).filter((each) => each.id !== id)
      return others.some(({ status }) => status === 'pending')
    })
    expect(ran()).toBe(1)
    started.signal('SIGTERM')
    await started.ended
  }
})

test('killed after the client has given up: the identical call passes once after its approval', async () => {
  const text = `${release.word}-${randomUUID()}`
  const calls = [claude.shell(`echo ${text} >> RAN`)]
  const crashed: Turn = async () => {
    const { id } = await world.held(text)
    await world.crash()
    await world.approve(id)
    return calls
  }
  const started = await startClient(claude, {
    script: [calls, crashed, calls],
    setup: (place) => installHook(claude, place, { url: world.url, key: world.key, wait: 1 }),
  })
  const { exit, files, results } = await started.ended
  expect({ exit, files }).toEqual({ exit: 0, files: { RAN: `${text}\n` } })
  const told = results.map((result) => result.text)
  expect(told[0]).toContain('is still pending')
  expect(told[1]).not.toContain('countersign')
  expect(told[2]).toContain('is still pending')
})

test.each(clients.filter(([name]) => name === 'claude' || name === 'codex'))(
  '%s: a call that hook and gateway both see needs one approval by one person, and runs once',
  async (_name, client) => {
    const say = `${release.word}-${randomUUID()}`
    const service = { url: world.url, key: world.key, wait: 60 }
    let times = 0
    const started = await startClient(client, {
      script: [[through(client, 'odd__echo', { say })]],
      setup: (place) => {
        installHook(client, place, service)
        installGateway(client, place, service)
      },
      afterwards: async (place) => {
        times = callsThrough(place)
      },
    })
    const { id } = await world.held(say)
    expect(callsThrough(started.place)).toBe(0)
    await world.approve(id)
    const { exit, results } = await started.ended
    expect(exit).toBe(0)
    expect(results).toEqual([expect.objectContaining({ text: expect.stringContaining(say) })])
    expect(times).toBe(1)
    const approvals = await approvalsOf(say)
    expect(approvals).toMatchObject([{ id, votes: [{}] }])
  },
)
