import { readFileSync } from 'node:fs'
import { describe, expect, test } from '@jest/globals'
import { classifyIn, readCall } from '../../../src/calls/agents/classify.ts'
import { runsWritten, withWritten } from '../../../src/calls/agents/written.ts'
import type { JsonObject } from '../../../src/policy/types.ts'

interface AgentCall {
  readonly tool: string
  readonly input: JsonObject
}
interface Pair {
  readonly first: AgentCall
  readonly second: AgentCall
  readonly kind: string
}

const settings = { external_tools: {} }
const bash = (command: string): AgentCall => ({ tool: 'Bash', input: { command } })
const write = (file_path: string): AgentCall => ({ tool: 'Write', input: { file_path, content: 'x' } })

/** The side effect of the second call in a session that holds company data, after the first. */
function after(first: AgentCall, second: AgentCall) {
  const { writes, sideEffect } = readCall(first.tool, first.input, {})
  const earlier = classifyIn(readCall(first.tool, first.input, {}), ['internal'], settings)
  const written = sideEffect === 'egress' ? [] : withWritten([], writes)
  const read = readCall(second.tool, second.input, {})
  return { first: earlier.sideEffect, ...classifyIn(read, ['internal'], settings, written) }
}

describe('two calls that together would send company data away', () => {
  const pairs = readFileSync(new URL('../../shell/data/pairs.jsonl', import.meta.url), 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Pair)

  test('are at least 30 pairs', () => {
    expect(pairs.length).toBeGreaterThanOrEqual(30)
  })

  test.each(pairs.map((pair) => [pair.kind, JSON.stringify(pair.second.input['command']), pair] as const))(
    '%s, then %s',
    (_kind, _command, { first, second }) => {
      const found = after(first, second)
      expect([found.first, found.sideEffect]).toContain('egress')
    },
  )
})

describe('a session that wrote a file', () => {
  const rows: readonly (readonly [call: AgentCall, command: string, file: string])[] = [
    [write('/w/Makefile'), 'make test', 'Makefile'],
    [write('C:\\w\\conftest.py'), 'python -m pytest', 'conftest.py'],
    [{ tool: 'NotebookEdit', input: { notebook_path: '/w/tests/a.ipynb' } }, 'npm test', 'a.ipynb'],
    [{ tool: 'write_file', input: { absolute_path: '/w/jest.config.ts' } }, 'npx jest', 'jest.config.ts'],
    [
      { tool: 'apply_patch', input: { input: '*** Begin Patch\n*** Update File: build.rs\n' } },
      'cargo build',
      'build.rs',
    ],
    [bash('echo x > .git/hooks/pre-commit'), 'git commit -m x', 'pre-commit'],
    [bash("bash -lc 'echo x >> Makefile'"), 'make', 'Makefile'],
    [bash('cp a .husky/pre-push'), 'git commit -m x', 'pre-push'],
    [bash('f=Makefile; echo x > $f'), 'make', 'Makefile'],
    [bash('echo x | tee -a setup.py'), 'pip install .', 'setup.py'],
    [bash("sed -i 's/a/b/' package.json"), 'npm ci', 'package.json'],
    [bash('git config core.fsmonitor ./send'), 'git status', 'config'],
    [
      bash("apply_patch <<'E'\n*** Begin Patch\n*** Add File: tests/test_a.py\n+x\n*** End Patch\nE"),
      'pytest',
      'test_a.py',
    ],
    [bash("git apply <<'E'\n--- a/x\n+++ b/Gemfile\nE"), 'bundle install', 'Gemfile'],
    [{ tool: 'PowerShell', input: { command: 'Set-Content Makefile x' } }, 'make', 'Makefile'],
    [
      { tool: 'PowerShell', input: { command: "[IO.File]::WriteAllText('a/Makefile', 'x')" } },
      'make',
      'Makefile',
    ],
    [{ tool: 'PowerShell', input: { command: '"x" > Makefile' } }, 'make', 'Makefile'],
    [write('/w/.envrc'), 'direnv exec . ls', '.envrc'],
    [write('/w/Dockerfile'), 'docker build .', 'Dockerfile'],
    [write('/w/main.tf'), 'terraform plan', 'main.tf'],
    [write('/home/u/.ssh/config'), 'git fetch', 'config'],
  ]
  test.each(rows.map(([call, command, file]) => [command, file, call] as const))(
    'makes `%s` a script, and the explanation names `%s`',
    (command, file, call) => {
      const found = after(call, bash(command))
      expect(found.sideEffect).toBe('egress')
      expect(found.words).toContain(`may run \`${file}\`, which this session has written`)
    },
  )

  test.each([
    [write('/w/src/a.ts'), 'npm test'],
    [write('/w/README.md'), 'git commit -m x'],
    [write('/w/Makefile'), 'ls'],
    [write('/w/Makefile'), 'git status'],
    [write('/w/main.tf'), 'make'],
    [bash('cat Makefile'), 'make'],
    [bash('make test > out.log'), 'make'],
    [bash('pytest tests/test_a.py'), 'pytest'],
    [bash('git add Makefile'), 'make'],
    [bash('git config user.name x'), 'git status'],
  ] as const)('that no command runs does not make the next call a script: %j, %s', (call, command) => {
    expect(after(call, bash(command)).sideEffect).toBe('write')
  })

  test('whose name nobody knows may be any', () => {
    const { writes } = readCall('Bash', bash('echo x > "$(cat name)"').input, {})
    expect(runsWritten(['make'], writes)).toEqual({ program: 'make', file: '' })
    expect(runsWritten(['ls'], writes)).toBeNull()
  })

  test('of too many names counts as of every kind', () => {
    const many = Array.from({ length: 70 }, (_, at) => `terraform:${at}.tf`)
    const kept = withWritten(many.slice(0, 60), many)
    expect(kept.at(-1)).toBe('every:')
    expect(runsWritten(['git'], kept)).toEqual({ program: 'git', file: '' })
    expect(withWritten(kept, many).length).toBeLessThanOrEqual(64)
  })
})
