import { tools as files } from './files/tools.ts'
import { github as githubConnect } from './github/connect.ts'
import { tools as github } from './github/tools.ts'
import { google as googleConnect } from './google/connect.ts'
import { calendar, tools as google } from './google/tools.ts'
import { jira as jiraConnect } from './jira/connect.ts'
import { tools as jira } from './jira/tools.ts'
import type { IntegrationDeclaration } from './kit/integration.ts'
import type { ToolDeclaration } from './kit/tool.ts'
import { llm as llmConnect } from './llm/connect.ts'
import { tools as llm } from './llm/tools.ts'
import { mail as mailConnect } from './mail/connect.ts'
import { tools as mail } from './mail/tools.ts'
import { tools as memory } from './memory/tools.ts'
import { search as searchConnect } from './search/connect.ts'
import { tools as search } from './search/tools.ts'
import { slack as slackConnect } from './slack/connect.ts'
import { tools as slack } from './slack/tools.ts'
import { trello as trelloConnect } from './trello/connect.ts'
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

/** A tool that names another connection does not compile. */
type Connected = ToolDeclaration & { readonly connection: Connectable | 'none' | 'installation' }
const all: readonly (Tool & Connected)[] = Object.values(services).flatMap((tools): Tool[] =>
  Object.values(tools),
)

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

/** Every integration that can be connected, by name. */
export const integrations = {
  github: githubConnect,
  slack: slackConnect,
  jira: jiraConnect,
  trello: trelloConnect,
  search: searchConnect,
  llm: llmConnect,
  google: googleConnect,
  mail: mailConnect,
} as const

export type Connectable = keyof typeof integrations
export const integrationNames = Object.keys(integrations) as [Connectable, ...Connectable[]]

/** The credential of an integration, as its schema has parsed it. */
export type CredentialOf<Name extends Connectable> =
  (typeof integrations)[Name] extends IntegrationDeclaration<infer Credential> ? Credential : never

/**
 * Returns the declaration of an integration, with the type that all integrations share. Returns undefined if there is no
 * such integration.
 */
export function integrationNamed(name: string): IntegrationDeclaration | undefined {
  return integrationByName.get(name)
}

const integrationByName: ReadonlyMap<string, IntegrationDeclaration> = new Map(Object.entries(integrations))
