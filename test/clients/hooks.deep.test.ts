import { spawn, execFileSync } from 'node:child_process'
import { once } from 'node:events'
import {
  appendFileSync,
  writeFileSync,
  renameSync,
  symlinkSync,
  unlinkSync,
  mkdirSync,
  chmodSync,
} from 'node:fs'
import { createServer, type Socket } from 'node:net'
import { join, dirname } from 'node:path'
import { createInterface } from 'node:readline'
import { afterAll, beforeAll, describe, expect, test, test as jestTest } from '@jest/globals'
import { hookFile, python, runHook } from '../adapters/run-hook.ts'
import {
  allowed,
  reply,
  scriptedService,
  held,
  denied,
  type ScriptedService,
} from '../adapters/scripted-service.ts'
import { temporaryFolder } from '../stack/temporary-folder.ts'
import { until } from '../stack/until.ts'
import type { HookCommand, Place, AgentClient } from './client.ts'
import { asksItsUser, clients } from './clients.ts'
import { ensureClients, programOf } from './install.ts'
import { canMount, keyOf, machineOf, onMachine } from './machine.ts'
import { installHook, editHooks, endsKept } from './product-hook.ts'
import { runClient, startClient, type ClientRun } from './run-client.ts'
import type { Turn } from './script.ts'
import { sideBySide } from './side-by-side.ts'

interface Listed {
  readonly key: string
  readonly currentHash: string
}

/** Trusts all hooks of a home, as a person does in Codex's `/hooks`; `program` starts Codex. */
async function trustHooks(program: readonly string[], home: string): Promise<void> {
  const states = (await hooksOf(program, home)).map(
    ({ key, currentHash }) => `[hooks.state.${JSON.stringify(key)}]\ntrusted_hash = "${currentHash}"\n`,
  )
  appendFileSync(join(home, '.codex', 'config.toml'), states.join(''))
}

async function hooksOf([name = '', ...first]: readonly string[], home: string): Promise<readonly Listed[]> {
  const env = { PATH: process.env['PATH'], HOME: home }
  const child = spawn(name, [...first, 'app-server'], { env, stdio: ['pipe', 'pipe', 'ignore'] })
  const ended = new Promise((resolve) => child.once('close', resolve))
  const send = (message: object): boolean => child.stdin.write(`${JSON.stringify(message)}\n`)
  send({ id: 1, method: 'initialize', params: { clientInfo: { name: 'test', version: '0' } } })
  send({ method: 'initialized' })
  send({ id: 2, method: 'hooks/list', params: { cwds: [home] } })
  try {
    for await (const line of createInterface({ input: child.stdout })) {
      const answer = JSON.parse(line) as { id?: number; result?: { data: { hooks: Listed[] }[] } }
      if (answer.id === 2) return answer.result?.data.flatMap(({ hooks }) => hooks) ?? []
    }
    throw new Error('Codex did not list its hooks')
  } finally {
    child.kill()
    await ended
  }
}

/** Answers after which the hook has no answer. */
const unreachable: Readonly<Record<string, (socket: Socket) => void>> = {
  CLOSED: (socket) => socket.end(),
  HANGS: () => {},
  BROKEN: (socket) => reply(socket, 500, { error: { code: 'internal' } }),
}

describe('hooks of one line, so that our own hook cannot be the cause of a failure', () => {
  const reason = 'blocked by rule `no-touch`'
  const denial = { permissionDecision: 'deny', permissionDecisionReason: reason }
  const hookSpecificOutput = { hookEventName: 'PreToolUse', ...denial }
  const refusal = JSON.stringify({ decision: 'block', reason, ...denial, hookSpecificOutput })

  /**
   * A hook that appends its input to a file in the working folder, one line per event. Each line is written with one
   * write, because a subagent's event may come at the same time.
   */
  const note = (file: string): HookCommand => ({
    command: `line=$(tr -d '\\n'); printf '%s\\n' "$line" >> ${file}`,
    timeout: 20,
  })
  interface Noted {
    readonly session_id?: string
    readonly tool_input?: object
  }
  /** Parses the noted events. One client names two fields in camelCase; they get the names that the other clients use. */
  const noted = (text = ''): Noted[] =>
    text
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => {
        const { sessionId, toolArgs, ...event } = JSON.parse(line) as Noted & Record<string, unknown>
        return { session_id: sessionId, tool_input: toolArgs, ...event } as Noted
      })

  /** The refusal as a program file, so that no shell interprets its text. */
  function refuse({ root }: Place): HookCommand {
    const file = join(root, 'refuse')
    const answer = `cat <<'END'\n${refusal}\nEND\necho '${reason}' >&2`
    writeFileSync(file, `#!/bin/sh\ncat > /dev/null\n${answer}\nexit 2\n`, { mode: 0o755 })
    return { command: file, timeout: 20 }
  }

  const test = sideBySide(3, async () => {
    await ensureClients()
  })

  describe.each(clients)('%s', (_name, client) => {
    test('runs a call that no hook sees', async () => {
      const run = await runClient(client, { script: [[client.shell('echo yes > RAN; echo so it is')]] })
      expect(run).toMatchObject({ exit: 0, files: { RAN: 'yes\n' } })
      expect(run.results).toHaveLength(1)
      expect(run.results[0]?.text).toContain('so it is')
    })

    test('calls hooks before and after the call, and at the end of the session', async () => {
      const run = await runClient(client, {
        script: [[client.shell('echo one > ONE')], [client.shell('echo two > TWO')]],
        setup: (place) => client.hook(place, { pre: note('pre'), post: note('post'), end: note('end') }),
      })
      expect(run).toMatchObject({ exit: 0, files: { ONE: 'one\n', TWO: 'two\n' } })
      for (const event of ['pre', 'post']) {
        expect(noted(run.files[event])).toMatchObject([
          { tool_input: { command: 'echo one > ONE' } },
          { tool_input: { command: 'echo two > TWO' } },
        ])
      }
      const [pre] = noted(run.files['pre'])
      expect(pre?.session_id).toMatch(/^[\w-]{8,}$/)
      expect(noted(run.files['end'])).toMatchObject([{ session_id: pre?.session_id }])
    })

    test('refuses a call that a hook refuses, and the model reads the reason', async () => {
      const run = await runClient(client, {
        script: [[client.shell('touch RAN')]],
        setup: (place) => client.hook(place, { pre: refuse(place) }),
      })
      expect(run).toMatchObject({ exit: 0, files: {} })
      expect(run.results).toHaveLength(1)
      expect(run.results[0]?.text).toContain(reason)
      expect(run.denials ?? 1).toBe(1)
    })

    test('still asks its own user after a hook without an answer', async () => {
      const run = await runClient(client, {
        script: [[client.shell('touch RAN')]],
        setup: (place) => client.hook(place, { pre: note('pre') }),
        trusted: false,
      })
      expect(run.exit).toBe(0)
      expect(run.files['RAN']).toBeUndefined()
      expect(run.results[0]?.text).toMatch(asksItsUser)
    })

    test('asks a hook about every parallel call', async () => {
      const names = ['A', 'B', 'C']
      const run = await runClient(client, {
        script: [names.map((name) => client.shell(`echo ${name} > ${name}`))],
        setup: ({ root, work, ...place }) => {
          // One file per call, because calls may run at once.
          const command = `f=$(mktemp ${root}/seen-XXXXXX); cat > $f; cp $f ${work}`
          client.hook({ root, work, ...place }, { pre: { command, timeout: 20 } })
        },
      })
      const seen = Object.entries(run.files).filter(([name]) => name.startsWith('seen-'))
      const commands = seen.map(([, text]) => noted(text)[0]?.tool_input)
      expect(commands).toHaveLength(3)
      for (const name of names)
        expect(commands).toContainEqual(expect.objectContaining({ command: `echo ${name} > ${name}` }))
      expect(run).toMatchObject({ exit: 0, files: { A: 'A\n', B: 'B\n', C: 'C\n' } })
      expect(run.results).toHaveLength(3)
    })

    test('asks a hook about a subagent’s calls', async () => {
      const run = await runClient(client, {
        script: { main: client.delegate('part'), part: [[client.shell('echo part > PART')]] },
        setup: (place) => client.hook(place, { pre: note('pre') }),
      })
      expect(run).toMatchObject({ exit: 0, files: { PART: 'part\n' } })
      const events = noted(run.files['pre'])
      expect(new Set(events.map(({ session_id: id }) => id)).size).toBe(client.partsApart === true ? 2 : 1)
      expect(events.map(({ tool_input: input }) => input)).toContainEqual(
        expect.objectContaining({ command: 'echo part > PART' }),
      )
      expect(run.results.map(({ script }) => script)).toContain('part')
    })

    test('can be ended during a hook', async () => {
      const started = await startClient(client, {
        script: [[client.shell('touch RAN')]],
        setup: (place) =>
          client.hook(place, { pre: { command: 'cat > /dev/null; touch asked; sleep 600', timeout: 900 } }),
      })
      await until('the hook waits', () => started.has('asked'))
      started.signal('SIGTERM')
      const run = await started.ended
      expect(run.files['RAN']).toBeUndefined()
    })
  })
})

describe('the service is down, hangs or answers nonsense', () => {
  /* A blocked call must leave no file. test/adapters/hook-faults.test.ts has all faults; here is one of each kind. */

  const odd: typeof unreachable = {
    PAGE: (socket) => reply(socket, 200, '<html>sign in to this network</html>'),
    CUT: (socket) => reply(socket, 200, JSON.stringify(allowed).slice(0, -1)),
    PERMIT: (socket) => reply(socket, 200, { ...allowed, decision: 'permit' }),
    EMPTY: (socket) => reply(socket, 200, ''),
    MAIL: (socket) => socket.end('220 mail.example.com ESMTP\r\n'),
    REFUSED: (socket) => reply(socket, 403, { error: { code: 'missing_scope' } }),
  }
  const faults = { ...unreachable, ...odd }

  let service: ScriptedService
  const test = sideBySide(6, async () => {
    await ensureClients()
    service = await scriptedService(({ path, body }, socket) => {
      const fault = Object.keys(faults).find((name) => body.includes(`> ${name}`))
      // Only the answer to /authorize is faulty. Reports of ended sessions and finished calls do not matter here.
      if (path !== '/api/v1/authorize' || fault === undefined) reply(socket, 200, { ...allowed, ok: true })
      else faults[fault]?.(socket)
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
        expect(text.includes('unreachable')).toBe(name in unreachable)
        expect(text).not.toContain('csk_test')
      }
    })

    test('open mode lets calls pass without an answer, and blocks after an odd answer', async () => {
      const run = await runAll(client, names, service.url, 'open')
      expect(made(run)).toEqual(Object.keys(unreachable).sort())
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
          const own = { url: service.url, key: 'csk_test', mode: 'open' } as const
          installHook(client, place, own, ['--python', interpreter])
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
})

describe('managed installations that start the hook without a shell', () => {
  /* If such a hook fails, only the client itself can turn the failure into a denial. */

  const organization = 'org_00000000000000000000000001'
  const faults: typeof unreachable = {
    ...unreachable,
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
          const large = client.name === 'copilot' ? 1_500_000 : 3_000_000
          script.push([client.write(join(work, 'BIG'), 'x'.repeat(large))])
          script.push([client.write(join(work, 'HUGE'), 'x'.repeat(5_000_000))])
        })
        expect(Object.keys(files)).toEqual(['BIG'])
      })
    },
  )
})

describe('the timeouts of the clients', () => {
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
})

describe('the settings that `install` writes, and `doctor`', () => {
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
          const words = [hookFile, 'install', '--dialect', client.name, '--yes']
          execFileSync(python, words, { env: settings(home) })
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
        const { stdout } = await run('doctor', '--dialect', 'codex')
        expect(stdout).toContain('codex skips the hook (it is untrusted)')
        await trustHooks([program, ...first], home)
      }
      const { code, stdout } = await run('doctor', '--dialect', client.name)
      expect(stdout).toMatch(new RegExp(`^ok {4}${client.name} [\\d.]+ blocks when its hook fails$`, 'm'))
      expect(stdout).toMatch(/^ok {4}.*a call for another organization was denied, and blocked \(/m)
      expect({ code, stdout }).toEqual({ code: 0, stdout: expect.stringMatching(/\nworks\n$/) })
    })
  })
})
