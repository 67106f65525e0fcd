import { randomUUID } from 'node:crypto'
import { writeFileSync, readFileSync } from 'node:fs'
import { join, dirname } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { afterAll, describe, expect, test as jestTest } from '@jest/globals'
import { gatewayFile } from '../adapters/gateway-files.ts'
import { noted } from '../adapters/run-mcp.ts'
import {
  allowed,
  denied,
  held,
  reply,
  scriptedService,
  type ScriptedService,
} from '../adapters/scripted-service.ts'
import { until } from '../stack/until.ts'
import type { Receipt, Approval } from '../support/client-types.ts'
import { claude } from './claude.ts'
import type { AgentClient, Place } from './client.ts'
import { asksItsUser, clients } from './clients.ts'
import { ensureClients } from './install.ts'
import { processesOf } from './processes.ts'
import { gatewayLog, installGateway, readable, through } from './product-gateway.ts'
import { editHooks, endsKept, installHook, type ServiceSettings } from './product-hook.ts'
import { startClient, runClient, type ClientRun, type RunOptions, type StartedClient } from './run-client.ts'
import type { Turn, Calls } from './script.ts'
import { sideBySide } from './side-by-side.ts'
import { agentWorld, forbidden, release, type AgentWorld } from './world.ts'

let world: AgentWorld
const test = sideBySide(3, async () => {
  await ensureClients()
  world = await agentWorld()
})
afterAll(() => world.close())

interface Options extends Partial<RunOptions> {
  /** Seconds that a held call waits for its approver. */
  readonly wait?: number
}

/** Starts the client with the hook, installed as its user would install it. */
const start = (
  client: AgentClient,
  script: RunOptions['script'],
  { wait = 80, ...more }: Options = {},
): Promise<StartedClient> =>
  startClient(client, {
    script,
    setup: (place) => installHook(client, place, { url: world.url, key: world.key, wait }),
    ...more,
  })

const run = async (
  client: AgentClient,
  script: RunOptions['script'],
  options: Options = {},
): Promise<ClientRun> => (await start(client, script, options)).ended

/** A shell call that adds a line to `file`. `word` makes a rule match; the rest of the text is unique. */
const call = (client: AgentClient, file: string, word = 'fine'): { turn: Turn; text: string } => {
  const text = `${word}-${randomUUID()}`
  return { turn: [client.shell(`echo ${text} >> ${file}`)], text }
}
const texts = ({ results }: ClientRun): string[] => results.map(({ text }) => text)

describe.each(clients)('%s', (_name, client) => {
  test('an allowed call runs, and its session ends with the client', async () => {
    const { turn, text } = call(client, 'RAN')
    const ended = await run(client, [turn, turn], {
      afterwards: async (place) => {
        // Two processes may still run: the hook's own process, and a second one. The second one reports the end of the
        // session later if the service was too slow.
        await until('its processes have ended', () => processesOf(place).length === 0)
        expect(endsKept(place)).toEqual([])
      },
    })
    expect(ended).toMatchObject({ exit: 0, files: { RAN: `${text}\n${text}\n` } })
    const session = await world.session(
      client.sessionId(ended.stdout),
      'has ended',
      ({ status }) => status === 'ended',
    )
    expect(session).toMatchObject({
      decisions: { allow: 2, deny: 0, require_approval: 0 },
      unapproved_calls: 0,
    })
  })

  test('an allowed call still needs the client’s own permission', async () => {
    const ended = await run(client, [call(client, 'RAN').turn], { trusted: false })
    expect(ended).toMatchObject({ exit: 0, files: {} })
    expect(texts(ended)[0]).toMatch(asksItsUser)
    const session = await world.session(client.sessionId(ended.stdout), 'was asked', () => true)
    expect(session.decisions).toMatchObject({ allow: 1 })
  })

  test('a failed call is settled like a successful one', async () => {
    const ended = await run(client, [[client.shell('echo no >&2; exit 3')], call(client, 'RAN').turn])
    expect(ended).toMatchObject({ exit: 0, files: { RAN: expect.any(String) } })
    const { session_run_id: id, unapproved_calls } = await world.session(
      client.sessionId(ended.stdout),
      'is known',
      () => true,
    )
    expect(unapproved_calls).toBe(0)
    const outcomes = async (): Promise<(string | null)[]> =>
      (await world.admin.good<Receipt>('GET', `/runs/${id}/authorization`)).decisions.map(
        ({ outcome }) => outcome,
      )
    await until('both are settled', async () => !(await outcomes()).includes(null))
    // Some clients show a program's exit code only as part of its output. The output is not sent to the service.
    const fails = client.name === 'claude' ? 'error' : expect.stringMatching(/^(ok|error)$/)
    expect(await outcomes()).toEqual([fails, 'ok'])
  })

  test('a denied call does not run, and the model reads the rule’s name', async () => {
    const ended = await run(client, [call(client, 'RAN', forbidden.word).turn, call(client, 'NEXT').turn])
    expect(ended.exit).toBe(0)
    expect(Object.keys(ended.files)).toEqual(['NEXT'])
    expect(texts(ended)[0]).toContain(`\`${forbidden.rule}\``)
  })

  test('a held call that is approved in time runs once', async () => {
    const { turn, text } = call(client, 'RAN', release.word)
    const started = await start(client, [turn])
    const { id, params } = await world.held(text)
    expect(params?.['cwd']).toMatch(/\/work$/)
    expect(started.has('RAN')).toBe(false)
    await world.approve(id)
    const ended = await started.ended
    expect(ended).toMatchObject({ exit: 0, files: { RAN: `${text}\n` } })
    expect(ended.results).toHaveLength(1)
  })

  test('an undecided call is blocked with its approval, and the same call passes once afterwards', async () => {
    const { turn, text } = call(client, 'RAN', release.word)
    let id = ''
    const approved: Turn = async () => {
      ;({ id } = await world.held(text))
      await world.approve(id)
      return typeof turn === 'function' ? [] : turn
    }
    const ended = await run(client, [turn, approved, turn], { wait: 2 })
    expect(ended).toMatchObject({ exit: 0, files: { RAN: `${text}\n` } })
    const [first, second, third] = texts(ended)
    expect(first).toContain(`\`${release.rule}\``)
    expect(first).toContain(id)
    expect(second).not.toContain('countersign')
    expect(third).toContain(`\`${release.rule}\``)
    expect(third).not.toContain(id)
  })

  test('each parallel call has its own answer', async () => {
    const allowed = call(client, 'ALLOWED')
    const denied = call(client, 'DENIED', forbidden.word)
    const held = call(client, 'HELD', release.word)
    const calls = [denied, allowed, held].flatMap(({ turn }) => (typeof turn === 'function' ? [] : turn))
    const started = await start(client, [calls])
    await world.approve((await world.held(held.text)).id)
    const ended = await started.ended
    expect(ended).toMatchObject({ exit: 0, files: { ALLOWED: `${allowed.text}\n`, HELD: `${held.text}\n` } })
    expect(ended.files['DENIED']).toBeUndefined()
    expect(texts(ended).filter((text) => text.includes(forbidden.rule))).toHaveLength(1)
    expect(ended.results).toHaveLength(3)
  })

  test('a subagent’s calls are decided too, in its parent’s session if the client reports that', async () => {
    const denied = call(client, 'DENIED', forbidden.word)
    const allowed = call(client, 'PART')
    const ended = await run(client, { main: client.delegate('part'), part: [denied.turn, allowed.turn] })
    expect(ended).toMatchObject({ exit: 0, files: { PART: `${allowed.text}\n` } })
    expect(ended.files['DENIED']).toBeUndefined()
    const part = ended.results.filter(({ script }) => script === 'part')
    expect(part[0]?.text).toContain(`\`${forbidden.rule}\``)
    const { decisions } = await world.session(client.sessionId(ended.stdout), 'was asked', () => true)
    if (client.partsApart === true) return expect(decisions).toMatchObject({ allow: 1, deny: 0 })
    expect(decisions).toMatchObject({ deny: 1 })
    expect(decisions.allow).toBeGreaterThanOrEqual(2)
  })

  test('a call of three megabytes is read completely, and one of five is refused with its size', async () => {
    // Calls whose name Copilot CLI changes are sent under both names.
    const names = client.name === 'copilot' ? 2 : 1
    const megabytes = (count: number, end: string): string =>
      `${'x'.repeat((count / names) * 1024 * 1024)}${end}`
    const script: Turn[] = []
    const ended = await run(client, script, {
      setup: (place) => {
        installHook(client, place, world)
        script.push(
          [client.write(join(place.work, 'FINE'), megabytes(3, ''))],
          [client.write(join(place.work, 'DENIED'), megabytes(3, forbidden.word))],
          [client.write(join(place.work, 'LARGE'), megabytes(5, ''))],
        )
      },
    })
    expect(ended.exit).toBe(0)
    expect(Object.keys(ended.files)).toEqual(['FINE'])
    expect(ended.files['FINE']?.trimEnd()).toHaveLength((3 / names) * 1024 * 1024)
    expect(texts(ended)[1]).toContain(`\`${forbidden.rule}\``)
    expect(texts(ended)[2]).toMatch(/5,2\d\d,\d\d\d bytes long, over the 4,194,304/)
  })

  test('ended during a held call, it leaves neither a waiting call nor a process', async () => {
    const { turn, text } = call(client, 'RAN', release.word)
    let id = ''
    const started = await start(client, [turn], {
      afterwards: async (place) => {
        await until(
          'the call no longer waits',
          async () => (await world.admin.approval(id)).status === 'cancelled',
        )
        await until('its processes have ended', () => processesOf(place).length === 0)
      },
    })
    ;({ id } = await world.held(text))
    started.signal('SIGTERM')
    expect((await started.ended).files).toEqual({})
  })

  test('a revoked session is denied from its next call on', async () => {
    const { turn, text } = call(client, 'RAN', release.word)
    const next = call(client, 'NEXT')
    const revoked: Turn = async () => {
      const { session_id: own } = await world.held(text)
      const { id } = await world.session(own ?? '', 'is known', () => true)
      await world.admin.good('POST', `/agent-sessions/${id}/revoke`, { reason: 'test' })
      return typeof next.turn === 'function' ? [] : next.turn
    }
    const ended = await run(client, [turn, revoked], { wait: 1 })
    expect(ended).toMatchObject({ exit: 0, files: {} })
    expect(texts(ended)[1]).toContain('revoked')
  })

  test('a call that ran without a question is reported and visible', async () => {
    const ended = await run(client, [call(client, 'RAN').turn], {
      setup: (place) => {
        installHook(client, place, world)
        editHooks(client, place, (text) => {
          if (client.name === 'opencode') return text.replace('"tool.execute.before":', 'nobody:')
          const { hooks, ...settings } = JSON.parse(text) as { hooks: object }
          const [, ...others] = Object.entries(hooks)
          return JSON.stringify({ ...settings, hooks: Object.fromEntries(others) })
        })
      },
    })
    expect(Object.keys(ended.files)).toEqual(['RAN'])
    await world.session(
      client.sessionId(ended.stdout),
      'has a call nobody allowed',
      (each) => each.unapproved_calls === 1,
    )
  })
})

test('Claude Code asks the service itself, without a process, by an HTTP hook', async () => {
  const held = call(claude, 'HELD', release.word)
  const started = await start(claude, [call(claude, 'DENIED', forbidden.word).turn, held.turn], {
    setup: ({ home }) => {
      const headers = { Authorization: 'Bearer $COUNTERSIGN_KEY' }
      const url = `${world.url}/api/v1/hooks/claude-code`
      const hook = { type: 'http', url, headers, allowedEnvVars: ['COUNTERSIGN_KEY'], timeout: 90 }
      const hooks = { PreToolUse: [{ matcher: '*', hooks: [{ ...hook, onFailure: 'block' }] }] }
      writeFileSync(join(home, '.claude', 'settings.json'), JSON.stringify({ hooks }))
    },
    env: { COUNTERSIGN_KEY: world.key },
  })
  await world.approve((await world.held(held.text)).id)
  const ended = await started.ended
  expect(ended).toMatchObject({ exit: 0, files: { HELD: `${held.text}\n` } })
  expect(ended.files['DENIED']).toBeUndefined()
  expect(texts(ended)[0]).toContain(forbidden.rule)
})

describe('hook and gateway on the stack', () => {
  const approvalsOf = async (text: string): Promise<Approval[]> => {
    const { data } = await world.admin.good<{ data: Approval[] }>(
      'GET',
      '/approvals?kind=agent_call&limit=200',
    )
    return data.filter(({ params }) => JSON.stringify(params).includes(text))
  }
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
    ...clients.map(([, client]) => {
      const calls = (text: string) => [client.shell(`echo ${text} >> RAN`)]
      return { client, install: installHook, ran: linesOf, calls }
    }),
    {
      client: claude,
      install: installGateway,
      ran: callsThrough,
      calls: (say) => [through(claude, 'odd__echo', { say })],
    },
  ]

  jestTest(
    'killed while clients wait, by the hook and by the gateway: the same calls can be approved afterwards, and each runs once',
    async () => {
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
    },
  )

  jestTest(
    'killed after the client has given up: the identical call passes once after its approval',
    async () => {
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
    },
  )

  jestTest.each(clients.filter(([name]) => name === 'claude' || name === 'codex'))(
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
})

describe('the gateway', () => {
  let service: ScriptedService
  const test = sideBySide(3, async () => {
    await ensureClients()
    service = await scriptedService(({ path, body }, socket) => {
      if (path === '/api/v1/authorize')
        reply(socket, 200, body.includes('FORBIDDEN') ? denied : body.includes('RELEASE') ? held : allowed)
      else if (path.includes('/approvals/')) reply(socket, 200, { approval_id: 'apr_1', status: 'pending' })
      else reply(socket, 200, { ok: true })
    })
  })
  afterAll(() => service.close())

  /** A held call waits one second. */
  const asked = (): ServiceSettings => ({ url: service.url, key: 'csk_test', wait: 1 })
  const nothingLeft = (place: Place): Promise<void> =>
    until('nothing of it runs', () => processesOf(place).length === 0)
  const options = (client: AgentClient, said: object = {}): Pick<RunOptions, 'setup' | 'afterwards'> => ({
    setup: (place) => {
      installGateway(client, place, { ...asked(), said })
    },
    afterwards: nothingLeft,
  })

  describe.each(clients)('%s', (_name, client) => {
    test('allowed, denied and held calls: the model reads the result, the rule, and the next step', async () => {
      const word = `for-${client.name}`
      const run = await runClient(client, {
        script: [
          [through(client, 'odd__echo', { word, say: 'HARMLESS' })],
          [through(client, 'odd__echo', { word, say: 'FORBIDDEN' })],
          [through(client, 'odd__echo', { word, say: 'RELEASE' })],
        ],
        ...options(client),
      })
      expect(run.exit).toBe(0)
      const [ran, blocked, waits] = run.results.map(({ text }) => text)
      expect(ran).toContain('HARMLESS')
      expect(blocked).toContain('blocked by rule `no-egress`')
      expect(waits).toMatch(/approval apr_1 is still pending; have it approved, then call again/)
      const questions = service.asked.filter(
        ({ path, body }) => path === '/api/v1/authorize' && body.includes(word),
      )
      expect(questions.map(({ body }) => JSON.parse(body).tool_name)).toEqual(Array(3).fill('mcp__odd__echo'))
    })

    test('a client that ends during a call leaves no process, even if the server ignores the end', async () => {
      const started = await startClient(client, {
        script: [[through(client, 'odd__hang')]],
        ...options(client, { tools: ['hang'], stubborn: true }),
      })
      await until('the server works', () => readable(gatewayLog(started.place)).includes('"tools/call"'))
      started.signal('SIGTERM')
      // `ended` resolves after `afterwards` has waited for the client's processes.
      await started.ended
    })
  })

  describe.each(clients.filter(([name]) => name === 'claude' || name === 'codex'))(
    '%s, which sends a call’s id',
    (name, client) => {
      test('hook and gateway name the same call', async () => {
        const both = `BOTH-${name}`
        const run = await runClient(client, {
          script: [[through(client, 'odd__echo', { say: both })]],
          ...options(client),
          setup: (place) => {
            installHook(client, place, { url: service.url, key: 'csk_test' })
            installGateway(client, place, asked())
          },
        })
        expect(run.results[0]?.text).toContain(both)
        const [first, second] = service.asked
          .filter(({ path, body }) => path === '/api/v1/authorize' && body.includes(both))
          .map(({ body }) => JSON.parse(body))
        expect([first.tool_name, second.tool_name]).toEqual(['mcp__svc__odd__echo', 'mcp__odd__echo'])
        expect(first.tool_use_id).toBe(second.tool_use_id)
        expect(first.tool_input).toEqual(second.tool_input)
      })
    },
  )

  test('claude: a server’s question is cancelled if there is no user to ask', async () => {
    const params = { message: 'Your colour?', requestedSchema: { type: 'object', properties: {} } }
    const run = await runClient(claude, {
      script: [[through(claude, 'odd__ask', { id: 1, method: 'elicitation/create', params })]],
      ...options(claude, { tools: ['ask'] }),
    })
    expect(run.results[0]?.text).toContain('"action": "cancel"')
  })

  test('claude: a tool added later can be called', async () => {
    // Claude Code fetches the list of tools again by itself, some time after the notification.
    const again: Turn = async (read) => {
      await delay(100)
      return read.at(-1)?.text.includes('LATE') === true
        ? []
        : [through(claude, 'odd__grown', { say: 'LATE' })]
    }
    const run = await runClient(claude, {
      script: [[through(claude, 'odd__grow')], ...Array<Turn>(30).fill(again)],
      ...options(claude, { tools: ['grow'] }),
    })
    expect(run.results.at(-1)?.text).toContain('LATE')
  })

  const [, codex] = clients.find(([name]) => name === 'codex') ?? []
  if (codex !== undefined)
    test('codex: the gateway answers before the limit, which progress does not extend', async () => {
      const text = readFileSync(gatewayFile, 'utf8')
      const longest = Number(/^MAX_WAIT = (\d+)/m.exec(text)?.[1])
      // Seconds: one question before the wait and one after it (20 each), and the last poll of the approval, which can take
      // 10 seconds longer.
      expect(20 + longest + 10 + 20).toBeLessThan(300)
      // The same with one fiftieth of both limits. The gateway's own limit wins over any setting.
      const folder = dirname(gatewayFile)
      const program = `import sys; sys.path.insert(0, ${JSON.stringify(folder)}); sys.dont_write_bytecode = True
import service_mcp; from countersign.gateway import decisions, main
sys.modules['__main__'].__file__ = service_mcp.__file__
decisions.MAX_WAIT = 4.8; sys.exit(main.main(sys.argv[1:]))`
      const run = await runClient(codex, {
        script: [[through(codex, 'odd__echo', { say: 'RELEASE' })]],
        setup: (place) => {
          const own = { program: ['-c', program], patience: 8 }
          installGateway(codex, place, { ...asked(), wait: 600, ...own })
        },
        afterwards: nothingLeft,
      })
      expect(run.results[0]?.text).toContain('approval apr_1 is still pending')
    })
})
