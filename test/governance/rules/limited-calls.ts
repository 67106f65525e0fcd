import { catalog } from '../../../src/catalog/index.ts'
import type { ToolDeclaration } from '../../../src/catalog/tool.ts'
import { limitNames, type LimitName, type Restrictions } from '../../../src/policy/tool-limits.ts'
import type { JsonObject } from '../../../src/policy/types.ts'

/* For every tool of the catalogue and every limit that a policy can set on it, a call that breaks the limit. */

export const values: Record<LimitName, Restrictions[LimitName]> = {
  read_only: true,
  allowed_domains: ['acme.com'],
  allowed_repos: ['acme/app'],
  allowed_channels: ['#general'],
  max_message_length: 5,
  max_response_size_kb: 1,
}

export const params: Record<string, JsonObject> = {
  mail_send: { to: 'bo@evil.test', subject: 's', text: 'too long' },
  memory_set: { key: 'k', value: 1 },
  memory_get: { key: 'k' },
  file_read: { path: 'p' },
  github_search_code: { query: 'repo:evil/app word' },
  github_get_file: { repo: 'evil/app', path: 'p' },
  github_list_issues: { repo: 'evil/app' },
  github_get_issue: { repo: 'evil/app', number: 1 },
  github_list_pull_requests: { repo: 'evil/app' },
  github_create_issue: { repo: 'evil/app', title: 'too long' },
  github_comment: { repo: 'evil/app', number: 1, body: 'too long' },
  slack_send_message: { channel: '#evil', text: 'too long' },
  slack_create_channel: { name: 'evil' },
  jira_search: { query: 'project = OPS' },
  jira_get_issue: { issue: 'OPS-1' },
  jira_create_issue: { project: 'OPS', summary: 'too long' },
  jira_comment: { issue: 'OPS-1', text: 'too long' },
  trello_list_cards: { board: 'abcd1234' },
  trello_get_card: { card: 'abcd1234' },
  trello_create_card: { board: 'abcd1234', list: 'To do', name: 'too long' },
  trello_comment: { card: 'abcd1234', text: 'too long' },
  calendar_create_event: { title: 't', attendees: 'bo@evil.test', description: 'too long' },
  docs_read: { document: 'd' },
  docs_create: { title: 't', content: 'too long' },
  sheets_read: { spreadsheet: 's' },
  sheets_append: { spreadsheet: 's', rows: [['a']] },
  drive_search: { query: 'q' },
  web_search: { query: 'q' },
  llm_generate: { prompt: 'p' },
}

export const paramsOf = (tool: string): JsonObject => {
  const found = params[tool]
  if (found === undefined) throw new Error(`add parameters for ${tool} to this test`)
  return found
}

export const every = Object.values(catalog).flatMap((tool: ToolDeclaration) =>
  limitNames.map((name) => [tool.name, name, Object.hasOwn(tool.constraints, name)] as const),
)
