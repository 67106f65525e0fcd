import { tools as files } from './files/tools.ts'
import { github as githubConnect } from './github/connect.ts'
import { tools as github } from './github/tools.ts'
import { google as googleConnect } from './google/connect.ts'
import { calendar, tools as google } from './google/tools.ts'
import { jira as jiraConnect } from './jira/connect.ts'
import { tools as jira } from './jira/tools.ts'
import type { IntegrationDeclaration } from './kit/integration.ts'
import { type ToolDeclaration, severalIn } from './kit/tool.ts'
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
import { ToolFacts } from '../policy/tool-facts.ts'

/** In the order of docs/tools.md. */
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

export const catalog = Object.fromEntries(all.map((tool) => [tool.name, tool])) as {
  readonly [Each in Tool as Each['name']]: Each
}

const byName: ReadonlyMap<string, ToolDeclaration> = new Map(all.map((tool) => [tool.name, tool]))

/** Undefined for other names, even for a name such as `constructor`. */
export function getTool(name: string): ToolDeclaration | undefined {
  return byName.get(name)
}

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

export type CredentialOf<Name extends Connectable> =
  (typeof integrations)[Name] extends IntegrationDeclaration<infer Credential> ? Credential : never

/** With the type that all integrations share. Undefined if there is no such integration. */
export function integrationNamed(name: string): IntegrationDeclaration | undefined {
  return integrationByName.get(name)
}

const integrationByName: ReadonlyMap<string, IntegrationDeclaration> = new Map(Object.entries(integrations))

/** What rules know of the tools: each declaration, with the names of its parameters in place of their schema. */
export const facts = new ToolFacts(
  Object.values(catalog).map((tool) => ({
    ...tool,
    params: Object.keys(tool.params.shape),
    several: severalIn(tool),
  })),
)
