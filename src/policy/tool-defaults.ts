import type { CatalogueName } from './tool-names.ts'
import type { CallSource } from './types.ts'
import type { Defaults } from './values.ts'

/**
 * The values that tools use for parameters that a call leaves out. The tools take them from this table, and rules that
 * restrict compare them. Values that only a service or a connection knows are not here, such as the main branch of a
 * repository.
 */
export const defaultsOf = {
  calendar_create_event: { calendar: 'primary', duration_minutes: 30, video_meeting: false },
  slack_create_channel: { is_private: false },
  github_search_code: { limit: 30 },
  github_list_issues: { state: 'open', limit: 30 },
  github_list_pull_requests: { state: 'open', limit: 30 },
  jira_search: { limit: 50 },
  jira_create_issue: { type: 'Task' },
  // `root` is Google's name for the top folder of an account's own Drive. A document without a folder is made there.
  docs_create: { folder: 'root' },
  drive_search: { limit: 20 },
  web_search: { limit: 10 },
  // This default bounds the cost of a call that does not set `max_tokens`.
  llm_generate: { max_tokens: 4_096 },
} as const satisfies {
  readonly [Name in CatalogueName]?: { readonly [param: string]: string | number | boolean }
}

const byTool: ReadonlyMap<string, Defaults> = new Map(
  Object.entries(defaultsOf).map(([tool, defaults]) => [tool, new Map(Object.entries(defaults))]),
)

/**
 * Returns null for the tools of agents. An agent's tool may have the name of a catalogue tool, but other parameters.
 */
export function defaultsIn(tool: string, source: CallSource): Defaults {
  return source === 'workflows' ? (byTool.get(tool) ?? null) : null
}
