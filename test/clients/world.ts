import type { z } from 'zod'
import type { agentSession } from '../../src/api/routes/agents.ts'
import { until } from '../stack/until.ts'
import { Api } from '../support/client.ts'
import type { Approval } from '../support/client-types.ts'
import { stackHome, startStack } from '../support/start-stack.ts'

export type AgentSession = z.infer<typeof agentSession>

/** Words in a call's arguments that rules match, and the rules' names. */
export const forbidden = { word: 'FORBIDDEN', rule: 'nothing forbidden' }
export const release = { word: 'RELEASE', rule: 'releases wait for a person' }

/**
 * A whole stack with one organization, which denies and holds calls by the rules above, and a member's key for agents.
 */
export interface AgentWorld {
  readonly url: string
  /** The key has only the scope `agents:authorize`. */
  readonly key: string
  readonly admin: Api
  /** Resolves with the approval of the held call that has this text in its arguments. */
  held(text: string): Promise<Approval>
  approve(approvalId: string): Promise<void>
  /** Resolves with the session that has this client's id, once `holds` is true for the session. */
  session(sessionId: string, what: string, holds: (session: AgentSession) => boolean): Promise<AgentSession>
  /** Kills every process of the service at once, and starts it again with the same data and port. */
  crash(): Promise<void>
  close(): Promise<void>
}

export async function agentWorld(): Promise<AgentWorld> {
  const home = stackHome()
  const start = () => startStack({ dataDir: home.dataDir, env: { LOG_LEVEL: 'error' } })
  let stack = await start().catch(async (error: unknown) => {
    await home.remove()
    throw error
  })
  const [owner, admin, approver, member] = (['owner', 'admin', 'approver', 'member'] as const).map(
    (name) => new Api(home.dataDir, name),
  ) as [Api, Api, Api, Api]
  await owner.settings({ approvals_enabled: true })
  for (const [{ word, rule }, verdict] of [
    [forbidden, 'deny'],
    [release, 'require_approval'],
  ] as const) {
    const params = [{ param: '*', operator: 'contains', value: word }]
    await admin.createRule({ name: rule, verdict, params, applies_to: ['agents'] })
  }
  const { api_key: key } = await member.good<{ api_key: string }>('POST', '/api-keys', {
    name: 'agents',
    scopes: ['agents:authorize'],
  })
  return {
    url: stack.baseUrl,
    key,
    admin,
    held: async (text) => {
      let found: Approval | undefined
      await until(`an approval of \`${text}\` waits`, async () => {
        const query = '/approvals?status=pending&kind=agent_call&limit=200'
        const { data } = await approver.good<{ data: Approval[] }>('GET', query)
        found = data.find(({ params }) => JSON.stringify(params).includes(text))
        return found !== undefined
      })
      return found as Approval
    },
    approve: async (approvalId) => {
      const { status, body } = await approver.decide(approvalId, 'approve')
      if (status !== 200) throw new Error(`not approved: ${JSON.stringify(body)}`)
    },
    session: async (sessionId, what, holds) => {
      let found: AgentSession | undefined
      await until(`session ${sessionId} ${what}`, async () => {
        const query = `/agent-sessions?session_id=${sessionId}`
        const { data } = await admin.good<{ data: AgentSession[] }>('GET', query)
        found = data[0]
        return found !== undefined && holds(found)
      })
      return found as AgentSession
    },
    crash: async () => {
      const { baseUrl } = stack
      await stack.kill9('all')
      stack = await start()
      if (stack.baseUrl !== baseUrl) throw new Error(`it was at ${baseUrl}, and is at ${stack.baseUrl} now`)
    },
    close: async () => {
      await stack.stop()
      await home.remove()
    },
  }
}
