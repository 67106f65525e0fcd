import type { Label, SideEffect } from './types.ts'

/** What is known without the call's arguments. */
export interface AgentTool {
  readonly sideEffect: SideEffect
  readonly outputLabels: readonly Label[]
  /** The language of the code in the tool's arguments. `script` means any other language. */
  readonly code?: 'bash' | 'powershell' | 'script'
  /** Whether it opens files or folders that its arguments name. */
  readonly opensPaths?: true
  /** It gives text of the agent to a server of the agent's choice, and then needs a class like this server's tools. */
  readonly asksServer?: true
  /** It gives commands to a shell, so tool policies on `Bash` restrict it too (docs/decisions/0244). */
  readonly isShell?: true
}

const internal: AgentTool = { sideEffect: 'read', outputLabels: ['internal'] }
const files: AgentTool = { ...internal, opensPaths: true }
const web: AgentTool = { sideEffect: 'read', outputLabels: ['untrusted'] }
/** From an unknown server: company data, perhaps written by strangers. */
const foreign: AgentTool = { sideEffect: 'read', outputLabels: ['internal', 'untrusted'] }
/** About the agent's own tools, tasks and helpers: no company data. */
const own: AgentTool = { sideEffect: 'read', outputLabels: [] }
const change: AgentTool = { sideEffect: 'write', outputLabels: [] }
const fileChange: AgentTool = { ...change, opensPaths: true }
const sending: AgentTool = { sideEffect: 'egress', outputLabels: [] }
const bash: AgentTool = { ...change, code: 'bash', isShell: true }
const script: AgentTool = { ...change, code: 'script' }

/** By the names that clients' hooks report (docs/decisions/0040). Any other is a write that no rule can name. */
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
  // To a phone, to a page for other people, or to a run elsewhere.
  [sending, 'PushNotification SendUserFile Artifact RemoteTrigger'],
  [bash, 'Bash Monitor bash Shell shell exec_command run_shell_command run_in_terminal runTerminalCommand'],
  [bash, 'local_shell shell_command run_terminal_cmd runInTerminal'],
  [{ ...change, code: 'powershell', isShell: true }, 'PowerShell powershell'],
  // It types into a running program, which may be a shell.
  [{ ...script, isShell: true }, 'write_stdin'],
  // They start agents, run SQL, or load a skill whose shell commands run before any hook is asked.
  [script, 'Workflow sql Skill activate_skill skill'],
]

const byName: ReadonlyMap<string, AgentTool> = new Map(
  tools.flatMap(([tool, names]) => names.split(' ').map((name) => [name, tool] as const)),
)

export const agentToolNames: readonly string[] = [...byName.keys()]

export function agentTool(name: string): AgentTool | undefined {
  return byName.get(name)
}

/** A shell, or an unknown tool, which may be one too. A tool of an MCP server runs in the folder of this server. */
export const runsInFolder = (name: string): boolean => {
  const known = byName.get(name)
  return known === undefined ? !name.startsWith('mcp__') : known.isShell === true
}

/** The names whose tool policies restrict the tool. */
export function restrictingNames(tool: string): readonly string[] {
  return tool !== 'Bash' && byName.get(tool)?.isShell === true ? [tool, 'Bash'] : [tool]
}

/** Hints from a protocol server, which never make a classification less strict. */
export interface ToolAnnotations {
  readonly readOnlyHint?: unknown
  readonly destructiveHint?: unknown
  readonly openWorldHint?: unknown
  /** The gateway says so if the tool has changed since the session first saw it (docs/decisions/0036). */
  readonly definitionChanged?: unknown
}

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
