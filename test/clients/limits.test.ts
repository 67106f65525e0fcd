import { afterAll, describe, expect } from '@jest/globals'
import { allowed, held, reply, scriptedService, type ScriptedService } from '../adapters/scripted-service.ts'
import { until } from '../stack/until.ts'
import { clients } from './clients.ts'
import { ensureClients } from './install.ts'
import { editHooks, endsKept, installHook } from './product-hook.ts'
import { runClient } from './run-client.ts'
import { sideBySide } from './side-by-side.ts'

/* The real clients' own timeouts: the hook answers before the client's timeout, whatever the service does. */

const services: ScriptedService[] = []
const test = sideBySide(6, async () => {
  await ensureClients()
})
afterAll(() => Promise.all(services.map((service) => service.close())))

async function serve(script: ScriptedService['script']): Promise<ScriptedService> {
  const service = await scriptedService(script)
  services.push(service)
  return service
}

describe.each(clients)('%s', (_name, client) => {
  test('a hanging service does not prevent its end, and still gets the report of the end', async () => {
    let well = false
    const taken: unknown[] = []
    const service = await serve(({ path, body }, socket) => {
      if (path !== '/api/v1/authorize/sessions/end') return reply(socket, 200, { ...allowed, ok: true })
      if (!well) return
      taken.push((JSON.parse(body) as { session_id: string }).session_id)
      reply(socket, 200, { ok: true })
    })
    const run = await runClient(client, {
      script: [[client.shell('echo ran > RAN')]],
      setup: (place) => installHook(client, place, { url: service.url, key: 'csk_test' }),
      // The client has ended by now, and the service has answered nothing yet.
      afterwards: async (place) => {
        await until('the end is noted', () => endsKept(place).length === 1)
        well = true
        await until('the service has heard of it', () => endsKept(place).length === 0)
      },
    })
    expect(run).toMatchObject({ exit: 0, files: { RAN: 'ran\n' } })
    expect(taken).toEqual([client.sessionId(run.stdout)])
  })

  test('a call that is held for longer than it waits is blocked before its timeout', async () => {
    const service = await serve(({ path }, socket) => {
      if (path === '/api/v1/authorize') reply(socket, 200, held)
      else reply(socket, 200, { approval_id: 'apr_1', status: 'pending', ok: true })
    })
    const run = await runClient(client, {
      script: [[client.shell('echo ran > RAN')]],
      setup: (place) => {
        installHook(client, place, { url: service.url, key: 'csk_test', mode: 'open', wait: 600 })
        // As installed, but with a tenth of the time, both in the client's settings and in the hook's argument.
        editHooks(client, place, (text) => {
          const shorter = text.replaceAll(/("timeout(?:Sec)?": )90(000)?\b/g, '$19$2')
          expect(shorter).not.toBe(text)
          return shorter
            .replaceAll('--timeout 90', '--timeout 9')
            .replaceAll('"--timeout", "90"', '"--timeout", "9"')
        })
      },
    })
    expect(run).toMatchObject({ exit: 0, files: {} })
    expect(run.results[0]?.text).toContain('approval apr_1 is still pending')
  })
})
