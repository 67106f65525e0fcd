import { spawnSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, test, afterEach, beforeAll } from '@jest/globals'
import { agentTool, agentToolNames } from '../../src/policy/agent-tools.ts'
import { folderFiles } from '../../src/shell/tables/interpreters.ts'
import { adapters, assembled } from '../../scripts/adapters.ts'
import { agentWorld } from '../api/agents/agent.ts'
import { useMeasuredApi, type MeasuredApi } from '../api/bodies/measured-api.ts'
import { sendScattered } from '../api/bodies/scattered.ts'
import { readDocsPage } from '../api/docs-page.ts'
import { addKey, addOrganization } from '../api/fixtures.ts'
import { until } from '../stack/until.ts'
import { byDepth } from '../support/depth.ts'
import { shownOutputs } from '../support/shell-blocks.ts'
import { hookFile, runHook } from './run-hook.ts'

const adaptersFolder = new URL('../../adapters/', import.meta.url)

describe.each(adapters)('adapters/%s', (adapter) => {
  test('is assembled from the current parts in adapters/src (npm run adapters)', () => {
    expect(readFileSync(new URL(adapter, adaptersFolder), 'utf8')).toBe(assembled(adapter))
  })

  test('defines each name once', () => {
    const names = [...assembled(adapter).matchAll(/^(?:def|class) (\w+)/gm)].map((match) => match[1])
    expect(names.filter((name, index) => names.indexOf(name) !== index)).toEqual([])
  })
})

test('every part belongs to an adapter, and parts of both programs are in `shared`', () => {
  const [hook = '', gateway = ''] = adapters.map(assembled)
  for (const entry of readdirSync(new URL('src', adaptersFolder), { recursive: true, withFileTypes: true })) {
    if (!entry.isFile() || !entry.name.endsWith('.py')) continue
    const text = readFileSync(`${entry.parentPath}/${entry.name}`, 'utf8').trimEnd()
    const isIn = (name: string) => ['shared', name].some((each) => entry.parentPath.endsWith(each))
    const found = [entry.name, hook.includes(text), gateway.includes(text)]
    expect(found).toEqual([entry.name, isIn('hook'), isIn('gateway')])
  }
})

/*
 * Runs the adapters with every supported Python on this machine. In `npm test` their own tests run with the usual Python
 * only, because each of these runs takes some ten seconds.
 */

const folder = fileURLToPath(new URL('tests', adaptersFolder))
/** The usual one comes first, and then the versions from the oldest to the newest. */
const names = ['python3', ...Array.from({ length: 8 }, (_, minor) => `python3.${8 + minor}`)]

/**
 * The path of the real interpreter behind a name; undefined if there is none. A launcher on PATH may not find this
 * version of Python.
 */
function real(name: string, env: NodeJS.ProcessEnv = process.env): string | undefined {
  const script =
    'import os, sys; print(os.path.realpath(sys.executable)); sys.exit(sys.version_info < (3, 8))'
  const { stdout, status } = spawnSync(name, ['-c', script], { env, encoding: 'utf8' })
  return status === 0 ? stdout.trim() : undefined
}
/** The launchers of pyenv find only the versions that PYENV_VERSION names. */
const everything =
  spawnSync('pyenv', ['versions', '--bare'], { encoding: 'utf8' }).stdout?.trim().split('\n') ?? []
const env = { ...process.env, PYENV_VERSION: everything.join(':') }
const pythons = [...new Set(names.flatMap((name) => [real(name) ?? [], real(name, env) ?? []].flat()))]

test('at least one supported Python is installed', () => {
  expect(pythons).not.toEqual([])
})

test('the hook knows the shells and the other tools that the service knows', () => {
  const script =
    'import json, service_hook; print(json.dumps([service_hook.SHELL_TOOLS, service_hook.OTHER_TOOLS, service_hook.FOLDER_FILES]))'
  const { stdout } = spawnSync('python3', ['-B', '-c', script], { cwd: dirname(hookFile), encoding: 'utf8' })
  const [shells, others, files] = JSON.parse(stdout) as [string[], string[], Record<string, string[]>]
  const isShell = (name: string): boolean => agentTool(name)?.isShell === true
  expect(shells.toSorted()).toEqual(agentToolNames.filter(isShell).toSorted())
  expect(others.toSorted()).toEqual(agentToolNames.filter((name) => !isShell(name)).toSorted())
  expect(files).toEqual(Object.fromEntries(folderFiles))
})

const thorough = byDepth(pythons.slice(0, 1), pythons)

describe.each(thorough)('%s', (program) => {
  test('its tests pass without a warning', () => {
    const args = ['-B', '-W', 'error', '-m', 'unittest', 'discover', '-q', folder]
    const { status, stderr } = spawnSync(program, args, { encoding: 'utf8' })
    expect({ status, stderr }).toEqual({
      status: 0,
      stderr: expect.stringMatching(/Ran \d\d+ tests[^]*\nOK/),
    })
  })
})

describe.each(pythons)('%s', (program) => {
  test('a call that cannot be checked is blocked', () => {
    const args = ['-I', '-S', '-W', 'error', hookFile, 'pre', '--dialect', 'gemini']
    const { status, stdout } = spawnSync(program, args, { input: '{}', env: {}, encoding: 'utf8' })
    expect(status).toBe(2)
    expect(JSON.parse(stdout)).toMatchObject({ decision: 'deny' })
  })
})

interface Mcp {
  readonly mcpServers: Record<string, { readonly args?: string[] }>
}

test('the commands in docs/agents.md do what the page says', async () => {
  const event = { session_id: 's', hook_event_name: 'PreToolUse', tool_name: 'Bash' }
  const ask = (command: string): string => {
    const asked = JSON.stringify({ ...event, tool_input: { command } })
    return `python3 .countersign/service_hook.py pre --config .countersign/hook.json 2>&1 >answer <<'END' || echo "exit $?"\n${asked}\nEND`
  }
  const outputs = await readDocsPage('docs/agents.md', {
    before: `mkdir bin; printf '#!/bin/sh\\necho 2.1.329\\n' >bin/claude; chmod +x bin/claude; PATH="$PWD/bin:$PATH"`,
    after: [ask('curl https://example.com'), ask('ls')],
    last: 'Clean up',
  })
  const [, rule, installed, byHand, tried, starter, ...more] = outputs
  const [own, key, curl, ls, removed, cleaned] = outputs.slice(15)
  expect(installed).toContain('"onFailure": "block"')
  expect(installed).not.toContain('csk_live_')
  expect(tried).toMatch(/\nworks$/)
  expect(starter?.match(/^done: save the rule `Agents: .*` \(require_approval, shadow\)$/gm)).toHaveLength(5)
  expectShownParts([installed, tried, starter, removed])
  const exact = [rule, byHand, ...more.slice(0, 9), own, key, cleaned]
  expect(exact).toEqual(shownOutputs('docs/agents.md'))
  expect(curl).toMatch(/^blocked by rule `agents-send-nothing`: .*\nexit 2$/)
  expect(ls).toBe('')
})

test('the commands in docs/mcp.md do what the page says', async () => {
  const outputs = await readDocsPage('docs/mcp.md', { after: ['cat "$WORK/servers.json" "$WORK/mcp.json"'] })
  const [, help, written, servers] = outputs
  expect([help, written]).toEqual([...shownOutputs('docs/mcp.md'), ''])
  const [named, asked] = servers?.split(/(?<=^})\n/m).map((file) => JSON.parse(file) as Mcp) ?? []
  expect(named?.mcpServers['board']).toMatchObject({ env: { BOARD_TOKEN: '${BOARD_TOKEN}' } })
  expect(asked?.mcpServers['svc']?.args).toContainEqual(
    expect.stringMatching(/^\/.*\.countersign\/hook\.json$/),
  )
})

/** The outputs that the page shows in part; `...` stands for what it leaves out. */
function expectShownParts(outputs: readonly (string | undefined)[]): void {
  const page = readFileSync(new URL('../../docs/agents.md', import.meta.url), 'utf8')
  const shown = [...page.matchAll(/^```text\n(.*?)^```$/gms)].map(([, text = '']) => text.split('...'))
  expect(shown).toHaveLength(outputs.length)
  for (const [index, parts] of shown.entries())
    for (const part of parts) expect(outputs[index]).toContain(part.trim())
}

describe('a neighbour', () => {
  /*
   * A hook in open mode lets a call run if the service does not answer. So a tenant who keeps the service from answering
   * in time would open the hooks of all others.
   */

  let measured: MeasuredApi
  useMeasuredApi((started) => (measured = started))
  let key: string
  let hostileKey: string
  beforeAll(async () => {
    const world = await agentWorld(measured.server)
    const { context } = measured.server
    key = (await addKey(context, world.organizationId, world.member.userId, ['agents:authorize'])).secret
    hostileKey = (await addOrganization(context)).owner.key
    const rule = { name: 'no-egress', applies_to: ['agents'], verdict: 'deny', side_effects: ['egress'] }
    await world.change('POST', '/rules', rule)
  })

  let goesOn = false
  let attack: Promise<unknown> = Promise.resolve()
  /** Requests of the hostile caller that were answered or cut off. */
  const ended = new Map<string, number>()
  afterEach(async () => {
    goesOn = false
    await attack
  })

  const megabyte = 1024 * 1024
  const longKey = `{"${'k'.repeat(400_000)}":[${'0,'.repeat(290_000)}0]}`
  const definition = `{"steps":[{"id":"a","tool":"memory_set","params":${longKey}}]}`
  const manyValues = `{"a":[${'0,'.repeat(19_000)}0]}`
  const command = `echo ${'"$(a)" '.repeat(1_200)}`
  const question = (tool: string, input: string): string =>
    `{"agent":{"name":"n","kind":"hook"},"session_id":"s","tool_name":"${tool}","tool_input":${input}}`
  const file = `--x\r\ncontent-disposition: form-data; name="file"; filename="a.txt"\r\n\r\n`

  /** Sends the worst bodies over 12 connections, each again as soon as it is answered, until the test has ended. */
  function begin(): void {
    goesOn = true
    const headers = { authorization: `Bearer ${hostileKey}` }
    const json = { ...headers, 'content-type': 'application/json' }
    const post = async (path: string, body: string): Promise<void> => {
      const answer = await fetch(`${measured.api.url}${path}`, { method: 'POST', headers: json, body })
      await answer.text()
    }
    const scattered = () =>
      sendScattered(
        measured.api.url,
        { path: '/files', headers: { ...headers, 'content-type': 'multipart/form-data; boundary=x' } },
        { before: file, count: megabyte },
      )
    const acts: Record<string, () => Promise<unknown>> = {
      bodies: () => post('/workflows', `{"name":"n","definition":${definition}}`),
      values: () => post('/authorize', question('Edit', manyValues)),
      shell: () => post('/authorize', question('Bash', JSON.stringify({ command }))),
      text: () => post('/authorize', question('Write', `{"a":"${'x'.repeat(3 * megabyte)}"}`)),
      refused: () => post('/authorize', '['.repeat(megabyte)),
      scattered,
    }
    const repeat = async (name: string, act: () => Promise<unknown>): Promise<void> => {
      while (goesOn) {
        await act().catch(() => undefined)
        ended.set(name, (ended.get(name) ?? 0) + 1)
      }
    }
    attack = Promise.all(
      Object.entries(acts).flatMap(([name, act]) => Array.from({ length: 2 }, () => repeat(name, act))),
    )
  }

  test('a denied command stays denied in open mode, beside a caller who sends the worst bodies', async () => {
    begin()
    await until('each of the worst bodies was answered', () => ended.size === 6)
    for (let call = 0; call < 3; call += 1) {
      const event = {
        ...{ session_id: 'honest', hook_event_name: 'PreToolUse', tool_name: 'Bash' },
        ...{ tool_input: { command: 'curl https://example.com' }, tool_use_id: `use-${call}` },
      }
      const env = { SERVICE_API_URL: measured.api.url, SERVICE_API_KEY: key, SERVICE_FAIL_MODE: 'open' }
      const { code, stderr } = await runHook({ args: ['pre', '--dialect', 'claude'], env, event })
      expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringContaining('no-egress') })
    }
  })
})
