import { peopleOf } from './me.ts'
import { type CatalogueName, nearestNames } from './tool-names.ts'
import type { SideEffect } from './types.ts'

/**
 * The parameters of each tool of the catalogue. A call with any other parameter is refused. test/tools compares
 * this table with the declarations.
 */
export const toolParams: { readonly [Name in CatalogueName]: readonly string[] } = {
  file_read: ['path'],
  memory_get: ['key'],
  memory_set: ['key', 'value'],
  mail_send: ['to', 'subject', 'text', 'html', 'cc', 'bcc'],
  calendar_create_event: [
    'title',
    'start',
    'duration_minutes',
    'attendees',
    'description',
    'location',
    'calendar',
    'video_meeting',
  ],
  slack_send_message: ['channel', 'text', 'thread_ts'],
  slack_create_channel: ['name', 'is_private'],
  github_search_code: ['query', 'repo', 'limit'],
  github_get_file: ['repo', 'path', 'ref'],
  github_list_issues: ['repo', 'state', 'labels', 'limit'],
  github_get_issue: ['repo', 'number'],
  github_list_pull_requests: ['repo', 'state', 'limit'],
  github_create_issue: ['repo', 'title', 'body', 'labels'],
  github_comment: ['repo', 'number', 'body'],
  jira_search: ['query', 'limit'],
  jira_get_issue: ['issue'],
  jira_create_issue: ['project', 'summary', 'description', 'type', 'labels'],
  jira_comment: ['issue', 'text', 'attachment_name', 'attachment_content'],
  trello_list_cards: ['board', 'list'],
  trello_get_card: ['card'],
  trello_create_card: ['board', 'list', 'name', 'description'],
  trello_comment: ['card', 'text', 'attachment_name', 'attachment_content'],
  docs_read: ['document'],
  docs_create: ['title', 'content', 'folder'],
  sheets_read: ['spreadsheet', 'range'],
  sheets_append: ['spreadsheet', 'range', 'rows'],
  drive_search: ['query', 'limit'],
  web_search: ['query', 'limit'],
  llm_generate: ['prompt', 'system', 'model', 'max_tokens'],
}

/**
 * The parameters that can hold more than one value: a list, a text with several addresses, or any JSON. Every other
 * parameter of the catalogue holds a single value. test/tools compares this table with the declarations.
 */
const severalValues: { readonly [Name in CatalogueName]?: readonly string[] } = {
  ...peopleOf,
  memory_set: ['value'],
  github_list_issues: ['labels'],
  github_create_issue: ['labels'],
  jira_create_issue: ['labels'],
  sheets_append: ['rows'],
}

/**
 * The parameters with which a call can carry any text to the service. Places, names of models, dates and states carry
 * no free text. test/tools/catalog.test.ts compares this table with the declarations.
 */
const freeTexts: { readonly [Name in CatalogueName]?: readonly string[] } = {
  mail_send: ['subject', 'text', 'html'],
  calendar_create_event: ['title', 'attendees', 'description', 'location'],
  slack_send_message: ['text'],
  slack_create_channel: ['name'],
  github_search_code: ['query'],
  github_get_file: ['path', 'ref'],
  github_list_issues: ['labels'],
  github_create_issue: ['title', 'body', 'labels'],
  github_comment: ['body'],
  jira_search: ['query'],
  jira_create_issue: ['summary', 'description', 'type', 'labels'],
  jira_comment: ['text', 'attachment_name', 'attachment_content'],
  trello_create_card: ['name', 'description'],
  trello_comment: ['text', 'attachment_name', 'attachment_content'],
  docs_create: ['title', 'content'],
  sheets_append: ['rows'],
  drive_search: ['query'],
  web_search: ['query'],
  llm_generate: ['prompt', 'system'],
}

const freeTextsIn: ReadonlyMap<string, readonly string[]> = new Map(Object.entries(freeTexts))

/** Returns the parameters of a tool that take any text. A tool that is not in the catalogue has none. */
export const freeTextsOf = (tool: string): readonly string[] => freeTextsIn.get(tool) ?? []

/**
 * Returns the side effect of a call of a workflow. A call that carries free text to a host that is not the service's own
 * delivers content to somebody else, so it is `egress`, whatever the tool declares. A parameter counts if it is named,
 * also with an unknown or empty value. Any other parameter counts if it takes a value from an output or from an input
 * with labels, because a name of a place can then be a secret.
 * @param destination null: the call stays here, or there is no connection
 * @param takesResults whether a template in the parameters names an output, or an input with labels
 */
export function sideEffectOf(
  { name, sideEffect }: { readonly name: string; readonly sideEffect: SideEffect },
  params: { readonly [param: string]: unknown },
  destination: { readonly ownHost: boolean } | null,
  takesResults: boolean,
): SideEffect {
  if (destination === null || destination.ownHost) return sideEffect
  if (takesResults) return 'egress'
  return freeTextsOf(name).some((param) => Object.hasOwn(params, param)) ? 'egress' : sideEffect
}

/**
 * The name by which rules compare the host of a call of a workflow. No tool of the catalogue has a parameter of this
 * name. A tool of an agent may have one, and rules then see that parameter.
 */
export const destinationParam = 'destination'

const byTool: ReadonlyMap<string, readonly string[]> = new Map(Object.entries(toolParams))
const severalIn: ReadonlyMap<string, readonly string[]> = new Map(Object.entries(severalValues))

/**
 * Whether a call can give a parameter more than one value. Only the parameters of catalogue tools are known, so the
 * answer is true for any other tool, for a glob, and for the path `*`.
 */
export function mayHoldSeveral(tool: string, param: string): boolean {
  return param === '*' || !byTool.has(tool) || severalIn.get(tool)?.includes(param) === true
}

/**
 * Returns the problem with a condition's path in a rule for these tools, or null. The first segment of the path must be
 * a parameter of at least one of the tools, or `*`. If one of the tools is a glob or an agent tool, every path is
 * accepted, because such a tool may have any parameter.
 */
export function paramIssue(tools: readonly string[], path: string): string | null {
  const [param = ''] = path.split('.')
  const known = tools.map((tool) => byTool.get(tool))
  if (
    param === '*' ||
    path === destinationParam ||
    known.some((names) => names === undefined || names.includes(param))
  )
    return null
  const names = [...new Set(known.flatMap((each) => each ?? []))]
  const near = nearestNames(param, names)
  const hint =
    near.length > 0 ? `did you mean ${quoted(near, 'or')}` : `its parameters are ${quoted(names, 'and')}`
  return `${quoted([...new Set(tools)], 'or')} has no parameter \`${param}\`: ${hint}`
}

function quoted(names: readonly string[], word: string): string {
  const all = names.map((name) => `\`${name}\``)
  const last = all.pop() ?? ''
  return all.length === 0 ? last : `${all.join(', ')} ${word} ${last}`
}
