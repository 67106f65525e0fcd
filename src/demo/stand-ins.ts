import type { Client, Person } from './client.ts'
import type { Stage } from './show.ts'

/* Connects a person to stand-ins of services while a show runs. */

interface Connection {
  readonly id: string
  readonly name: string
  readonly owner_id: string | null
  readonly integration: string
  readonly account: string | null
  readonly status: string
}

/**
 * Finds the person's own connection to one of these services; null if there is none. A connection named `name` is left
 * from an interrupted show: this function revokes it and does not return it.
 */
export async function ownConnection(
  { client, stack }: Pick<Stage, 'client' | 'stack'>,
  person: Person,
  name: string,
  integrations: readonly string[],
): Promise<Connection | null> {
  const { data } = await client.get<{ data: Connection[] }>(person, 'GET', '/connections?limit=200')
  const { user_id } = stack.bootstrap.users[person]
  const live = data.filter((each) => each.owner_id === user_id && each.status !== 'revoked')
  for (const { id } of live.filter((each) => each.name === name))
    await client.get(person, 'DELETE', `/connections/${id}`)
  return live.find((each) => each.name !== name && integrations.includes(each.integration)) ?? null
}

/** Connects the person to a stand-in. `onUndo` gets the step that disconnects. */
export async function connectStandIn(
  client: Client,
  onUndo: (step: () => Promise<unknown>) => void,
  person: Person,
  { tool, name, credential }: { readonly tool: string; readonly name: string; readonly credential: object },
): Promise<Connection> {
  const body = { credential, scope: 'personal', name }
  const connection = await client.get<Connection>(person, 'POST', `/tools/${tool}/connect`, body)
  onUndo(() => client.get(person, 'DELETE', `/connections/${connection.id}`))
  return connection
}
