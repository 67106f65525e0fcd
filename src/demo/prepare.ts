import { turnApprovalsOn, type Changes } from './changes.ts'
import type { Person } from './client.ts'
import { limitMail } from './limit.ts'
import type { Stage } from './show.ts'

export const documentPath = 'reports/q3-summary.md'
export const insideAddress = 'team@larkspur.example'
export const outsideAddress = 'someone@elsewhere.example'

/** The objects that one demo has saved. */
export interface Prepared {
  readonly workflowId: string
  readonly subject: string
  readonly denyName: string
  /**
   * A workflow of the member, and the subject of the mail that this workflow sends. A tool policy limits the mail of
   * members.
   */
  readonly limited: { readonly workflowId: string; readonly subject: string }
  /** Makes further changes in the organization and undoes all of them at the end of the show. */
  readonly changes: Changes
  /** Lines to print about the saved objects. */
  readonly lines: readonly string[]
}

/**
 * Turns approvals on and saves two rules, a label rule, a tool policy and two workflows, with unique names. At the end
 * of the show, the rules are deleted, and the settings and the policy are restored. The workflows and runs stay for
 * inspection.
 */
export async function prepare(stage: Stage, as: Person): Promise<Prepared> {
  const tag = Math.random().toString(36).slice(2, 8)
  const what = `rules named \`demo ${tag}\`, the policy of \`mail_send\` for members, the setting of approvals`
  const { client } = stage
  const changes = await turnApprovalsOn(stage, as, what)
  const { save, onUndo } = changes
  const names = {
    label: `demo ${tag}: reports are confidential`,
    hold: `demo ${tag}: confidential mail needs a second person`,
    deny: `demo ${tag}: confidential mail stays inside`,
  }
  const confidential = { labels: { any_of: ['confidential'] } }
  const subject = `Third quarter (${tag})`
  await save('label-rules', {
    name: names.label,
    tools: ['file_read'],
    params: [{ param: 'path', operator: 'startswith', value: 'reports/' }],
    add_labels: ['confidential'],
  })
  await save('rules', {
    name: names.hold,
    verdict: 'require_approval',
    side_effects: ['egress'],
    ...confidential,
    // The rule matches only the mail of this demo. So the demo does not make other mail of the organization need an
    // approval.
    params: [{ param: 'subject', operator: 'equals', value: subject }],
  })
  await save('rules', {
    name: names.deny,
    verdict: 'deny',
    tools: ['mail_send'],
    ...confidential,
    params: [
      { param: 'subject', operator: 'equals', value: subject },
      { param: 'to', operator: 'domain_not_in', value: ['larkspur.example'] },
    ],
  })
  const workflow = await client.get<{ id: string; version: number }>(as, 'POST', '/workflows', {
    name: `demo ${tag}: send the quarterly report`,
    definition: {
      inputs: { to: { type: 'string', required: true } },
      steps: [
        { id: 'read', tool: 'file_read', params: { path: documentPath } },
        {
          id: 'send',
          tool: 'mail_send',
          params: { to: '{{input.to}}', subject, text: '{{steps.read.output.text}}' },
        },
      ],
    },
  })
  const limit = await limitMail(client, stage.stack.bootstrap.organization_id, tag, onUndo)
  const lines = [
    ...Object.values(names).map((name) => `rule      ${name}`),
    limit.line,
    `workflow  ${workflow.id}, version ${workflow.version}: file_read ${documentPath}, then mail_send`,
  ]
  const limited = { workflowId: limit.workflowId, subject: tag }
  return { workflowId: workflow.id, subject, denyName: names.deny, limited, changes, lines }
}
