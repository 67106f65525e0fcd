import { classifyCommand } from '../../shell/classify.ts'
import { classifyPowerShell } from '../../shell/powershell.ts'
import { refused, type Decided } from '../../policy/decide.ts'
import { withPlainPaths } from '../../policy/readers/file-paths.ts'
import { toldOf } from '../../policy/external-tools.ts'
import { agentTool, withAnnotations, type AgentTool, type ToolAnnotations } from '../../policy/agent-tools.ts'
import { protocolToolKind, protocolToolSideEffect } from '../../policy/protocol-tools.ts'
import type { Json, JsonObject, Label, SideEffect } from '../../policy/types.ts'
import type { GovernanceSettings } from '../../policy/settings.ts'

/**
 * The properties of a call that do not depend on its agent session. `readCall` finds them before the chain lock is
 * taken, because the work is expensive.
 */
export interface ReadCall {
  readonly tool: string
  readonly sideEffect: SideEffect
  readonly outputLabels: readonly Label[]
  /**
   * Whether the call runs code that may do anything. Such a call counts as egress if its session has any label other
   * than `untrusted`.
   */
  readonly isScript: boolean
  /** The reason for the call's side effect, if the tool runs code. Is null for any other tool. */
  readonly because: string | null
  readonly annotations: ToolAnnotations
  /**
   * The arguments as rules see them. Is null if a path climbs above the root or contains a NUL character. The call's
   * hash and the call's approval use the original arguments.
   */
  readonly params: JsonObject | null
}

/** The denial of a call whose `params` are null. */
export const pathAboveRoot: Decided = refused(
  'path above the root',
  'A path of the call climbs above the root or contains a NUL character: correct the path.',
)

/** Classifies a call by its tool's name and arguments. */
export function readCall(tool: string, input: JsonObject, annotations: ToolAnnotations): ReadCall {
  const known = agentTool(tool) ?? (tool.startsWith('mcp__') ? protocolTool(tool) : unknownTool(tool))
  const { sideEffect, outputLabels, code } = known
  const params = withPlainPaths(tool, input)
  if (code === undefined)
    return { tool, sideEffect, outputLabels, isScript: false, because: null, annotations, params }
  const { kind, because } = readCode(code, input)
  return {
    tool,
    sideEffect: kind === 'egress' ? 'egress' : sideEffect,
    outputLabels,
    isScript: kind === 'script',
    because,
    annotations,
    params,
  }
}

/**
 * Classifies a tool whose name is unknown. The tool counts as write, with one exception. Some clients write a protocol
 * tool as `mcp_<server>_<tool>` or `MCP:<tool>`, and it is unclear which part is the server's name. If such a name
 * contains a verb of sending, the tool counts as egress. Example: `mcp_tracker_create_issue`.
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

function readCode(code: NonNullable<AgentTool['code']>, input: JsonObject) {
  if (code === 'script')
    return { kind: 'script', because: 'it runs a program whose code is unknown' } as const
  // With the field `ws`, the tool opens a socket and runs no command.
  if (input['ws'] !== undefined) return { kind: 'egress', because: 'it opens a connection' } as const
  // If a call has both `command` and `cmd`, it is unknown which of the two the client runs. So the stricter result
  // counts.
  const given = [input['command'], input['cmd']].filter((command) => command !== undefined)
  const readings = (given.length === 0 ? [undefined] : given).map((command) => readCommand(code, command))
  return readings.reduce((a, b) => (strictness[b.kind] > strictness[a.kind] ? b : a))
}

const strictness = { write: 0, script: 1, egress: 2 } as const

function readCommand(code: 'bash' | 'powershell', given: Json | undefined) {
  const command = textOf(given)
  if (command === null) return { kind: 'script', because: 'its command cannot be read' } as const
  return code === 'powershell' ? classifyPowerShell(command) : classifyCommand(command)
}

/**
 * Returns a command as text. Quotes the words of an array, so that each word stays one word: `["ls", "a b"]` becomes
 * `'ls' 'a b'`. Returns null if the command is neither text nor an array of words.
 */
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
  /** A sentence that says why a command counts as egress. Is empty for any other call. */
  readonly words: string
}

/** Classifies a call in an agent session with these labels, under these settings. */
export function classifyIn(
  call: ReadCall,
  labels: readonly Label[],
  settings: Pick<GovernanceSettings, 'external_tools'>,
): Classified {
  const said = toldOf(settings.external_tools, call.tool)
  const held = labels.filter((label) => label !== 'untrusted')
  const sendsData = call.isScript && held.length > 0
  const sideEffect = said.side_effect ?? (sendsData ? 'egress' : call.sideEffect)
  const classified = withAnnotations(
    { sideEffect, outputLabels: said.output_labels ?? call.outputLabels },
    call.annotations,
  )
  const isOwn = said.side_effect === undefined && sideEffect === 'egress' && call.because !== null
  return { ...classified, words: isOwn ? wordsOf(call.because, sendsData ? held : []) : '' }
}

function wordsOf(because: string, held: readonly Label[]): string {
  const carried = held.length === 0 ? '' : `, and the session holds data labelled ${held.join(', ')}`
  return ` The command counts as egress because ${because}${carried}.`
}
