import type { catalog, ToolName } from '../../catalog/index.ts'
import type { OwnService } from '../../catalog/tool.ts'
import { readFileTool } from './file-read.ts'
import { sendMail, sendMailAgain } from './mail-send.ts'
import { getFile, getIssue, listIssues, listPullRequests, searchCode } from './github/reads.ts'
import { readIssueState } from './github/state.ts'
import { comment, createIssue, findComment, findIssue } from './github/writes.ts'
import { createEvent, findEvent } from './google/calendar.ts'
import { createDocument, findDocument, readDocument } from './google/documents.ts'
import { searchDrive } from './google/search.ts'
import { audienceOfFolder, audienceOfSpreadsheet } from './google/audience.ts'
import { readEvent, readFolder, readSheet } from './google/state.ts'
import { appendRows, findRows, readRows } from './google/sheets.ts'
import { comment as commentInJira, findComment as findJiraComment } from './jira/comments.ts'
import { getIssue as getJiraIssue, search as searchJira } from './jira/reads.ts'
import { readIssueState as readJiraIssueState, readProjectState } from './jira/state.ts'
import { createIssue as createJiraIssue, findIssue as findJiraIssue } from './jira/writes.ts'
import { generateWithModel } from './llm/llm-generate.ts'
import { getMemory } from './memory-get.ts'
import { readMemoryState, setMemory } from './memory-set.ts'
import { searchWeb } from './search/web-search.ts'
import { createChannel, findChannel } from './slack/channels.ts'
import { findMessage, sendMessage } from './slack/messages.ts'
import { readInvited, readRecipient } from './slack/state.ts'
import { getCard, listCards, readCardState, readListState } from './trello/reads.ts'
import { findCard } from './trello/find-card.ts'
import { comment as commentInTrello, createCard, findComment as findTrelloComment } from './trello/writes.ts'
import type { AudienceReaderOf, FinderOf, StateReaderOf, ToolBody } from './params.ts'

/** The body of each tool. If a tool of the catalogue has no body, calls of this tool fail with `tool_not_available`. */
export const executors = {
  file_read: readFileTool,
  memory_get: getMemory,
  memory_set: setMemory,
  mail_send: sendMail,
  calendar_create_event: createEvent,
  slack_send_message: sendMessage,
  slack_create_channel: createChannel,
  github_search_code: searchCode,
  github_get_file: getFile,
  github_list_issues: listIssues,
  github_get_issue: getIssue,
  github_list_pull_requests: listPullRequests,
  github_create_issue: createIssue,
  github_comment: comment,
  docs_read: readDocument,
  docs_create: createDocument,
  sheets_read: readRows,
  sheets_append: appendRows,
  drive_search: searchDrive,
  jira_search: searchJira,
  jira_get_issue: getJiraIssue,
  jira_create_issue: createJiraIssue,
  jira_comment: commentInJira,
  trello_list_cards: listCards,
  trello_get_card: getCard,
  trello_create_card: createCard,
  trello_comment: commentInTrello,
  web_search: searchWeb,
  llm_generate: generateWithModel,
} satisfies { [Name in ToolName]?: ToolBody<Name> }

type Findable = {
  [Name in ToolName]: (typeof catalog)[Name] extends { repeat: 'findable' } | { ownService: OwnService }
    ? Name
    : never
}[ToolName]

/** One finder for each `findable` tool. Also one finder for each tool with a service that knows its calls by a key. */
export const finders: { readonly [Name in Findable]: FinderOf<Name> } = {
  mail_send: sendMailAgain,
  calendar_create_event: findEvent,
  slack_send_message: findMessage,
  slack_create_channel: findChannel,
  github_create_issue: findIssue,
  github_comment: findComment,
  docs_create: findDocument,
  sheets_append: findRows,
  jira_create_issue: findJiraIssue,
  jira_comment: findJiraComment,
  trello_create_card: findCard,
  trello_comment: findTrelloComment,
}

/** The function that reads the thing that a call changes, for each tool with a precondition. */
export const stateReaders = {
  memory_set: readMemoryState,
  github_comment: readIssueState,
  jira_create_issue: readProjectState,
  jira_comment: readJiraIssueState,
  trello_create_card: readListState,
  trello_comment: readCardState,
  slack_send_message: readRecipient,
  slack_create_channel: readInvited,
  calendar_create_event: readEvent,
  docs_create: readFolder,
  sheets_append: readSheet,
} satisfies { [Name in ToolName]?: StateReaderOf<Name> }

/**
 * The function that asks who can read the document or folder that a call writes to. There is one for each tool whose
 * policies can limit these readers.
 */
export const audienceReaders = {
  docs_create: audienceOfFolder,
  sheets_append: audienceOfSpreadsheet,
} satisfies { [Name in ToolName]?: AudienceReaderOf<Name> }
