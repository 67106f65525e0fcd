import type { Integration } from './kit/tool.ts'
import { github } from './github/connect.ts'
import { google } from './google/connect.ts'
import type { IntegrationDeclaration } from './kit/integration.ts'
import { jira } from './jira/connect.ts'
import { llm } from './llm/connect.ts'
import { mail } from './mail/connect.ts'
import { search } from './search/connect.ts'
import { slack } from './slack/connect.ts'
import { trello } from './trello/connect.ts'

/** Every integration that can be connected, by name. */
export const integrations = { github, slack, jira, trello, search, llm, google, mail } as const

export type Connectable = keyof typeof integrations
export const integrationNames = Object.keys(integrations) as [Connectable, ...Connectable[]]

/** The credential of an integration, as its schema has parsed it. */
export type CredentialOf<Name extends Connectable> =
  (typeof integrations)[Name] extends IntegrationDeclaration<infer Credential> ? Credential : never

/**
 * Returns the declaration of an integration, with the type that all integrations share. Returns undefined if the
 * integration cannot be connected yet.
 */
export function integrationNamed(name: Integration): IntegrationDeclaration | undefined {
  return byName.get(name)
}

const byName: ReadonlyMap<string, IntegrationDeclaration> = new Map(Object.entries(integrations))
