import type { Label, SideEffect } from './types.ts'

/** What a tool of an agent client does, before its arguments are read. */
export interface AgentTool {
  readonly sideEffect: SideEffect
  /** Labels of what it returns. */
  readonly outputLabels: readonly Label[]
  /** Which language the argument with its code is in; `script`: in some other one, a program in any case. */
  readonly code?: 'bash' | 'powershell' | 'script'
}

const internal: AgentTool = { sideEffect: 'read', outputLabels: ['internal'] }
const web: AgentTool = { sideEffect: 'read', outputLabels: ['untrusted'] }
/** Of a server that nobody knows more of: company data, and written by strangers. */
const foreign: AgentTool = { sideEffect: 'read', outputLabels: ['internal', 'untrusted'] }
/** Tells the agent of its own tools, tasks and helpers: no data of the company's. */
const own: AgentTool = { sideEffect: 'read', outputLabels: [] }
const change: AgentTool = { sideEffect: 'write', outputLabels: [] }
const sending: AgentTool = { sideEffect: 'egress', outputLabels: [] }
const bash: AgentTool = { ...change, code: 'bash' }
const script: AgentTool = { ...change, code: 'script' }

/**
 * The tools of the agent clients by the names their hooks report (specification, "Classification of agent tool calls";
 * the newer names as docs/decisions/0040 has them). A name that is not here is a write, never a read.
 */
const tools: readonly (readonly [AgentTool, string])[] = [
  [internal, 'Read Grep Glob LS NotebookRead LSP BashOutput TaskOutput'],
  [
    internal,
    'read_file read_many_files list_directory glob grep grep_search search_file_content view view_image',
  ],
  [internal, 'read_background_output file_search list_dir semantic_search'],
  [web, 'WebFetch WebSearch web_fetch google_web_search fetch_webpage'],
  [foreign, 'ReadMcpResourceTool ReadMcpResourceDirTool ListMcpResourcesTool'],
  [own, 'ToolSearch ListAgents TaskGet TaskList CronList WaitForMcpServers'],
  [change, 'Edit MultiEdit Write NotebookEdit apply_patch write_file replace create edit create_file'],
  [change, 'Agent Task Skill TaskStop KillShell KillBash SendMessage'],
  // Each leaves the machine: a phone, a page for others, a run somewhere else.
  [sending, 'PushNotification SendUserFile Artifact RemoteTrigger'],
  [bash, 'Bash Monitor bash Shell shell exec_command run_shell_command run_in_terminal runTerminalCommand'],
  [{ ...change, code: 'powershell' }, 'PowerShell'],
  // Keystrokes for a program that runs already, a program that starts agents, queries in a language of their own.
  [script, 'write_stdin Workflow sql'],
]

const byName: ReadonlyMap<string, AgentTool> = new Map(
  tools.flatMap(([tool, names]) => names.split(' ').map((name) => [name, tool] as const)),
)

/** What is known of an agent tool by its name; undefined for an unknown one. */
export function agentTool(name: string): AgentTool | undefined {
  return byName.get(name)
}

/** Hints a protocol server gives of its tool; never trusted to loosen anything. */
export interface ToolAnnotations {
  readonly readOnlyHint?: unknown
  readonly destructiveHint?: unknown
  readonly openWorldHint?: unknown
  /** The gateway's own word: the tool is no longer what the session was first shown (docs/decisions/0036). */
  readonly definitionChanged?: unknown
}

/** A classification as its tool's annotations make it stricter (specification, "Classification" 2). */
export function withAnnotations(
  tool: Pick<AgentTool, 'sideEffect' | 'outputLabels'>,
  annotations: ToolAnnotations,
): Pick<AgentTool, 'sideEffect' | 'outputLabels'> {
  const changes = annotations.destructiveHint === true || annotations.readOnlyHint === false
  const sideEffect = tool.sideEffect === 'read' && changes ? 'write' : tool.sideEffect
  if (annotations.openWorldHint !== true) return { ...tool, sideEffect }
  return {
    sideEffect: sideEffect === 'write' ? 'egress' : sideEffect,
    outputLabels: [...new Set([...tool.outputLabels, 'untrusted'])],
  }
}
