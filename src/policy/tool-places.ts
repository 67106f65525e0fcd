import type { PlaceKind } from './readers/places.ts'
import { runsInFolder } from './agent-tools.ts'
import type { CallSource } from './types.ts'
import type { CatalogueName } from './tool-names.ts'
import type { Places } from './values.ts'

const repo = { repo: 'repository' } as const

/**
 * For each parameter of a catalogue tool that names a place, the kind of this place: a repository, a channel and so on.
 * The tools' declarations use this table. Rules compare the place that the tool would reach, and not only the text of
 * the parameter.
 */
export const placesOf = {
  calendar_create_event: { calendar: 'google_calendar' },
  slack_send_message: { channel: 'channel' },
  slack_create_channel: { name: 'channel' },
  github_search_code: repo,
  github_get_file: repo,
  github_list_issues: repo,
  github_get_issue: repo,
  github_list_pull_requests: repo,
  github_create_issue: repo,
  github_comment: repo,
  jira_get_issue: { issue: 'jira_issue' },
  jira_create_issue: { project: 'jira_project' },
  jira_comment: { issue: 'jira_issue' },
  trello_list_cards: { board: 'trello_board', list: 'trello_list' },
  trello_get_card: { card: 'trello_card' },
  trello_create_card: { board: 'trello_board', list: 'trello_list' },
  trello_comment: { card: 'trello_card' },
  docs_read: { document: 'google_file' },
  docs_create: { folder: 'google_file' },
  sheets_read: { spreadsheet: 'google_file' },
  sheets_append: { spreadsheet: 'google_file' },
} as const satisfies { readonly [Name in CatalogueName]?: { readonly [param: string]: PlaceKind } }

const byTool: ReadonlyMap<string, Places> = new Map(
  Object.entries(placesOf).map(([tool, places]) => [tool, new Map(Object.entries(places))]),
)

const ofShells: Places = new Map([['cwd', 'folder']])

/**
 * Of the tools of agents, only those that run in the client's folder have a parameter that names a place. Another tool of an agent may have the name of
 * a catalogue tool, but other parameters.
 */
export function placesIn(tool: string, source: CallSource): Places {
  if (source === 'workflows') return byTool.get(tool) ?? null
  return runsInFolder(tool) ? ofShells : null
}
