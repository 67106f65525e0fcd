import { describe, expect, test } from '@jest/globals'
import type { z } from 'zod'
import { catalog } from '../../src/catalog/index.ts'
import { serviceOf, type ToolDeclaration } from '../../src/catalog/tool.ts'
import { destinationParam, freeTextsOf } from '../../src/policy/tool-params.ts'
import { placesOf } from '../../src/policy/tool-places.ts'

const tools: readonly [string, ToolDeclaration][] = Object.entries(catalog)

/**
 * Parameters of services' tools that take a text and name no place: what is written or looked for, a part of a place,
 * and people. Rules compare them as they are written, and addresses in them as addresses.
 */
const texts: { readonly [tool: string]: readonly string[] } = {
  mail_send: ['to', 'subject', 'text', 'html', 'cc', 'bcc'],
  calendar_create_event: ['title', 'start', 'attendees', 'description', 'location'],
  slack_send_message: ['text', 'thread_ts'],
  github_search_code: ['query'],
  github_get_file: ['path', 'ref'],
  github_list_issues: ['state', 'labels'],
  github_list_pull_requests: ['state'],
  github_create_issue: ['title', 'body', 'labels'],
  github_comment: ['body'],
  jira_search: ['query'],
  jira_create_issue: ['summary', 'description', 'type', 'labels'],
  jira_comment: ['text', 'attachment_name', 'attachment_content'],
  trello_create_card: ['name', 'description'],
  trello_comment: ['text', 'attachment_name', 'attachment_content'],
  docs_create: ['title', 'content'],
  sheets_read: ['range'],
  sheets_append: ['range', 'rows'],
  drive_search: ['query'],
  web_search: ['query'],
  llm_generate: ['prompt', 'system', 'model'],
}

/** Texts of these parameters cannot be chosen freely: people, times, states, ids, ranges and models. */
const bound: { readonly [tool: string]: readonly string[] } = {
  mail_send: ['to', 'cc', 'bcc'],
  calendar_create_event: ['start'],
  slack_send_message: ['thread_ts'],
  github_list_issues: ['state'],
  github_list_pull_requests: ['state'],
  sheets_read: ['range'],
  sheets_append: ['range'],
  llm_generate: ['model'],
}

/** Whether a parameter refuses every text, e.g. a number. */
const takesNoText = (schema: z.ZodType): boolean =>
  ['text', '1', '1.1', 'open', ['text'], [['text']]].every((value) => !schema.safeParse(value).success)

describe('what parameters name', () => {
  test.each(tools.filter(([, tool]) => serviceOf(tool) !== null))(
    '%s: every parameter that takes a text names a place, or is known to name none',
    (name, { params, places = {} }) => {
      const shape: Readonly<Record<string, z.ZodType>> = params.shape
      const open = Object.keys(shape).filter((param) => !takesNoText(shape[param] as z.ZodType))
      expect([...Object.keys(places), ...(texts[name] ?? [])].sort()).toEqual(open.sort())
    },
  )

  test('a call carries free text in every parameter that takes any text', () => {
    const free = Object.entries(texts).map(([name, params]) => [
      name,
      params.filter((param) => bound[name]?.includes(param) !== true),
    ])
    // Slack makes the name of a new channel from any text.
    const named = [['slack_create_channel', ['name']]]
    expect(Object.fromEntries([...free, ...named].filter(([, params]) => params?.length !== 0))).toEqual(
      Object.fromEntries(
        Object.keys(catalog).flatMap((name) =>
          freeTextsOf(name).length === 0 ? [] : [[name, freeTextsOf(name)]],
        ),
      ),
    )
  })

  test('no parameter of a tool has the name under which rules see where a call goes', () => {
    expect(tools.filter(([, { params }]) => Object.hasOwn(params.shape, destinationParam))).toEqual([])
  })

  test('rules see what the declarations say', () => {
    const declared = tools.flatMap(([name, { places }]) => (places === undefined ? [] : [[name, places]]))
    expect(placesOf).toEqual(Object.fromEntries(declared))
  })
})
