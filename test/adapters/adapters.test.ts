import { spawnSync } from 'node:child_process'
import {
  chmodSync,
  copyFileSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, test, afterEach, beforeAll } from '@jest/globals'
import { agentTool, agentToolNames } from '../../src/policy/agent-tools.ts'
import { folderFiles } from '../../src/shell/tables/interpreters.ts'
import { adapterNames, adapters, packed } from '../../src/api/adapters.ts'
import { agentWorld } from '../api/agents/agent.ts'
import { useMeasuredApi, type MeasuredApi } from '../api/bodies/measured-api.ts'
import { sendScattered } from '../api/bodies/scattered.ts'
import { readDocsPage } from '../api/docs-page.ts'
import { addKey, addOrganization } from '../api/fixtures.ts'
import { temporaryFolder } from '../stack/temporary-folder.ts'
import { until } from '../stack/until.ts'
import { byDepth } from '../support/depth.ts'
import { shownOutputs } from '../support/shell-blocks.ts'
import { installPythonPackages } from '../support/python-packages.ts'
import { hookFile, python, runHook } from './run-hook.ts'

const adaptersFolder = new URL('../../adapters/', import.meta.url)

describe.each(adapterNames)('%s', (name) => {
  test('is the same file after a second packing', () => {
    expect(packed(name)).toBe(packed(name))
    expect(adapters().get(name)?.bytes.toString()).toBe(packed(name))
  })

  test('starts with its name and states its own checksum', () => {
    expect(packed(name)).toMatch(/^#!\/usr\/bin\/env python3\n"""Countersign's /)
  })
})

test('`--version` states the checksum that the service lists', () => {
  const { stdout } = spawnSync(python, ['-I', '-S', hookFile, '--version'], { encoding: 'utf8' })
  const sha256 = adapters().get('service_hook.py')?.sha256
  expect(stdout.replace(/\d+\.\d+\.\d+/, 'VERSION')).toBe(`service_hook.py VERSION, sha256 ${sha256}\n`)
})

test('a module of Python is not taken from the folder in which the adapter lies', () => {
  const folder = temporaryFolder()
  const file = join(folder, 'service_hook.py')
  copyFileSync(hookFile, file)
  for (const name of ['hashlib', 'json', 'argparse', 'os'])
    writeFileSync(join(folder, `${name}.py`), 'raise SystemExit("shadowed")\n')
  for (const args of [['--version'], ['install', '--help']]) {
    const { stdout, stderr, status } = spawnSync(python, [file, ...args], { cwd: folder, encoding: 'utf8' })
    expect([status, stderr]).toEqual([0, ''])
    expect(stdout).toContain('service_hook.py')
  }
})

test('a call loads neither `install` nor `doctor`, and its own client only', () => {
  const event = {
    session_id: 's',
    hook_event_name: 'PreToolUse',
    tool_name: 'Bash',
    tool_input: {},
    cwd: '/',
  }
  const loaded = (dialect: string): string[] => {
    const args = ['-I', '-S', '-X', 'importtime', hookFile, 'pre', '--dialect', dialect]
    const env = { SERVICE_API_URL: 'http://127.0.0.1:1', SERVICE_API_KEY: 'k' }
    const { stderr } = spawnSync(python, args, { env, input: JSON.stringify(event), encoding: 'utf8' })
    expect(stderr).toContain('the service is unreachable')
    return [...stderr.matchAll(/\| +(\S+)$/gm)].map(([, name = '']) => name)
  }
  const slow = /^(re|json|socket|argparse|subprocess)$|\.(install|doctor|typed)\b/
  for (const dialect of ['claude', 'gemini', 'opencode']) {
    const names = loaded(dialect)
    expect(names).toContain('countersign.hook.pre')
    expect(names.filter((name) => slow.test(name))).toEqual([])
    const clients = names.filter((name) => name.startsWith('countersign.hook.clients.'))
    expect(clients).toEqual([`countersign.hook.clients.${dialect}`])
  }
})

test('it starts wherever it lies, and writes nothing beside itself', () => {
  const folder = join(temporaryFolder(), 'a folder with blanks')
  mkdirSync(folder)
  const [file, link] = [join(folder, 'service_hook.py'), join(temporaryFolder(), 'hook')]
  copyFileSync(hookFile, file)
  symlinkSync(file, link)
  chmodSync(folder, 0o555)
  for (const words of [[file], ['-I', file], ['-I', '-S', link], ['service_hook.py']]) {
    const options = {
      cwd: folder,
      input: '{}',
      env: { PATH: process.env['PATH'] },
      encoding: 'utf8',
    } as const
    const { status, stdout } = spawnSync(python, [...words, 'pre', '--dialect', 'gemini'], options)
    expect({ words, status, stdout }).toMatchObject({ status: 2, stdout: expect.stringContaining('deny') })
    expect(spawnSync(python, [...words, '--version'], options).stdout).toContain(
      adapters().get('service_hook.py')?.sha256,
    )
  }
  expect(readdirSync(folder)).toEqual(['service_hook.py'])
})

test('every module can be followed: each name in it is defined or imported, and each import is used', async () => {
  const folder = await installPythonPackages(
    fileURLToPath(new URL('requirements.txt', import.meta.url)),
    'pyflakes',
  )
  const args = ['-B', '-m', 'pyflakes', 'countersign', 'importer.py', 'tests']
  const env = { ...process.env, PYTHONPATH: folder }
  const { stdout, status } = spawnSync('python3', args, { cwd: adaptersFolder, env, encoding: 'utf8' })
  expect({ stdout, status }).toEqual({ stdout: '', status: 0 })
})

/*
 * Runs the adapters with every supported Python on this machine. In `npm test` their own tests run with the usual Python
 * only, because each of these runs takes some ten seconds.
 */

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
  const script = `import json
from countersign.hook import surroundings, tool_names
print(json.dumps([tool_names.SHELL_TOOLS, tool_names.OTHER_TOOLS, surroundings.FOLDER_FILES]))`
  const { stdout } = spawnSync('python3', ['-B', '-c', script], { cwd: adaptersFolder, encoding: 'utf8' })
  const [shells, others, files] = JSON.parse(stdout) as [string[], string[], Record<string, string[]>]
  const isShell = (name: string): boolean => agentTool(name)?.isShell === true
  expect(shells.toSorted()).toEqual(agentToolNames.filter(isShell).toSorted())
  expect(others.toSorted()).toEqual(agentToolNames.filter((name) => !isShell(name)).toSorted())
  expect(files).toEqual(Object.fromEntries(folderFiles))
})

const thorough = byDepth(pythons.slice(0, 1), pythons)

describe.each(thorough)('%s', (program) => {
  test('its tests pass without a warning', () => {
    const args = ['-B', '-W', 'error', '-m', 'unittest', 'discover', '-q', '-t', '.', 'tests']
    const { status, stderr } = spawnSync(program, args, { cwd: adaptersFolder, encoding: 'utf8' })
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
  const [own, key, curl, ls, removed, cleaned] = outputs.slice(16)
  expect(installed).toContain('"onFailure": "block"')
  expect(installed).not.toContain('csk_live_')
  expect(tried).toMatch(/\nworks$/)
  expect(starter?.match(/^done: save the rule `Agents: .*` \(require_approval, shadow\)$/gm)).toHaveLength(5)
  expectShownParts([installed, tried, starter, removed])
  const exact = [rule, byHand, ...more.slice(0, 10), own, key, cleaned]
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
