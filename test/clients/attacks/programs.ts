import { appendFileSync, mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { Place } from '../client.ts'
import { change, machineOf } from '../machine.ts'
import { oneAttack, repository, type AttackRun, type Open, type Turns } from './attack.ts'
import { managedSettings as claudeManaged, projectSettings as claudeProject } from './claude.ts'
import { projectSettings as opencodeProject, withoutProject } from './opencode.ts'

/*
 * Programs that the settings of a repository name, and that a client starts by itself. No call starts them, so no hook is
 * asked. copilot.ts has the rows of Copilot CLI.
 */

/** Writes settings of the repository that name this shell command as a program. */
type Names = (place: Place, line: string) => void
interface Case {
  readonly attack: string
  readonly by: Names
  /** What an administrator does. Then the program does not start. */
  readonly closed?: (place: Place) => void
  readonly expected?: Open
  readonly before?: string
  readonly turns?: Turns
}
const managed = (
  client: AttackRun['client'],
  name: string,
  { attack, by, closed, ...more }: Case,
): AttackRun =>
  oneAttack(client, 'managed', name, attack, {
    turns: () => [],
    doctor: 'works',
    setup: (place) => {
      by(place, `echo ran > '${join(place.work, `${client}-managed-${name}`)}'`)
      closed?.(place)
    },
    ...more,
  })
const write = (file: string, text: string): void => {
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(file, text)
}
const onMachine = (file: string) => (place: Place) => join(machineOf(place), 'etc', file)
const shell = (line: string): object => ({ command: 'sh', args: ['-c', line] })

const claudeHelper =
  (name: string): Names =>
  (place, line) =>
    change(claudeProject(place), { [name]: `${line}; echo '{}'` })
/** An organization that collects the telemetry of Claude Code sets such variables. */
const telemetry =
  'export CLAUDE_CODE_ENABLE_TELEMETRY=1 OTEL_METRICS_EXPORTER=otlp OTEL_EXPORTER_OTLP_PROTOCOL=http/json OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1'
const claudeServer: Names = (place, line) => {
  change(join(place.home, '.claude.json'), { projects: { [place.work]: { hasTrustDialogAccepted: true } } })
  change(join(place.work, '.mcp.json'), { mcpServers: { own: shell(line) } })
  change(claudeProject(place), { enableAllProjectMcpServers: true })
}

const geminiProject = ({ work }: Place): string => join(work, '.gemini', 'settings.json')
const geminiManaged = onMachine('gemini-cli/settings.json')
const geminiServer: Names = (place, line) =>
  change(geminiProject(place), { mcpServers: { own: shell(line) } })
const geminiDiscovery: Names = (place, line) => {
  const script = join(place.root, 'discover.sh')
  write(script, `${line}\necho '[]'\n`)
  change(geminiProject(place), { tools: { discoveryCommand: `sh ${script}` } })
}

const codexServer: Names = (place, line) => {
  repository(place)
  const trust = `\n[projects.${JSON.stringify(place.work)}]\ntrust_level = "trusted"\n`
  appendFileSync(join(place.home, '.codex', 'config.toml'), trust)
  const text = `[mcp_servers.own]\ncommand = "sh"\nargs = ["-c", ${JSON.stringify(line)}]\n`
  write(join(place.work, '.codex', 'config.toml'), text)
}

const opencodeServer: Names = (place, line) =>
  opencodeProject(place, { mcp: { own: { type: 'local', command: ['sh', '-c', line] } } })
const opencodeFormatter: Names = (place, line) =>
  opencodeProject(place, { formatter: { own: { command: ['sh', '-c', line], extensions: ['.txt'] } } })
/** A change of a file, after which opencode starts its formatter. */
const changesFile: Turns = (client, _file, { work }) => [[client.write(join(work, 'a.txt'), 'a')]]

/** Why such a program runs. The action of an administrator is tested by the row of the same client with this name. */
const starts =
  (client: AttackRun['client'], version: string) =>
  (helps: string, closing: string): Open => ({
    why: `${version} starts the program itself, and asks no hook.`,
    helps,
    closedBy: `${client}-managed-${closing}`,
  })
const claude = starts('claude', 'Claude Code 2.1.329')
const gemini = starts('gemini', 'Gemini CLI 0.61.0')

const ofClaude: readonly AttackRun[] = [
  managed('claude', 'key-helper', {
    attack: "`apiKeyHelper` in the project's settings, with `-p` in a folder that is not trusted",
    by: claudeHelper('apiKeyHelper'),
    expected: claude('Set `"apiKeyHelper": ""` in the managed settings.', 'key-helper-empty'),
  }),
  managed('claude', 'key-helper-empty', {
    attack: 'the same, where the managed settings have `"apiKeyHelper": ""`',
    by: claudeHelper('apiKeyHelper'),
    closed: (place) => change(claudeManaged(place), { apiKeyHelper: '' }),
  }),
  managed('claude', 'headers-helper', {
    attack: "`otelHeadersHelper` in the project's settings, where the environment turns telemetry on",
    by: claudeHelper('otelHeadersHelper'),
    before: telemetry,
    expected: claude('Set `"otelHeadersHelper": ""` in the managed settings.', 'headers-helper-empty'),
  }),
  managed('claude', 'headers-helper-empty', {
    attack: 'the same, where the managed settings have `"otelHeadersHelper": ""`',
    by: claudeHelper('otelHeadersHelper'),
    before: telemetry,
    closed: (place) => change(claudeManaged(place), { otelHeadersHelper: '' }),
  }),
  managed('claude', 'mcp', {
    attack: "a trusted project's MCP server (`.mcp.json`), with `enableAllProjectMcpServers` in its settings",
    by: claudeServer,
    expected: claude(
      'Write `{"mcpServers": {}}`, or the servers that everybody uses, into `/etc/claude-code/managed-mcp.json`.',
      'mcp-closed',
    ),
  }),
  managed('claude', 'mcp-closed', {
    attack: 'the same, where `/etc/claude-code/managed-mcp.json` names no servers',
    by: claudeServer,
    closed: (place) => write(onMachine('claude-code/managed-mcp.json')(place), '{"mcpServers": {}}'),
  }),
]

const ofGemini: readonly AttackRun[] = [
  managed('gemini', 'mcp', {
    attack: "a trusted project's MCP server (`mcpServers` in `.gemini/settings.json`)",
    by: geminiServer,
    expected: gemini(
      'In `/etc/gemini-cli/settings.json` name at least one server as `mcp.allowed`, and define each of these servers in the same file.',
      'mcp-defined',
    ),
  }),
  managed('gemini', 'mcp-empty', {
    attack: 'the same, where the managed settings have `"mcp": {"allowed": []}`',
    by: geminiServer,
    closed: (place) => change(geminiManaged(place), { mcp: { allowed: [] } }),
    expected: gemini('An empty list allows every server: name at least one.', 'mcp-defined'),
  }),
  managed('gemini', 'mcp-named', {
    attack: 'the same, where the managed settings allow a server of this name and do not define it',
    by: geminiServer,
    closed: (place) => change(geminiManaged(place), { mcp: { allowed: ['own'] } }),
    expected: gemini('Define each allowed server in the managed settings.', 'mcp-defined'),
  }),
  managed('gemini', 'mcp-defined', {
    attack: 'the same, where the managed settings also define the server of this name',
    by: geminiServer,
    closed: (place) =>
      change(geminiManaged(place), { mcp: { allowed: ['own'] }, mcpServers: { own: { command: 'true' } } }),
  }),
  managed('gemini', 'discovery', {
    attack: "`tools.discoveryCommand` in a trusted project's settings",
    by: geminiDiscovery,
    expected: gemini('Set `tools.discoveryCommand` to `""` in the managed settings.', 'discovery-empty'),
  }),
  managed('gemini', 'discovery-empty', {
    attack: 'the same, where the managed settings have `"tools": {"discoveryCommand": ""}`',
    by: geminiDiscovery,
    closed: (place) => change(geminiManaged(place), { tools: { discoveryCommand: '' } }),
  }),
]

const ofOthers: readonly AttackRun[] = [
  managed('codex', 'mcp', {
    attack: "a trusted project's MCP server (`mcp_servers` in `.codex/config.toml`)",
    by: codexServer,
    expected: starts('codex', 'Codex 0.169.0')(
      'Add an empty table `[mcp_servers]` to `/etc/codex/requirements.toml`.',
      'mcp-closed',
    ),
  }),
  managed('codex', 'mcp-closed', {
    attack: 'the same, where `/etc/codex/requirements.toml` has an empty table `[mcp_servers]`',
    by: codexServer,
    closed: (place) => appendFileSync(onMachine('codex/requirements.toml')(place), '\n[mcp_servers]\n'),
  }),
  ...(
    [
      ['mcp', "a project's MCP server (`mcp` in `opencode.json`)", opencodeServer, () => []],
      ['formatter', "a project's `formatter` (`opencode.json`)", opencodeFormatter, changesFile],
    ] as const
  ).flatMap(([name, attack, by, turns]) => [
    managed('opencode', name, {
      ...{ attack, by, turns },
      expected: starts('opencode', 'opencode 1.18.33')(
        'Set `OPENCODE_DISABLE_PROJECT_CONFIG=1` for everybody who starts opencode.',
        `${name}-disabled`,
      ),
    }),
    managed('opencode', `${name}-disabled`, {
      attack: 'the same, with `OPENCODE_DISABLE_PROJECT_CONFIG=1` in the environment',
      ...{ by, turns, before: withoutProject },
    }),
  ]),
]

export const programAttacks: readonly AttackRun[] = [...ofClaude, ...ofGemini, ...ofOthers]
