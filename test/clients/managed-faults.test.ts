import { mkdirSync, writeFileSync } from 'node:fs'
import type { Socket } from 'node:net'
import { dirname, join } from 'node:path'
import { test as jestTest, afterAll, describe, expect } from '@jest/globals'
import { allowed, reply, scriptedService, type ScriptedService } from '../adapters/scripted-service.ts'
import type { AgentClient, Place } from './client.ts'
import { clients } from './clients.ts'
import { ensureClients } from './install.ts'
import { canMount, keyOf, machineOf, onMachine } from './machine.ts'
import { installHook } from './product-hook.ts'
import { runClient, type ClientRun } from './run-client.ts'
import type { Turn } from './script.ts'
import { sideBySide } from './side-by-side.ts'

/*
 * A managed Claude Code and a managed Copilot CLI start the hook without a shell. If the hook fails, only the client
 * itself can turn the failure into a denial. hook-faults.test.ts has the same for installations of users.
 */

const organization = 'org_00000000000000000000000001'
const faults: Readonly<Record<string, (socket: Socket) => void>> = {
  CLOSED: (socket) => socket.end(),
  HANGS: () => {},
  BROKEN: (socket) => reply(socket, 500, { error: { code: 'internal' } }),
  PAGE: (socket) => reply(socket, 200, '<html>sign in to this network</html>'),
  CUT: (socket) => reply(socket, 200, JSON.stringify(allowed).slice(0, -1)),
  EMPTY: (socket) => reply(socket, 200, ''),
}

let service: ScriptedService
const runs = sideBySide(4, async () => {
  await ensureClients()
  service = await scriptedService(({ path, body }, socket) => {
    if (path === '/api/v1/me') return reply(socket, 200, { organization_id: organization })
    const fault = Object.keys(faults).find((name) => body.includes(`> ${name}`))
    if (path !== '/api/v1/authorize' || fault === undefined) reply(socket, 200, { ...allowed, ok: true })
    else faults[fault]?.(socket)
  })
})
afterAll(() => service.close())
const test = canMount() ? runs : (name: string) => jestTest.skip(name, () => {})

const runManaged = (
  client: AgentClient,
  script: Turn[],
  setup: (place: Place) => void = () => {},
): Promise<ClientRun> =>
  runClient(client, {
    script,
    setup: (place) => {
      const key = { url: service.url, key: 'csk_test', organization }
      installHook(client, place, key, ['--managed', '--root', machineOf(place)])
      mkdirSync(dirname(keyOf(place)), { recursive: true })
      writeFileSync(keyOf(place), key.key, { mode: 0o600 })
      setup(place)
    },
    command: onMachine,
  })
const calls = (client: AgentClient, names: readonly string[]): Turn[] =>
  names.map((name) => [client.shell(`echo ran > ${name}`)])

/** Ends itself by the signal that the call names, in place of an answer. */
const signalled = `import os, re, signal, sys
os.kill(os.getpid(), getattr(signal, 'SIG' + re.search('> ([A-Z]+)', sys.stdin.read()).group(1)))
`

describe.each(clients.filter(([name]) => name === 'claude' || name === 'copilot'))(
  '%s, managed',
  (_name, client) => {
    test('a service that hangs or answers nonsense blocks every call, and an allowed one runs', async () => {
      const { files } = await runManaged(client, calls(client, [...Object.keys(faults), 'FINE']))
      expect(Object.keys(files)).toEqual(['FINE'])
    })

    test('a hook that a signal ends blocks the call', async () => {
      const run = await runManaged(client, calls(client, ['KILL', 'TERM', 'SEGV', 'HUP']), (place) =>
        writeFileSync(join(machineOf(place), 'opt/countersign/service_hook.py'), signalled),
      )
      expect(Object.keys(run.files)).toEqual([])
      expect(run.results).toHaveLength(4)
    })

    // Copilot CLI's text is sent under two names, so its limit is half as large.
    test('large arguments pass the hook, and 5 MB are blocked', async () => {
      const script: Turn[] = []
      const { files } = await runManaged(client, script, ({ work }) => {
        script.push([
          client.write(join(work, 'BIG'), 'x'.repeat(client.name === 'copilot' ? 1_500_000 : 3_000_000)),
        ])
        script.push([client.write(join(work, 'HUGE'), 'x'.repeat(5_000_000))])
      })
      expect(Object.keys(files)).toEqual(['BIG'])
    })
  },
)
