import { entriesOf, pathsWritten, runsWritten } from './written.ts'
import { classifyCommand, classifyPowerShell } from '../../shell/classify.ts'
import { folderFiles, scriptFile } from '../../shell/tables/interpreters.ts'
import type { ShellReading } from '../../shell/types.ts'
import { refused, type Decided } from '../../policy/decide.ts'
import { foldersOf } from '../../policy/readers/folders.ts'
import { plainPath, resolvedIn, withPlainPaths } from '../../policy/readers/file-paths.ts'
import { toldOf } from '../../policy/external-tools.ts'
import {
  agentTool,
  runsInFolder,
  withAnnotations,
  type AgentTool,
  type ToolAnnotations,
} from '../../policy/agent-tools.ts'
import type { Script } from '../../policy/shell-params.ts'
import { protocolToolKind, protocolToolSideEffect } from '../../policy/protocol-tools.ts'
import type { Json, JsonObject, Label, SideEffect } from '../../policy/types.ts'
import type { GovernanceSettings } from '../../policy/settings.ts'

/** This is found before the chain lock is taken, because the work is expensive. */
export interface ReadCall {
  readonly tool: string
  readonly sideEffect: SideEffect
  readonly outputLabels: readonly Label[]
  /** Such a call may do anything. It counts as egress with any label other than `untrusted`. */
  readonly isScript: boolean
  /** Programs that a shell's command starts. */
  readonly programs: readonly string[]
  /** Entries of `written.ts` for the files that the call writes. */
  readonly writes: readonly string[]
  /** Why the call has its side effect. Null if the tool runs no code. */
  readonly because: string | null
  readonly annotations: ToolAnnotations
  /**
   * What the call's hash and approval cover: the arguments. If the tool may run in the client's folder, also
   * `cwd` and the folders. For a shell also `scripts`, the files that it runs.
   */
  readonly covered: JsonObject
  /** Null if a path climbs above the root or contains a NUL character. */
  readonly params: JsonObject | null
}

/** What the adapter on the machine of the agent says of a shell's call. */
export interface Surroundings {
  readonly cwd?: string | undefined
  /** The folders without symbolic links, if they differ. */
  readonly real_folders?: readonly string[] | undefined
  /** Files that the words of the command name. The service keeps those that the command runs. */
  readonly scripts?: readonly Script[] | undefined
}

export const pathAboveRoot: Decided = refused(
  'path above the root',
  'A path of the call climbs above the root or contains a NUL character: correct the path.',
)

/** `around` is null for arguments of an approval, which already contain the folder. */
export function readCall(
  tool: string,
  input: JsonObject,
  annotations: ToolAnnotations,
  around: Surroundings | null = null,
): ReadCall {
  const known = agentTool(tool) ?? (tool.startsWith('mcp__') ? protocolTool(tool) : unknownTool(tool))
  const { sideEffect, outputLabels, code } = known
  const reading = code === undefined ? null : readCode(code, input)
  const covered = around === null ? input : coveredBy(tool, input, around, reading)
  return {
    tool,
    sideEffect: reading?.kind === 'egress' ? 'egress' : sideEffect,
    outputLabels,
    isScript: reading?.kind === 'script',
    programs: reading?.programs ?? [],
    writes: entriesOf(reading?.writes ?? (sideEffect === 'write' ? pathsWritten(input) : [])),
    because: reading?.because ?? null,
    annotations,
    covered,
    params: withPlainPaths(tool, covered),
  }
}

/** A tool with an unknown name may be a shell. Tools that open files get resolved paths instead. */
function coveredBy(
  tool: string,
  input: JsonObject,
  around: Surroundings,
  reading: ShellReading | null,
): JsonObject {
  if (!runsInFolder(tool)) return resolvedIn(around.cwd, tool, input)
  const isShell = agentTool(tool) !== undefined
  if (!isShell && around.cwd === undefined) return input
  const cwd = foldersOf(input, around.cwd, around.real_folders ?? [])
  const scripts = isShell ? scriptsOf(around.scripts ?? [], reading) : []
  const { cwd: own, ...others } = input
  // A value that is no text is no folder. For a shell it was refused before.
  const isOther = own !== undefined && own !== null && typeof own !== 'string'
  return {
    ...others,
    ...(cwd === undefined ? {} : { cwd: isOther ? [cwd, own] : cwd }),
    ...(scripts.length === 0 ? {} : { scripts: scripts.map((each) => ({ ...each })) }),
  }
}

/**
 * A file counts if the command runs it, or if a program reads it from the folder: `make` reads `Makefile`. If
 * the command runs code that cannot be read, a file that is named like a script counts too: `cat deploy.sh |
 * bash`. If it is then unknown which file is run, every file counts: `cat deploy | bash`.
 */
function scriptsOf(sent: readonly Script[], reading: ShellReading | null): readonly Script[] {
  const named = new Map(reading?.scripts.map((word) => [plain(word), word]))
  const runsCode = reading !== null && reading.kind !== 'write'
  const found = new Set(sent.map(({ word }) => plain(word)))
  const isUnknown = runsCode && (named.size === 0 || [...named.keys()].some((word) => !found.has(word)))
  const kept = sent.filter(
    ({ word, path }) =>
      isUnknown ||
      named.has(plain(word)) ||
      readsFromFolder(word, path) ||
      (runsCode && (scriptFile.test(word) || scriptFile.test(path ?? ''))),
  )
  for (const { word } of kept) named.delete(plain(word))
  return [...kept, ...[...named.values()].map((word) => ({ word, path: null, sha256: null }))]
}

/** The program reads what it runs from a file with the name of this one. */
const readsFromFolder = (program: string, path: string | null): boolean =>
  folderFiles.get(program)?.includes(path?.split(/[/\\]/).at(-1) ?? '') === true

/** `./deploy.sh` and `deploy.sh` are one file. */
const plain = (word: string): string => plainPath(word) ?? word

/**
 * Counts as write. But in `mcp_<server>_<tool>` or `MCP:<tool>` it is unclear which part is the server's
 * name. If such a name contains a verb of sending, it counts as egress: `mcp_tracker_create_issue`.
 */
function unknownTool(name: string): AgentTool {
  const own = /^mcp[_:](.+)$/is.exec(name)?.[1]
  const sends = own !== undefined && protocolToolKind(`mcp__server__${own}`) === 'egress'
  return { sideEffect: sends ? 'egress' : 'write', outputLabels: [] }
}

function protocolTool(name: string): AgentTool {
  const { sideEffect, label } = protocolToolSideEffect(name)
  return { sideEffect, outputLabels: label === null ? [] : [label] }
}

function readCode(code: NonNullable<AgentTool['code']>, input: JsonObject): ShellReading {
  if (code === 'script') return { ...unread, because: 'it runs a program whose code is unknown' }
  // With the field `ws`, the tool opens a socket and runs no command.
  if (input['ws'] !== undefined) return { ...unread, kind: 'egress', because: 'it opens a connection' }
  // With both `command` and `cmd`, it is unknown which one the client runs. So the stricter result counts.
  const given = [input['command'], input['cmd']].filter((command) => command !== undefined)
  const readings = (given.length === 0 ? [undefined] : given).map((command) => readCommand(code, command))
  const strictest = readings.reduce((a, b) => (strictness[b.kind] > strictness[a.kind] ? b : a))
  return {
    ...strictest,
    scripts: [...new Set(readings.flatMap(({ scripts }) => scripts))],
    programs: [...new Set(readings.flatMap(({ programs }) => programs))],
    writes: [...new Set(readings.flatMap(({ writes }) => writes))],
  }
}

const unread: ShellReading = { kind: 'script', because: '', scripts: [], programs: [], writes: [] }

const strictness = { write: 0, script: 1, egress: 2 } as const

function readCommand(code: 'bash' | 'powershell', given: Json | undefined): ShellReading {
  const command = textOf(given)
  if (command === null) return { ...unread, because: 'its command cannot be read' }
  return code === 'powershell' ? { ...classifyPowerShell(command), scripts: [] } : classifyCommand(command)
}

/** Quotes the words of an array: `["ls", "a b"]` becomes `'ls' 'a b'`. Returns null for other values. */
function textOf(command: Json | undefined): string | null {
  if (typeof command === 'string') return command
  if (!Array.isArray(command)) return null
  const words = command.filter((word) => typeof word === 'string')
  if (words.length < command.length) return null
  return words.map((word) => `'${word.replaceAll("'", `'\\''`)}'`).join(' ')
}

export interface Classified {
  readonly sideEffect: SideEffect
  readonly outputLabels: readonly Label[]
  /** Why a command counts as egress. Empty for any other call. */
  readonly words: string
}

export function classifyIn(
  call: ReadCall,
  labels: readonly Label[],
  settings: Pick<GovernanceSettings, 'external_tools'>,
  written: readonly string[] = [],
): Classified {
  const said = toldOf(settings.external_tools, call.tool)
  const held = labels.filter((label) => label !== 'untrusted')
  const runs = call.sideEffect === 'write' ? runsWritten(call.programs, written) : null
  const sendsData = (call.isScript || runs !== null) && held.length > 0
  const sideEffect = said.side_effect ?? (sendsData ? 'egress' : call.sideEffect)
  const classified = withAnnotations(
    { sideEffect, outputLabels: said.output_labels ?? call.outputLabels },
    call.annotations,
  )
  const isOwn = said.side_effect === undefined && sideEffect === 'egress' && call.because !== null
  return {
    ...classified,
    words: isOwn
      ? wordsOf(call.isScript || runs === null ? call.because : sentenceOf(runs), sendsData ? held : [])
      : '',
  }
}

const sentenceOf = ({ program, file }: Exclude<ReturnType<typeof runsWritten>, null>): string =>
  file === ''
    ? `\`${program}\` may run a file that this session has written`
    : `\`${program}\` may run \`${file}\`, which this session has written`

function wordsOf(because: string, held: readonly Label[]): string {
  const carried = held.length === 0 ? '' : `, and the session holds data labelled ${held.join(', ')}`
  return ` The command counts as egress because ${because}${carried}.`
}
