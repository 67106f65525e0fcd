import type { CatalogueName } from '../policy/tool-names.ts'
import { fileRead } from './files/tools.ts'
import * as github from './github/tools.ts'
import * as google from './google/tools.ts'
import * as jira from './jira/tools.ts'
import { llmGenerate } from './llm/tools.ts'
import { mailSend } from './mail/tools.ts'
import { memoryGet } from './memory/get-tool.ts'
import { memorySet } from './memory/set-tool.ts'
import * as slack from './slack/tools.ts'
import type { ToolDeclaration } from './kit/tool.ts'
import * as trello from './trello/tools.ts'
import { webSearch } from './search/tools.ts'

/** Every tool of the service, by name. */
export const catalog = {
  file_read: fileRead,
  memory_get: memoryGet,
  memory_set: memorySet,
  mail_send: mailSend,
  calendar_create_event: google.calendarCreateEvent,
  slack_send_message: slack.slackSendMessage,
  slack_create_channel: slack.slackCreateChannel,
  github_search_code: github.githubSearchCode,
  github_get_file: github.githubGetFile,
  github_list_issues: github.githubListIssues,
  github_get_issue: github.githubGetIssue,
  github_list_pull_requests: github.githubListPullRequests,
  github_create_issue: github.githubCreateIssue,
  github_comment: github.githubComment,
  jira_search: jira.jiraSearch,
  jira_get_issue: jira.jiraGetIssue,
  jira_create_issue: jira.jiraCreateIssue,
  jira_comment: jira.jiraComment,
  trello_list_cards: trello.trelloListCards,
  trello_get_card: trello.trelloGetCard,
  trello_create_card: trello.trelloCreateCard,
  trello_comment: trello.trelloComment,
  docs_read: google.docsRead,
  docs_create: google.docsCreate,
  sheets_read: google.sheetsRead,
  sheets_append: google.sheetsAppend,
  drive_search: google.driveSearch,
  web_search: webSearch,
  llm_generate: llmGenerate,
} as const satisfies { readonly [Name in CatalogueName]: ToolDeclaration<Name> }

export type ToolName = keyof typeof catalog

/**
 * Returns the declaration of a tool. Returns undefined for a name that the catalogue does not have, even for a name
 * such as `constructor`.
 */
export function getTool(name: string): ToolDeclaration | undefined {
  return byName.get(name)
}

const byName: ReadonlyMap<string, ToolDeclaration> = new Map(Object.entries(catalog))
