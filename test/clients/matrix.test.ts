import { afterAll, describe, expect } from '@jest/globals'
import { randomUUID } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { until } from '../stack/until.ts'
import type { Receipt } from '../support/client-types.ts'
import { claude } from './claude.ts'
import type { AgentClient } from './client.ts'
import { asksItsUser, clients } from './clients.ts'
import { ensureClients } from './install.ts'
import { processesOf } from './processes.ts'
import { editHooks, endsKept, installHook } from './product-hook.ts'
import { startClient, type ClientRun, type RunOptions, type StartedClient } from './run-client.ts'
import type { Turn } from './script.ts'
import { sideBySide } from './side-by-side.ts'
import { agentWorld, forbidden, release, type AgentWorld } from './world.ts'

/* The real clients with the real hook, on a whole stack. */

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
