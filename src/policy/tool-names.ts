import { globsMeet, matchesGlob } from './glob.ts'
import { normalized } from './normalized.ts'

/** Every tool of the catalogue, declared already or not (contract section 9, "Catalogue"). */
export const catalogueNames = [
  'file_read',
  'memory_get',
  'memory_set',
  'mail_send',
  'calendar_create_event',
  'slack_send_message',
  'slack_create_channel',
  'github_search_code',
  'github_get_file',
  'github_list_issues',
  'github_get_issue',
  'github_list_pull_requests',
  'github_create_issue',
  'github_comment',
  'jira_search',
  'jira_get_issue',
  'jira_create_issue',
  'jira_comment',
  'trello_list_cards',
  'trello_get_card',
  'trello_create_card',
  'trello_comment',
  'docs_read',
  'docs_create',
  'sheets_read',
  'sheets_append',
  'drive_search',
  'web_search',
  'llm_generate',
] as const
export type CatalogueName = (typeof catalogueNames)[number]

/**
 * The tools of the agent clients, under the names by which their hooks report them. The first line is the
 * specification's classification; what a client has beyond it can be named in a rule too and counts as a write.
 */
const agentNames = {
  classified:
    'Read Grep Glob LS NotebookRead WebFetch WebSearch Edit MultiEdit Write NotebookEdit Bash'.split(' '),
  claude:
    `Agent Artifact AskUserQuestion BashOutput CronCreate CronDelete CronList EnterPlanMode EnterWorktree
    ExitPlanMode ExitWorktree KillBash KillShell ListAgents ListMcpResourcesTool LSP Monitor PowerShell ProposeGoal
    ProposeSkills PushNotification ReadMcpResourceDirTool ReadMcpResourceTool RefreshMcpTools RemoteTrigger
    ReportFindings ScheduleWakeup SendMessage SendUserFile Skill Task TaskCreate TaskGet TaskList TaskOutput TaskStop
    TaskUpdate TodoWrite ToolSearch WaitForMcpServers Workflow`.split(/\s+/),
  codex: 'apply_patch exec_command shell spawn_agent update_plan view_image write_stdin'.split(' '),
  gemini:
    `activate_skill glob google_web_search grep_search invoke_agent list_directory read_background_output
    read_file read_many_files replace run_shell_command save_memory search_file_content web_fetch write_file
    write_todos`.split(/\s+/),
  copilot: 'bash create edit glob grep skill sql task view web_fetch write_agent'.split(' '),
  cursor: ['Shell'],
  vscode: `create_directory create_file fetch_webpage file_search insert_edit_into_file list_dir
    replace_string_in_file run_in_terminal runTerminalCommand semantic_search`.split(/\s+/),
} as const satisfies Record<string, readonly string[]>

const namesOfAgents: ReadonlySet<string> = new Set(Object.values(agentNames).flat())

/** Whether only an agent has a tool of this name: one that a client is known to have, or a protocol tool. */
export function isAgentsTool(name: string): boolean {
  return namesOfAgents.has(name) || name.startsWith('mcp__')
}

const knownNames: readonly string[] = [...new Set<string>([...catalogueNames, ...namesOfAgents])]

/**
 * Whether a tool's name is what it looks like. One that only looks like another would be held by no rule that names that
 * one, and misread by who approves it: invisible signs, other forms of the same letters, white space at the ends.
 */
export function isPlainName(name: string): boolean {
  return name === name.trim() && name === normalized(name, 'NFKC') && !/[\p{C}\p{Zl}\p{Zp}]/u.test(name)
}

const longestName = Math.max(...knownNames.map((name) => name.length))

/** What every protocol tool's name looks like; resources and prompts are asked for in the same form. */
const protocolNames = 'mcp__?*__?*'

/**
 * What is wrong with a tool's name or glob in a rule, or null: it must be able to match a tool of the catalogue, an
 * agent's tool or a protocol tool (contract section 5, last point). A rule with a misspelt name would guard nothing
 * without anybody noticing.
 */
export function toolNameIssue(glob: string): string | null {
  if (!isPlainName(glob)) return 'a tool’s name has no invisible or look-alike signs and no space at its ends'
  if (globsMeet(glob, protocolNames) || knownNames.some((name) => matchesGlob(glob, name))) return null
  const isGlob = /[*?]/.test(glob)
  const what = isGlob ? `\`${glob}\` matches no tool` : `there is no tool \`${glob}\``
  return `${what}: ${hintFor(glob)}; \`GET /tools\` lists the tools`
}

/**
 * What is wrong with a name by which a setting means one tool, which may be one that nobody here knows of, or null: a glob,
 * or a known tool's name but for case and separators, would be kept and never mean anything.
 */
export function wholeNameIssue(name: string): string | null {
  if (/[*?]/.test(name)) return `\`${name}\` is a glob: give each tool by its whole name`
  if (knownNames.includes(name)) return null
  const meant = knownNames.filter((known) => fold(known) === fold(name))
  return meant.length === 0 ? null : `there is no tool \`${name}\`: did you mean \`${meant.join('` or `')}\``
}

function hintFor(glob: string): string {
  if (/^mcp_/i.test(glob)) return 'a protocol tool is `mcp__<server>__<tool>`, e.g. `mcp__tracker__*`'
  const near = nearestNames(glob)
  if (near.length > 0) return `did you mean ${near.map((name) => `\`${name}\``).join(' or ')}`
  return 'name a tool of the catalogue, an agent tool such as `Bash`, or `mcp__<server>__<tool>`'
}

/** At most three known names that differ from it by little, the nearest first. */
export function nearestNames(glob: string, names: readonly string[] = knownNames): string[] {
  const wanted = fold(glob)
  if (wanted === '' || wanted.length > longestName + 3) return []
  return names
    .map((name) => ({ name, distance: distanceTo(wanted, fold(name)) }))
    .filter(({ distance }) => distance <= Math.max(wanted.length < 4 ? 1 : 2, wanted.length / 3))
    .sort((a, b) => a.distance - b.distance || (a.name < b.name ? -1 : 1))
    .slice(0, 3)
    .map(({ name }) => name)
}

/** Case, separators and wildcards are where names are most often mistaken. */
const fold = (name: string): string => name.toLowerCase().replaceAll(/[^a-z0-9]/g, '')

/** Letters to add, take away or change; words in another order (`send_mail`) count as one change. */
function distanceTo(wanted: string, name: string): number {
  const turned = wanted.length === name.length && (name + name).includes(wanted)
  return turned ? Math.min(1, editDistance(wanted, name)) : editDistance(wanted, name)
}

function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, index) => index)
  for (let i = 1; i <= a.length; i++) {
    const next = [i]
    for (let j = 1; j <= b.length; j++) {
      const change = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1)
      next.push(Math.min(change, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1))
    }
    row = next
  }
  return row[b.length] ?? 0
}
