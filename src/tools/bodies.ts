import type { catalog, ToolName } from './index.ts'
import type { OwnService } from './kit/tool.ts'
import { readFileTool } from './files/run.ts'
import { sendMail, sendMailAgain } from './mail/run.ts'
import { comment as commentInJira, findComment as findJiraComment } from './jira/comments.ts'
import { getIssue as getJiraIssue, search as searchJira } from './jira/reads.ts'
import { readIssueState as readJiraIssueState, readProjectState } from './jira/state.ts'
import { createIssue as createJiraIssue, findIssue as findJiraIssue } from './jira/writes.ts'
import { getMemory } from './memory/get.ts'
import { readMemoryState, setMemory } from './memory/set.ts'
import { searchWeb } from './search/run.ts'
import { getCard, listCards, readCardState, readListState } from './trello/reads.ts'
import { findCard } from './trello/find-card.ts'
import { comment as commentInTrello, createCard, findComment as findTrelloComment } from './trello/writes.ts'
import type { AudienceReaderOf, FinderOf, StateReaderOf, ToolBody } from './kit/params.ts'

/**
 * A function of a module that is loaded when the function is first called. The clients of GitHub, Google, Slack and the
 * models are large, and a worker would load them all before it is ready.
 */
const later = <Module, Name extends keyof Module>(load: () => Promise<Module>, name: Name): Module[Name] =>
  (async (...args: unknown[]) =>
    ((await load())[name] as (...args: unknown[]) => unknown)(...args)) as Module[Name]

/** The body of each tool. If a tool of the catalogue has no body, calls of this tool fail with `tool_not_available`. */
export const executors = {
  file_read: readFileTool,
  memory_get: getMemory,
  memory_set: setMemory,
  mail_send: sendMail,
  calendar_create_event: later(() => import('./google/calendar.ts'), 'createEvent'),
  slack_send_message: later(() => import('./slack/messages.ts'), 'sendMessage'),
  slack_create_channel: later(() => import('./slack/channels.ts'), 'createChannel'),
  github_search_code: later(() => import('./github/reads.ts'), 'searchCode'),
  github_get_file: later(() => import('./github/reads.ts'), 'getFile'),
  github_list_issues: later(() => import('./github/reads.ts'), 'listIssues'),
  github_get_issue: later(() => import('./github/reads.ts'), 'getIssue'),
  github_list_pull_requests: later(() => import('./github/reads.ts'), 'listPullRequests'),
  github_create_issue: later(() => import('./github/writes.ts'), 'createIssue'),
  github_comment: later(() => import('./github/writes.ts'), 'comment'),
  docs_read: later(() => import('./google/documents.ts'), 'readDocument'),
  docs_create: later(() => import('./google/documents.ts'), 'createDocument'),
  sheets_read: later(() => import('./google/sheets.ts'), 'readRows'),
  sheets_append: later(() => import('./google/sheets.ts'), 'appendRows'),
  drive_search: later(() => import('./google/search.ts'), 'searchDrive'),
  jira_search: searchJira,
  jira_get_issue: getJiraIssue,
  jira_create_issue: createJiraIssue,
  jira_comment: commentInJira,
  trello_list_cards: listCards,
  trello_get_card: getCard,
  trello_create_card: createCard,
  trello_comment: commentInTrello,
  web_search: searchWeb,
  llm_generate: later(() => import('./llm/run.ts'), 'generateWithModel'),
} satisfies { [Name in ToolName]?: ToolBody<Name> }

type Findable = {
  [Name in ToolName]: (typeof catalog)[Name] extends { repeat: 'findable' } | { ownService: OwnService }
    ? Name
    : never
}[ToolName]

/** One finder for each `findable` tool. Also one finder for each tool with a service that knows its calls by a key. */
export const finders: { readonly [Name in Findable]: FinderOf<Name> } = {
  mail_send: sendMailAgain,
  calendar_create_event: later(() => import('./google/calendar.ts'), 'findEvent'),
  slack_send_message: later(() => import('./slack/messages.ts'), 'findMessage'),
  slack_create_channel: later(() => import('./slack/channels.ts'), 'findChannel'),
  github_create_issue: later(() => import('./github/writes.ts'), 'findIssue'),
  github_comment: later(() => import('./github/writes.ts'), 'findComment'),
  docs_create: later(() => import('./google/documents.ts'), 'findDocument'),
  sheets_append: later(() => import('./google/sheets.ts'), 'findRows'),
  jira_create_issue: findJiraIssue,
  jira_comment: findJiraComment,
  trello_create_card: findCard,
  trello_comment: findTrelloComment,
}

/** The function that reads the thing that a call changes, for each tool with a precondition. */
export const stateReaders = {
  memory_set: readMemoryState,
  github_comment: later(() => import('./github/state.ts'), 'readIssueState'),
  jira_create_issue: readProjectState,
  jira_comment: readJiraIssueState,
  trello_create_card: readListState,
  trello_comment: readCardState,
  slack_send_message: later(() => import('./slack/state.ts'), 'readRecipient'),
  slack_create_channel: later(() => import('./slack/state.ts'), 'readInvited'),
  calendar_create_event: later(() => import('./google/state.ts'), 'readEvent'),
  docs_create: later(() => import('./google/state.ts'), 'readFolder'),
  sheets_append: later(() => import('./google/state.ts'), 'readSheet'),
} satisfies { [Name in ToolName]?: StateReaderOf<Name> }

/**
 * The function that asks who can read the document or folder that a call writes to. There is one for each tool whose
 * policies can limit these readers.
 */
export const audienceReaders = {
  docs_create: later(() => import('./google/audience.ts'), 'audienceOfFolder'),
  sheets_append: later(() => import('./google/audience.ts'), 'audienceOfSpreadsheet'),
} satisfies { [Name in ToolName]?: AudienceReaderOf<Name> }
