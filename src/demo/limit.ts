import type { Client, Person } from './client.ts'

/**
 * The saved limit on the mail of one role. `workflowId` is a workflow of a person with this role. `line` describes the
 * limit.
 */
export interface MailLimit {
  readonly workflowId: string
  readonly line: string
}

/** The role whose mail the demo limits. The person with this role has the same name. */
export const limited: Person & 'member' = 'member'

interface Policy {
  readonly tool_name: string
  readonly role: string | null
  readonly allowed: boolean | null
  readonly restrictions: object
}

const domain = 'larkspur.example'

/**
 * Lets people with the role `limited` send mail only to `domain`. If the organization already has a policy for this
 * tool and role, replaces the restrictions of that policy. `onUndo` gets the step that restores or deletes the policy.
 * The workflow that this function creates is not deleted.
 */
export async function limitMail(
  client: Client,
  organizationId: string,
  tag: string,
  onUndo: (step: () => Promise<unknown>) => void,
): Promise<MailLimit> {
  const policies = `/organizations/${organizationId}/tool-policies`
  const one = `${policies}/mail_send?role=${limited}`
  const { data } = await client.get<{ data: Policy[] }>('owner', 'GET', `${policies}?limit=200`)
  const before = data.find(({ tool_name, role }) => tool_name === 'mail_send' && role === limited)
  const restrictions = { allowed_domains: [domain] }
  const workflow = await client.get<{ id: string }>(limited, 'POST', '/workflows', {
    name: `demo ${tag}: tell somebody`,
    definition: {
      inputs: { to: { type: 'string', required: true } },
      steps: [{ id: 'tell', tool: 'mail_send', params: { to: '{{input.to}}', subject: tag, text: 'hello' } }],
    },
  })
  if (before === undefined) {
    await client.get('owner', 'POST', policies, { tool_name: 'mail_send', role: limited, restrictions })
    onUndo(() => client.get('owner', 'DELETE', one))
  } else {
    onUndo(() => client.get('owner', 'PATCH', one, { restrictions: before.restrictions }))
    await client.get('owner', 'PATCH', one, { restrictions })
  }
  return {
    workflowId: workflow.id,
    line: `policy    role ${limited}: mail_send only to ${domain} (allowed_domains)`,
  }
}
