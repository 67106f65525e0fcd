import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { machineOf } from '../machine.ts'
import type { AttackRun } from './attack.ts'
import {
  version,
  write,
  inProject,
  projectSettings,
  attack,
  rewriting,
  hiding,
  running,
  looking,
  ownShell,
  programs,
  tools,
  calledByName,
  withoutProject,
  withoutSkills,
  offByUser,
  loaded,
  refuses,
  told,
} from './opencode-setups.ts'

export const opencodeAttacks: readonly AttackRun[] = [
  attack(
    'managed',
    'agent',
    {
      attack:
        "permissions that allow everything, in a project's settings and agents, and `--dangerously-skip-permissions`",
      more: { words: ['--dangerously-skip-permissions'], doctor: 'works' },
    },
    (place) => {
      projectSettings(place, { permission: 'allow' })
      inProject(place, 'agent/build.md', '---\npermission:\n  "*": allow\n---\nYou build.\n')
    },
  ),
  attack('managed', 'pure', {
    attack: '`--pure`, which leaves out all plugins: no model answers then',
    more: { words: ['--pure'], ...refuses },
  }),
  attack(
    'managed',
    'pure-providers',
    {
      attack:
        "`--pure`, with other `enabled_providers` in the project's settings and in `OPENCODE_CONFIG_CONTENT`",
      more: {
        words: ['--pure'],
        before: `export OPENCODE_CONFIG_CONTENT='{"enabled_providers": ["played"]}'`,
        ...refuses,
      },
    },
    (place) => projectSettings(place, { enabled_providers: ['played'], plugin: [] }),
  ),
  attack(
    'managed',
    'dotenv',
    { attack: "`OPENCODE_PURE` and `OPENCODE_TEST_MANAGED_CONFIG_DIR` in a project's `.env`" },
    ({ work }) => write(join(work, '.env'), 'OPENCODE_PURE=1\nOPENCODE_TEST_MANAGED_CONFIG_DIR=/nowhere\n'),
  ),
  attack(
    'managed',
    'bunfig',
    { attack: 'a program that `bunfig.toml` of the project preloads' },
    (place, id) => {
      write(join(place.work, 'bunfig.toml'), 'preload = ["./preload.js"]\n')
      write(join(place.work, 'preload.js'), running(id, place))
    },
  ),
  attack(
    'managed',
    'shell',
    { attack: "a program of the project as `shell` in the project's settings", harmless: true },
    ownShell,
  ),
  attack(
    'managed',
    'rewrite',
    {
      attack: "a project's own plugin makes another command of the call: then every call is blocked",
      harmless: true,
      more: { ...refuses, ...told },
    },
    (place, id) => inProject(place, 'plugin/own.js', rewriting(id)),
  ),
  attack(
    'managed',
    'hide',
    {
      attack: 'the same, and it shows another call to the plugins after it',
      harmless: true,
      more: { ...refuses, ...told },
    },
    (place, id) => inProject(place, 'plugin/own.js', hiding(id)),
  ),
  attack(
    'managed',
    'no-python',
    { attack: 'the Python that the plugin starts is not there', more: refuses },
    (place) => {
      const file = join(machineOf(place), 'opt/countersign/service_hook.js')
      write(file, readFileSync(file, 'utf8').replaceAll('/usr/bin/python3', '/usr/bin/python3.0'))
    },
  ),
  attack(
    'managed',
    'broken',
    { attack: 'the plugin cannot be loaded: no model answers then', more: { ...refuses, ...told } },
    (place) => write(join(machineOf(place), 'opt/countersign/service_hook.js'), 'export default {'),
  ),
  attack(
    'managed',
    'command',
    {
      attack: "a repository's command with a shell command in its text (``!`...` ``)",
      silent: true,
      more: { words: ['--command', 'look'] },
    },
    (place, id) => inProject(place, 'command/look.md', looking(id)),
  ),
  attack(
    'managed',
    'skill',
    {
      attack: "a repository's skill with a shell command in its text, called by name",
      expected: calledByName,
      silent: true,
      more: { words: ['--command', 'look'], ...told },
    },
    (place, id) => inProject(place, 'skill/look/SKILL.md', looking(id)),
  ),
  attack(
    'managed',
    'plugin',
    {
      attack: "a repository's plugin that runs a command when it is loaded",
      expected: programs,
      silent: true,
      more: { ...refuses, ...told },
    },
    (place, id) => inProject(place, 'plugin/own.js', running(id, place)),
  ),
  attack(
    'managed',
    'tool',
    {
      attack: "a repository's own tool that does so",
      expected: tools,
      silent: true,
      more: told,
    },
    (place, id) => inProject(place, 'tool/own.js', running(id, place)),
  ),
  {
    client: 'opencode',
    installation: 'managed',
    attacks: [
      loaded(
        'plugin-disabled',
        'the same plugin, with `OPENCODE_DISABLE_PROJECT_CONFIG=1` in the environment',
        programs,
      ),
      loaded('plugins-disabled', "the same as `plugins` of the project's `opencode.json`", programs),
      loaded('tool-disabled', 'the same tool, with this variable'),
    ],
    setup: (place) => {
      inProject(place, 'plugin/own.js', running('opencode-managed-plugin-disabled', place))
      inProject(place, 'tool/own.js', running('opencode-managed-tool-disabled', place))
      write(join(place.work, 'own.js'), running('opencode-managed-plugins-disabled', place))
      projectSettings(place, { plugins: ['./own.js'] })
    },
    before: withoutProject,
    ...told,
  },
  attack(
    'managed',
    'claude-skill',
    {
      attack: "a repository's skill in `.claude/skills`, with `OPENCODE_DISABLE_PROJECT_CONFIG=1` alone",
      expected: { ...calledByName, closedBy: 'opencode-managed-claude-skill-disabled' },
      silent: true,
      more: { words: ['--command', 'look'], before: withoutProject, ...told },
    },
    (place, id) => write(join(place.work, '.claude/skills/look/SKILL.md'), looking(id)),
  ),
  {
    client: 'opencode',
    installation: 'managed',
    attacks: [
      loaded(
        'skill-disabled',
        'both skills, with `OPENCODE_DISABLE_EXTERNAL_SKILLS=1` too: they are not found',
      ),
      loaded('claude-skill-disabled', 'the same for the one in `.claude/skills`'),
    ],
    setup: (place) => {
      inProject(place, 'skill/look/SKILL.md', looking('opencode-managed-skill-disabled'))
      const file = join(place.work, '.claude/skills/look/SKILL.md')
      write(file, looking('opencode-managed-claude-skill-disabled'))
    },
    words: ['--command', 'look'],
    before: withoutSkills,
    doctor: 'works',
    ...refuses,
  },
  attack('managed', 'test-folder', {
    attack: '`OPENCODE_TEST_MANAGED_CONFIG_DIR` in the environment',
    expected: {
      why: `${version} reads its managed settings from wherever the environment of its process says.`,
      helps:
        'Start it by a wrapper that every user must use and that removes the variable, or in a container.',
    },
    more: { before: 'export OPENCODE_TEST_MANAGED_CONFIG_DIR=/nowhere', ...told },
  }),
  attack(
    'user',
    'dotenv',
    { attack: "`OPENCODE_PURE` in a project's `.env`", more: { doctor: 'works' } },
    ({ work }) => write(join(work, '.env'), 'OPENCODE_PURE=1\n'),
  ),
  attack(
    'user',
    'rewrite',
    {
      attack: "a project's own plugin makes another command of the call",
      harmless: true,
      more: told,
    },
    (place, id) => inProject(place, 'plugin/own.js', rewriting(id)),
  ),
  attack(
    'user',
    'hide',
    {
      attack: "a plugin that the project's settings name, which shows another call to the plugins after it",
      expected: {
        why: `${version} runs such a plugin before a user's own.`,
        helps: 'Install with `--managed`.',
      },
      harmless: true,
      more: { ...refuses, ...told },
    },
    (place, id) => {
      write(join(place.work, 'own.js'), hiding(id))
      projectSettings(place, { plugin: ['./own.js'] })
    },
  ),
  attack(
    'user',
    'command',
    {
      attack: "a repository's command with a shell command in its text (``!`...` ``)",
      expected: {
        why: `A person calls the command, and ${version} runs the shell commands in its text before any hook is asked.`,
        helps: 'Install with `--managed`.',
      },
      silent: true,
      more: { words: ['--command', 'look'], ...told },
    },
    (place, id) => inProject(place, 'command/look.md', looking(id)),
  ),
  attack('user', 'pure', {
    attack: '`--pure`',
    expected: offByUser,
    more: { words: ['--pure'], doctor: 'works' },
  }),
]
