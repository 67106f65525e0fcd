import type { Label, SideEffect } from './types.ts'

/** The effects of a tool of an agent's client, as far as they are known without the call's arguments. */
export interface AgentTool {
  readonly sideEffect: SideEffect
  /** The labels of the tool's output. */
  readonly outputLabels: readonly Label[]
  /** The language of the code that the tool's arguments contain. `script` means any other language. */
  readonly code?: 'bash' | 'powershell' | 'script'
  /** True if the tool opens files or folders that its arguments name. */
  readonly opensPaths?: true
  /** True if the tool gives text of the agent to a server of the agent's choice. It then needs a class like its tools. */
  readonly asksServer?: true
  /** True if the tool gives commands to a shell. Tool policies on `Bash` restrict each such tool (docs/decisions/0244). */
  readonly isShell?: true
}

const internal: AgentTool = { sideEffect: 'read', outputLabels: ['internal'] }
const files: AgentTool = { ...internal, opensPaths: true }
const web: AgentTool = { sideEffect: 'read', outputLabels: ['untrusted'] }
/** A tool that reads from an unknown server. Its output may be company data, and strangers may have written it. */
const foreign: AgentTool = { sideEffect: 'read', outputLabels: ['internal', 'untrusted'] }
/** A tool that returns information about the agent's own tools, tasks and helpers, and no company data. */
const own: AgentTool = { sideEffect: 'read', outputLabels: [] }
const change: AgentTool = { sideEffect: 'write', outputLabels: [] }
const fileChange: AgentTool = { ...change, opensPaths: true }
const sending: AgentTool = { sideEffect: 'egress', outputLabels: [] }
const bash: AgentTool = { ...change, code: 'bash', isShell: true }
const script: AgentTool = { ...change, code: 'script' }

/**
 * The tools of agent clients. The names are those that the hooks of the clients report (docs/decisions/0040). A tool
 * with an unknown name counts as a write, never as a read, and rules cannot name it.
 */
const tools: readonly (readonly [AgentTool, string])[] = [
  [
    files,
    'Read Grep Glob LS NotebookRead LSP read_file read_many_files list_directory glob grep grep_search',
  ],
  [files, 'search_file_content view view_image file_search list_dir'],
  [internal, 'BashOutput TaskOutput read_background_output semantic_search'],
  [web, 'WebFetch WebSearch web_fetch google_web_search fetch_webpage'],
  [{ ...foreign, asksServer: true }, 'ReadMcpResourceTool ReadMcpResourceDirTool'],
  [foreign, 'ListMcpResourcesTool'],
  [own, 'ToolSearch ListAgents TaskGet TaskList CronList WaitForMcpServers'],
  [fileChange, 'Edit MultiEdit Write NotebookEdit apply_patch write_file replace create edit create_file'],
  [fileChange, 'create_directory insert_edit_into_file replace_string_in_file'],
  [change, 'Agent Task TaskStop KillShell KillBash SendMessage'],
  [change, 'AskUserQuestion CronCreate CronDelete EnterPlanMode EnterWorktree ExitPlanMode ExitWorktree'],
  [
    change,
    'ProposeGoal ProposeSkills RefreshMcpTools ReportFindings ScheduleWakeup TaskCreate TaskUpdate TodoWrite',
  ],
  [change, 'spawn_agent update_plan invoke_agent save_memory write_todos task write_agent'],
  // These tools send data out: to a phone, to a page for other people, or to a run elsewhere.
  [sending, 'PushNotification SendUserFile Artifact RemoteTrigger'],
  [bash, 'Bash Monitor bash Shell shell exec_command run_shell_command run_in_terminal runTerminalCommand'],
  [bash, 'local_shell shell_command run_terminal_cmd runInTerminal'],
  [{ ...change, code: 'powershell', isShell: true }, 'PowerShell powershell'],
  // `write_stdin` types into a running program, which may be a shell.
  [{ ...script, isShell: true }, 'write_stdin'],
  // These tools run code. `Workflow` starts a program that starts agents, and `sql` runs SQL. The others load a skill. A
  // skill comes from a repository, and its shell commands run before any hook is asked.
  [script, 'Workflow sql Skill activate_skill skill'],
]

const byName: ReadonlyMap<string, AgentTool> = new Map(
  tools.flatMap(([tool, names]) => names.split(' ').map((name) => [name, tool] as const)),
)

/** The names of all known tools of agent clients. */
export const agentToolNames: readonly string[] = [...byName.keys()]

/** Returns the effects of an agent's tool; undefined for an unknown name. */
export function agentTool(name: string): AgentTool | undefined {
  return byName.get(name)
}

/**
 * Whether a tool may run in the folder that its client names: a shell, or a tool with an unknown name, which may be a
 * shell too. A tool of an MCP server runs in the folder of this server.
 */
export const runsInFolder = (name: string): boolean => {
  const known = byName.get(name)
  return known === undefined ? !name.startsWith('mcp__') : known.isShell === true
}

/**
 * Returns the names whose tool policies restrict a tool: its own name, and `Bash` for every other tool that gives
 * commands to a shell.
 */
export function restrictingNames(tool: string): readonly string[] {
  return tool !== 'Bash' && byName.get(tool)?.isShell === true ? [tool, 'Bash'] : [tool]
}

/** Hints from a protocol server about its tool. They never make a classification less strict. */
export interface ToolAnnotations {
  readonly readOnlyHint?: unknown
  readonly destructiveHint?: unknown
  readonly openWorldHint?: unknown
  /**
   * The gateway sets this to true if the tool has changed since the agent's session first saw the tool
   * (docs/decisions/0036).
   */
  readonly definitionChanged?: unknown
}

/** Returns the tool's classification, made stricter by its annotations. */
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
