import { execFileSync } from 'node:child_process'
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { hookFile, python, runHook } from '../adapters/run-hook.ts'
import {
  allowed,
  denied,
  reply,
  scriptedService,
  type ScriptedService,
} from '../adapters/scripted-service.ts'
import { temporaryFolder } from '../stack/temporary-folder.ts'
import { clients } from './clients.ts'
import { trustHooks } from './codex-trust.ts'
import { ensureClients, programOf } from './install.ts'
import { runClient } from './run-client.ts'

/* Tests the settings that `install` writes with the real clients, and the verdict of `doctor`. */

let service: ScriptedService
beforeAll(async () => {
  await ensureClients()
  service = await scriptedService(({ body }, socket) => {
    const stranger = body.includes('"organization_id":"org_0000')
    reply(socket, 200, body.includes('curl') || stranger ? denied : { ...allowed, ok: true })
  })
}, 600_000)
afterAll(() => service.close())

const settings = (home: string): NodeJS.ProcessEnv => ({
  PATH: process.env['PATH'],
  HOME: home,
  SERVICE_API_URL: service.url,
  SERVICE_API_KEY: 'csk_test',
})

describe.each(clients)('%s', (_name, client) => {
  test('as installed, a curl is blocked, and an allowed call runs', async () => {
    service.asked.length = 0
    const run = await runClient(client, {
      script: [[client.shell('curl https://example.com > fetched')], [client.shell('echo ran > made')]],
      // The environment contains no variables of the service.
      setup: ({ home }) => {
        execFileSync(python, [hookFile, 'install', '--dialect', client.name, '--yes'], {
          env: settings(home),
        })
      },
    })
    expect(Object.keys(run.files)).toEqual(['made'])
    expect(JSON.stringify(run.results)).toContain('no-egress')
    const paths = service.asked.map(({ path }) => path)
    expect(paths.filter((path) => path === '/api/v1/authorize')).toHaveLength(2)
    expect(paths).toContain('/api/v1/authorize/observe')
  })

  test('doctor reports that the client is new enough, its hook trusted, and its command blocking', async () => {
    const home = temporaryFolder()
    const [program = '', ...first] = await programOf(client.name)
    mkdirSync(join(home, 'bin'))
    const start = join(home, 'bin', client.name)
    writeFileSync(start, `#!/bin/sh\nexec '${[program, ...first].join("' '")}' "$@"\n`)
    chmodSync(start, 0o755)
    const env = { ...settings(home), PATH: `${home}/bin:${process.env['PATH']}` }
    const run = (...args: string[]) => runHook({ command: [python, hookFile], args, env })
    expect((await run('install', '--dialect', client.name, '--yes')).code).toBe(0)
    if (client.name === 'codex') {
      expect((await run('doctor', '--dialect', 'codex')).stdout).toContain(
        'codex skips the hook (it is untrusted)',
      )
      await trustHooks([program, ...first], home)
    }
    const { code, stdout } = await run('doctor', '--dialect', client.name)
    expect(stdout).toMatch(new RegExp(`^ok {4}${client.name} [\\d.]+ blocks when its hook fails$`, 'm'))
    expect(stdout).toMatch(/^ok {4}.*a call for another organization was denied, and blocked \(/m)
    expect({ code, stdout }).toEqual({ code: 0, stdout: expect.stringMatching(/\nworks\n$/) })
  })
})
