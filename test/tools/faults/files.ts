import type { JsonObject } from '../../../src/policy/types.ts'
import { jira } from '../services/jira.ts'
import type { Ask, FaultService, WritingTool } from './service.ts'
import { trello } from '../services/trello.ts'

/** A comment with a file, which is two writes: first the file, then the comment. */
export interface CommentWithFile {
  readonly tool: 'jira_comment' | 'trello_comment'
  readonly service: FaultService
  params(text: string): JsonObject
  /** Asks the service how many files the call has attached. */
  files(ask: Ask, text: string): Promise<number>
}

const nameOf = (text: string): string => `${text}.txt`

function withFile(
  service: FaultService,
  tool: CommentWithFile['tool'],
  filesOf: (ask: Ask) => Promise<readonly string[]>,
): CommentWithFile {
  return {
    tool,
    service,
    params: (text) => ({
      ...service.tools[tool]?.params(text, service.place),
      attachment_name: nameOf(text),
      attachment_content: 'the file',
    }),
    files: async (ask, text) => (await filesOf(ask)).filter((name) => name === nameOf(text)).length,
  }
}

export const commentsWithFiles: readonly CommentWithFile[] = [
  withFile(jira, 'jira_comment', async (ask) => {
    const path = `/rest/api/3/issue/${jira.place}-1?fields=attachment`
    const { fields } = (await ask('GET', path)) as unknown as {
      fields: { attachment: { filename: string }[] }
    }
    return fields.attachment.map(({ filename }) => filename)
  }),
  withFile(trello, 'trello_comment', async (ask) => {
    const all = (await ask('GET', '/1/cards/c0000256/attachments')) as unknown as { name: string }[]
    return all.map(({ name }) => name)
  }),
]

/** Asks the service for the comments of the call. */
export const commentsOf = ({ service, tool }: CommentWithFile): WritingTool['made'] =>
  (service.tools[tool] as WritingTool).made
