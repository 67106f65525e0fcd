import { test as jestTest, afterAll, expect } from '@jest/globals'
import type { ScriptedService } from '../adapters/scripted-service.ts'
import { attackRuns } from './attacks/all.ts'
import type { AttackRun } from './attacks/attack.ts'
import { denyingService, tryAttacks } from './attacks/run.ts'
import { clients } from './clients.ts'
import { ensureClients } from './install.ts'
import { canMount } from './machine.ts'
import { sideBySide } from './side-by-side.ts'
import { byDepth } from '../support/depth.ts'

/*
 * Runs every row of docs/agents-reference.md with the real client, and checks whether a denied call runs. If the page
 * says that the call runs but the call is blocked now, the test fails too: the page must be corrected.
 *
 * `doctor` must never say `protected` on a machine where a denied call runs in one of these tests. Every run in which a
 * denied call runs therefore asks `doctor`. For each client, at least one run that holds asks `doctor` too.
 */

let service: ScriptedService
const test = sideBySide(3, async () => {
  await ensureClients()
  service = await denyingService()
})
afterAll(() => service.close())

/**
 * Managed installations can be tested only where the run can mount its own machine folders. test/adapters tests the
 * files themselves.
 */
const mounts = canMount()

/** Where such a run must be possible, a row that this machine cannot run fails in place of being skipped. */
const mustMount = process.env['TEST_MOUNTS'] === 'required'
jestTest('this machine can run the rows of managed installations, if `TEST_MOUNTS=required` says so', () => {
  expect(mounts || !mustMount).toBe(true)
})

const present = new Set<string>(clients.map(([name]) => name))
/** `npm test` tries every fifth run of a client that it has. */
const tried = attackRuns
  .filter(({ client }) => present.has(client))
  .filter((_, at) => at % byDepth(5, 1) === 0)
for (const run of tried) {
  const needsMachine = run.installation === 'managed' || run.before !== undefined
  const start = needsMachine && !mounts ? (name: string) => jestTest.skip(name, () => {}) : test
  const ids = run.attacks.map(({ id }) => id)
  const open = run.attacks.filter(({ expected }) => expected !== 'holds').map(({ id }) => id)

  start(ids.join(', '), async () => {
    const { ran, goesOn, verdict, told } = await tryAttacks(run, { url: service.url, key: 'csk_test' })
    const seen = { ran, goesOn, told: '' }
    const wanted = { ran: open, goesOn: run.blocksAll !== true, told: '' }
    // If the result differs, the message contains the client's own output.
    if (JSON.stringify(seen) !== JSON.stringify(wanted)) seen.told = told
    expect(seen).toEqual(wanted)
    expect(verdict).toBe(run.doctor ?? null)
  })
}

const isOpen = ({ attacks }: AttackRun): boolean => attacks.some(({ expected }) => expected !== 'holds')
const kindOf = ({ client, installation }: AttackRun): string => `${client} ${installation}`

jestTest('no run in which a denied call runs leaves out what `doctor` says of it', () => {
  const silent = attackRuns.filter((run) => isOpen(run) && run.doctor === undefined)
  expect(silent.flatMap(({ attacks }) => attacks.map(({ id }) => id))).toEqual([])
})

jestTest('`doctor` says `protected` of no client and installation with an open row', () => {
  const named = attackRuns.filter(({ doctor }) => doctor === 'protected').map(kindOf)
  const open = attackRuns.filter(isOpen).map(kindOf)
  expect(named.filter((kind) => open.includes(kind))).toEqual([])
})

jestTest('the same attack is blocked where an administrator has done what an open row says', () => {
  const holds = attackRuns
    .flatMap(({ attacks }) => attacks)
    .filter(({ expected }) => expected === 'holds')
    .map(({ id }) => id)
  const closing = attackRuns
    .flatMap(({ attacks }) => attacks)
    .flatMap(({ expected }) => (expected === 'holds' ? [] : (expected.closedBy ?? [])))
  expect(closing.filter((id) => !holds.includes(id))).toEqual([])
})

jestTest('ids are unique, and name the client and the installation', () => {
  const ids = attackRuns.flatMap(({ attacks }) => attacks.map(({ id }) => id))
  expect(ids).toEqual([...new Set(ids)])
  for (const { client, installation, attacks } of attackRuns) {
    for (const { id } of attacks) expect(id).toMatch(new RegExp(`^${client}-${installation}-[\\w-]+$`))
  }
})
