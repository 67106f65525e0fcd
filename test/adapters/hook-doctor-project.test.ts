import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, beforeEach, expect, test } from '@jest/globals'
import { temporaryFolder } from '../stack/temporary-folder.ts'
import { hookFile, python, runHook, type Ended } from './run-hook.ts'
import { allowed, denied, reply, scriptedService, type ScriptedService } from './scripted-service.ts'

/* The output of `doctor` in folders whose projects contain hooks and skills. */

let service: ScriptedService
let home: string
beforeAll(async () => {
  service = await scriptedService(({ path, body }, socket) => {
    if (path !== '/api/v1/authorize') return reply(socket, 404, {})
    reply(socket, 200, body.includes('"organization_id"') ? { ...denied, rule_name: null } : allowed)
  })
})
afterAll(() => service.close())
beforeEach(async () => {
  home = temporaryFolder()
  place(join(home, 'bin', 'claude'), '#!/bin/sh\necho 2.1.329\n')
  chmodSync(join(home, 'bin', 'claude'), 0o755)
  await run(home, 'install', '--dialect', 'claude', '--yes')
})

const run = (cwd: string, ...args: string[]): Promise<Ended> => runIn({}, cwd, ...args)
const runIn = (more: NodeJS.ProcessEnv, cwd: string, ...args: string[]): Promise<Ended> => {
  const PATH = `${home}/bin:/usr/bin:/bin`
  const env = { SERVICE_API_URL: service.url, SERVICE_API_KEY: 'csk_secret', HOME: home, PATH, ...more }
  return runHook({ command: [python, hookFile], args, env, cwd })
}
const place = (path: string, text: string): void => {
  mkdirSync(dirname(path), { recursive: true })
  writeFileSync(path, text)
}
/** Adds settings to the user's settings. */
const userSettings = (more: object): void => {
  const path = join(home, '.claude', 'settings.json')
  place(path, JSON.stringify({ ...(JSON.parse(readFileSync(path, 'utf8')) as object), ...more }))
}

test.each<[string, string, string, string, string]>([
  [
    'a hook that can change a call',
    '.claude/settings.json',
    '{"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": []}]}}',
    '{}',
    "FAIL .*a project's hook in .*/.claude/settings.json can change a call",
  ],
  [
    'a skill with a command',
    '.claude/skills/a/b/SKILL.md',
    'look: !`date`',
    '{}',
    'FAIL .*/.claude/skills/a/b/SKILL.md has a shell command that runs before any hook',
  ],
  [
    'a slash command with a command',
    '.claude/commands/x.md',
    '```!\ndate\n```',
    '{}',
    'FAIL .*/x.md has a shell',
  ],
  [
    'a skill, while the project allows their commands',
    '.claude/skills/a/SKILL.md',
    '!`date`',
    '{"disableSkillShellExecution": false}',
    'FAIL .*SKILL.md',
  ],
])('not protected in a folder whose project has %s', async (_name, file, text, local, says) => {
  userSettings({ disableSkillShellExecution: local !== '{}' })
  const cwd = temporaryFolder()
  place(join(cwd, '.claude/settings.local.json'), local)
  place(join(cwd, file), text)
  const { stdout } = await run(cwd, 'doctor', '--dialect', 'claude')
  expect(stdout).toMatch(new RegExp(`^${says}`, 'm'))
  expect(stdout).toMatch(/\nNOT protected\n$/)
})

test.each<[string, string, string, object]>([
  ['a hook after calls', '.claude/settings.json', '{"hooks": {"PostToolUse": [{}]}}', {}],
  ['a skill without a command', '.claude/skills/a/SKILL.md', 'Look at `date`!', {}],
  [
    'a skill whose commands the user has switched off',
    '.claude/skills/a/SKILL.md',
    '!`date`',
    { disableSkillShellExecution: true },
  ],
])('works in a folder whose project has %s', async (_name, file, text, more) => {
  userSettings(more)
  const cwd = temporaryFolder()
  place(join(cwd, file), text)
  const { stdout } = await run(cwd, 'doctor', '--dialect', 'claude')
  expect(stdout).toMatch(/\nworks\n$/)
})

test('not protected beside an extension of Gemini CLI with a hook that can change a call', async () => {
  place(join(home, 'bin', 'gemini'), '#!/bin/sh\necho 0.61.0\n')
  chmodSync(join(home, 'bin', 'gemini'), 0o755)
  await run(home, 'install', '--dialect', 'gemini', '--yes')
  const cwd = temporaryFolder()
  const verdict = async () => (await run(cwd, 'doctor', '--dialect', 'gemini')).stdout
  const file = join(home, '.gemini/extensions/own/hooks/hooks.json')
  place(file, '{"hooks": {"AfterTool": [{}]}}')
  expect(await verdict()).toMatch(/\nworks\n$/)
  place(file, '{"hooks": {"BeforeTool": [{}]}}')
  expect(await verdict()).toMatch(new RegExp(`\nFAIL .*${file}.*\n(.*\n)*NOT protected\n$`))
})

test('not protected in a folder whose project knows the name of the hook for Gemini CLI', async () => {
  place(join(home, 'bin', 'gemini'), '#!/bin/sh\necho 0.61.0\n')
  chmodSync(join(home, 'bin', 'gemini'), 0o755)
  await run(home, 'install', '--dialect', 'gemini', '--yes')
  const installed = readFileSync(join(home, '.gemini', 'settings.json'), 'utf8')
  const [name = ''] = /countersign-\w{16}/.exec(installed) ?? []
  const cwd = temporaryFolder()
  const doctorAfter = async (disabled: string): Promise<string> => {
    place(join(cwd, '.gemini', 'settings.json'), JSON.stringify({ hooksConfig: { disabled: [disabled] } }))
    return (await run(cwd, 'doctor', '--dialect', 'gemini')).stdout
  }
  expect(await doctorAfter('countersign-0000000000000000')).toMatch(/\nworks\n$/)
  const stdout = await doctorAfter(name)
  expect(stdout).toContain(`FAIL  \`hooksConfig.disabled\` in ${cwd}/.gemini/settings.json`)
  expect(stdout).toMatch(/\nNOT protected\n$/)
})

test.each(['SHELLOPTS=noexec', 'export LD_TRACE_LOADED_OBJECTS=1'])(
  'not protected while ~/.codex/.env has %s',
  async (line) => {
    await run(home, 'install', '--dialect', 'codex', '--yes')
    place(join(home, '.codex', '.env'), `OPENAI_API_KEY=x\n`)
    const verdict = async () => (await run(home, 'doctor', '--dialect', 'codex')).stdout
    expect(await verdict()).toMatch(/\nnot tried: .*\n$/)
    place(join(home, '.codex', '.env'), `OPENAI_API_KEY=x\n${line}\n`)
    expect(await verdict()).toMatch(/\nFAIL .*\.codex\/\.env keeps the hook.*\n(.*\n)*NOT protected\n$/)
  },
)

const doctorOf = async (client: string, more: NodeJS.ProcessEnv): Promise<string> => {
  await run(home, 'install', '--dialect', client, '--yes')
  return (await runIn(more, home, 'doctor', '--dialect', client)).stdout
}

test.each(['BASH_ENV', 'SHELLOPTS', 'LD_PRELOAD'])(
  'not protected while the environment has %s',
  async (name) => {
    // None of these values does anything.
    const stdout = await doctorOf('claude', { [name]: name === 'SHELLOPTS' ? 'hashall' : '/nowhere' })
    expect(stdout).toContain(`FAIL  \`${name}\` in the environment can keep the hook from running`)
    expect(stdout).toMatch(/\nNOT protected\n$/)
  },
)

test('works while the environment has folders of libraries and values without a meaning for shells', async () => {
  const stdout = await doctorOf('claude', {
    LD_LIBRARY_PATH: '/nowhere',
    BASH_ENV: '',
    ENV: 'production',
    'BASH_FUNC_which%%': '() { :; }',
  })
  expect(stdout).toContain('note  `LD_LIBRARY_PATH` is set here')
  expect(stdout).toMatch(/\nworks\n$/)
})

test.each(['codex', 'copilot'])(
  '%s: the hook is tried with the shell that the client uses',
  async (client) => {
    place(join(home, 'quiet.sh'), 'exit 0\n')
    const says = `FAIL  ${client}: the installed command does not block (exit code 0)`
    expect(await doctorOf(client, { BASH_ENV: join(home, 'quiet.sh') })).toContain(says)
  },
)

test('gemini: the hook is tried with the first bash of the PATH', async () => {
  place(join(home, 'bin', 'bash'), '#!/bin/sh\nexit 0\n')
  chmodSync(join(home, 'bin', 'bash'), 0o755)
  expect(await doctorOf('gemini', {})).toContain(
    'FAIL  gemini: the installed command does not block (exit code 0)',
  )
})
