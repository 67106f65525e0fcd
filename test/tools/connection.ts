import { expect } from '@jest/globals'
import { issueCall, createToolActivities } from '../../src/activities/attempt.ts'
import {
  ToolError,
  type Look,
  type ServiceConnection,
  type ToolCall,
  type ToolContext,
  type ToolResult,
} from '../../src/tools/kit/executor.ts'
import {
  getTool,
  integrationNamed,
  type Connectable,
  type CredentialOf,
  type ToolName,
} from '../../src/tools/index.ts'
import type { Json } from '../../src/policy/types.ts'
import { loopbackHosts } from '../../src/shared/outgoing/hosts.ts'
import { createOutgoing } from '../../src/shared/outgoing/outgoing.ts'
import { toolCall, toolContext } from './call.ts'

/** The test files of a worker share this client. It ends with the worker. */
export const outgoing = createOutgoing({ hosts: loopbackHosts })

interface More {
  /** The name of the account in the service. */
  readonly account?: string | null
  readonly accessToken?: string
  /** No request takes longer. */
  readonly mostMilliseconds?: number
}

/** A connection to a stand-in at `base`, as a call of a tool gets it. */
export function connectionTo<Name extends Connectable>(
  name: Name,
  credential: CredentialOf<Name>,
  base: string,
  { account = null, accessToken, mostMilliseconds = Infinity }: More = {},
): ServiceConnection<Name> {
  return {
    credential,
    name: 'con_1',
    account,
    base,
    headers: integrationNamed(name)?.headers(credential, accessToken) ?? {},
    fetchWithin: (bounds) =>
      outgoing.fetchWithin({
        ...bounds,
        milliseconds: Math.min(bounds.milliseconds, mostMilliseconds),
        addresses: [base],
      }),
    requireFresh: () => {},
    expired: async () => new ToolError('connection_expired', 'connect again', { retryable: false }),
  }
}

export const contextWith = (connection: ServiceConnection<never>, over: Partial<ToolContext> = {}) =>
  toolContext({ connection: async () => connection }, over)

const bodies = createToolActivities()

/** Runs a tool's body for a call, or to look for a call. Returns what the body returns. */
export const runBody = (
  name: ToolName,
  call: ToolCall<object>,
  context: ToolContext,
  look: Look | null = null,
): Promise<unknown> => bodies[name]!(issueCall(call, context, look))

/** Calls a tool's body; the output has the form that the tool declares. */
export async function outputOf(name: ToolName, params: object, context: ToolContext): Promise<Json> {
  const { output } = (await runBody(name, toolCall(params), context)) as ToolResult
  return asDeclared(name, output)
}

/** Returns the output after a check that it has the form that the tool declares. */
export function asDeclared<Output>(name: ToolName, output: Output): Output {
  expect(getTool(name)?.output.parse(output)).toEqual(output)
  return output
}
