import { tools as files } from './files/tools.ts'
import { tools as github } from './github/tools.ts'
import { calendar, tools as google } from './google/tools.ts'
import { tools as jira } from './jira/tools.ts'
import type { ToolDeclaration } from './kit/tool.ts'
import { tools as llm } from './llm/tools.ts'
import { tools as mail } from './mail/tools.ts'
import { tools as memory } from './memory/tools.ts'
import { tools as search } from './search/tools.ts'
import { tools as slack } from './slack/tools.ts'
import { tools as trello } from './trello/tools.ts'

/** The tools of each service, in the order of docs/tools.md. */
export const services = {
  files,
  memory,
  mail,
  calendar,
  slack,
  github,
  jira,
  trello,
  google,
  search,
  llm,
} as const

type Services = typeof services
type Tool = { [Name in keyof Services]: Services[Name][keyof Services[Name]] }[keyof Services]
export type ToolName = Tool['name']

const all: readonly Tool[] = Object.values(services).flatMap((tools): Tool[] => Object.values(tools))

/** Every tool of the service, by name. */
export const catalog = Object.fromEntries(all.map((tool) => [tool.name, tool])) as {
  readonly [Each in Tool as Each['name']]: Each
}

const byName: ReadonlyMap<string, ToolDeclaration> = new Map(all.map((tool) => [tool.name, tool]))

/**
 * Returns the declaration of a tool. Returns undefined for a name that the catalogue does not have, even for a name
 * such as `constructor`.
 */
export function getTool(name: string): ToolDeclaration | undefined {
  return byName.get(name)
}
