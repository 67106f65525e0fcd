import { once } from 'node:events'
import { renameSync, symlinkSync, unlinkSync, writeFileSync } from 'node:fs'
import { createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { afterAll, describe, expect } from '@jest/globals'
import { python } from '../adapters/gateway-files.ts'
import { allowed, reply, scriptedService, type ScriptedService } from '../adapters/scripted-service.ts'
import type { AgentClient } from './client.ts'
import { clients } from './clients.ts'
import { ensureClients } from './install.ts'
import { sideBySide } from './side-by-side.ts'
import { installHook } from './product-hook.ts'
import { runClient, type ClientRun } from './run-client.ts'
import type { Turn } from './script.ts'

/*
 * The service is down, hangs or answers nonsense, with the real clients. A blocked call must leave no file.
 * test/adapters/hook-faults.test.ts has all faults; this test has one fault of each kind.
 */

const faults: Readonly<Record<string, { unreachable: boolean; answer: (socket: Socket) => void }>> = {
  CLOSED: { unreachable: true, answer: (socket) => socket.end() },
  HANGS: { unreachable: true, answer: () => {} },
  BROKEN: { unreachable: true, answer: (socket) => reply(socket, 500, { error: { code: 'internal' } }) },
  PAGE: {
    unreachable: false,
    answer: (socket) => reply(socket, 200, '<html>sign in to this network</html>'),
  },
  CUT: { unreachable: false, answer: (socket) => reply(socket, 200, JSON.stringify(allowed).slice(0, -1)) },
  PERMIT: { unreachable: false, answer: (socket) => reply(socket, 200, { ...allowed, decision: 'permit' }) },
  EMPTY: { unreachable: false, answer: (socket) => reply(socket, 200, '') },
  MAIL: { unreachable: false, answer: (socket) => socket.end('220 mail.example.com ESMTP\r\n') },
  REFUSED: {
    unreachable: false,
    answer: (socket) => reply(socket, 403, { error: { code: 'missing_scope' } }),
  },
}

let service: ScriptedService
const test = sideBySide(6, async () => {
  await ensureClients()
  service = await scriptedService(({ path, body }, socket) => {
    const fault = Object.keys(faults).find((name) => body.includes(`> ${name}`))
    // Only the answer to /authorize is faulty. Reports of ended sessions and finished calls do not matter here.
    if (path !== '/api/v1/authorize' || fault === undefined) reply(socket, 200, { ...allowed, ok: true })
    else faults[fault]?.answer(socket)
  })
})
afterAll(() => service.close())

/** Makes one call after another; each creates a file with its name. */
const runAll = (
  client: AgentClient,
  names: readonly string[],
  url: string,
  mode: 'closed' | 'open',
): Promise<ClientRun> =>
  runClient(client, {
    script: names.map((name) => [client.shell(`echo ran > ${name}`)]),
    setup: (place) => installHook(client, place, { url, key: 'csk_test', mode }),
  })

const made = ({ files }: ClientRun): string[] => Object.keys(files).sort()

async function nobodyThere(): Promise<string> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as { port: number }
  server.close()
  await once(server, 'close')
  return `http://127.0.0.1:${port}`
}

describe.each(clients)('%s', (_name, client) => {
  const names = Object.keys(faults)

  test('closed mode blocks every call, and says why', async () => {
    const run = await runAll(client, names, service.url, 'closed')
    expect(made(run)).toEqual([])
    expect(run.results).toHaveLength(names.length)
    for (const [index, name] of names.entries()) {
      const text = run.results[index]?.text ?? ''
      expect(text).toContain('countersign: ')
      expect(text.includes('unreachable')).toBe(faults[name]?.unreachable)
      expect(text).not.toContain('csk_test')
    }
  })

  test('open mode lets calls pass without an answer, and blocks after an odd answer', async () => {
    const run = await runAll(client, names, service.url, 'open')
    expect(made(run)).toEqual(names.filter((name) => faults[name]?.unreachable).sort())
    expect(run.results).toHaveLength(names.length)
  })

  test('if nothing listens, closed mode blocks', async () => {
    const run = await runAll(client, ['RAN'], await nobodyThere(), 'closed')
    expect(made(run)).toEqual([])
    expect(run.results[0]?.text).toContain('unreachable')
  })

  test('a hook that is missing, unreadable, or without its Python blocks', async () => {
    const script: Turn[] = []
    const run = await runClient(client, {
      script,
      setup: (place) => {
        const interpreter = join(place.root, 'python3')
        symlinkSync(python, interpreter)
        installHook(client, place, { url: service.url, key: 'csk_test', mode: 'open' }, [
          '--python',
          interpreter,
        ])
        const hook = join(place.home, '.countersign', 'service_hook.py')
        const call = (name: string) => [client.shell(`echo ran > ${name}`)]
        const broken =
          (name: string, change: () => void): Turn =>
          () => {
            change()
            return call(name)
          }
        script.push(
          call('FINE'),
          broken('GONE', () => renameSync(hook, `${hook}.kept`)),
          broken('UNREADABLE', () => writeFileSync(hook, 'def main(:')),
          broken('LOST', () => {
            renameSync(`${hook}.kept`, hook)
            unlinkSync(interpreter)
          }),
        )
      },
    })
    expect(run.exit).toBe(0)
    expect(made(run)).toEqual(['FINE'])
    expect(run.results).toHaveLength(4)
  })

  test('if nothing listens, open mode lets calls pass', async () => {
    expect(made(await runAll(client, ['RAN'], await nobodyThere(), 'open'))).toEqual(['RAN'])
  })
})
