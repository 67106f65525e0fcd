import { test as jestTest, afterAll, expect } from '@jest/globals'
import type { ScriptedService } from '../adapters/scripted-service.ts'
import { attackRuns } from './attacks/all.ts'
import { denyingService, tryAttacks } from './attacks/run.ts'
import { ensureClients } from './install.ts'
import { canMount } from './machine.ts'
import { sideBySide } from './side-by-side.ts'

/*
 * Every row of docs/agents-reference.md with the real client: whether a denied call runs. A row that says that it runs
 * fails too if the call is blocked now, because the page would say too little.
 */

let service: ScriptedService
const test = sideBySide(3, async () => {
  await ensureClients()
  service = await denyingService()
})
afterAll(() => service.close())

/** Without its own folders of the machine nothing managed can be tested. test/adapters tests the files themselves. */
const mounts = canMount()

for (const run of attackRuns) {
  const needsMachine = run.installation === 'managed' || run.before !== undefined
  const here = needsMachine && !mounts ? (name: string) => jestTest.skip(name, () => {}) : test
  const ids = run.attacks.map(({ id }) => id)
  const open = run.attacks.filter(({ expected }) => expected !== 'holds').map(({ id }) => id)

  here(ids.join(', '), async () => {
    const { ran, goesOn, verdict, told } = await tryAttacks(run, { url: service.url, key: 'csk_test' })
    const seen = { ran, goesOn, told: '' }
    const wanted = { ran: open, goesOn: run.blocksAll !== true, told: '' }
    // On a difference, the message has the client's own words.
    if (JSON.stringify(seen) !== JSON.stringify(wanted)) seen.told = told
    expect(seen).toEqual(wanted)
    if (run.doctor !== undefined) expect(verdict).toMatch(run.doctor)
    if (open.length > 0) expect(verdict).not.toBe('protected')
  })
}

jestTest('ids are unique, and name the client and the installation', () => {
  const ids = attackRuns.flatMap(({ attacks }) => attacks.map(({ id }) => id))
  expect(ids).toEqual([...new Set(ids)])
  for (const { client, installation, attacks } of attackRuns) {
    for (const { id } of attacks) expect(id).toMatch(new RegExp(`^${client}-${installation}-[\\w-]+$`))
  }
})
