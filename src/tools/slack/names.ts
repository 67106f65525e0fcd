import { z } from 'zod'
import type { ToolName } from '../index.ts'
import type { ToolCall, ToolContext } from '../kit/executor.ts'
import { slackOf, type Slack } from './client.ts'

/* The names that approvers see beside ids. Only ids decide where a message goes, so a call never depends on a name. */

/** If Slack does not give a name within this many milliseconds, the name is left out. */
const mostMilliseconds = 3_000
const longestName = 80

const aChannel = z
  .object({ channel: z.object({ name: z.string().min(1) }) })
  .transform(({ channel }) => `#${channel.name}`)
const aPerson = z
  .object({
    user: z.object({
      name: z.string().min(1),
      real_name: z.string().nullish(),
      profile: z.object({ display_name: z.string().nullish() }).nullish(),
    }),
  })
  .transform(({ user }) => user.profile?.display_name || user.real_name || user.name)

/** Reads Slack's names of channels and people by their ids. */
export interface Names {
  channel(id: string): Promise<string>
  person(id: string): Promise<string>
}

/**
 * Returns functions that read names. A name is shown with its id, such as `#name (C012…)` for a channel. If Slack does
 * not give the name in time, only the id is shown.
 */
export function namesOf(
  call: Pick<ToolCall<unknown>, 'organizationId' | 'requester'>,
  { tools, signal }: Pick<ToolContext, 'signal' | 'tools'>,
  tool: ToolName,
): Names {
  const named = async (id: string, read: (slack: Slack) => Promise<string>): Promise<string> => {
    const limit = AbortSignal.any([signal, AbortSignal.timeout(mostMilliseconds)])
    try {
      const name = await read(await slackOf(call, { tools, signal: limit }, tool))
      return `${shown(name)} (${id})`
    } catch {
      return id
    }
  }
  return {
    channel: (id) =>
      named(id, (slack) => slack.read(aChannel, (client) => client.conversations.info({ channel: id }))),
    person: (id) => named(id, (slack) => slack.read(aPerson, (client) => client.users.info({ user: id }))),
  }
}

/** Cuts a name to one short line, because people choose their names freely. */
const shown = (name: string): string =>
  name
    .replaceAll(/[\p{C}\s]+/gu, ' ')
    .trim()
    .slice(0, longestName)
    .toWellFormed()
