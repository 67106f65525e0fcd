import { until, type Person, type Client } from './client.ts'
import { mustHold, type Stage } from './show.ts'

export const documentPath = 'reports/q3-summary.md'
export const insideAddress = 'team@larkspur.example'
export const outsideAddress = 'someone@elsewhere.example'

export interface Prepared {
  readonly workflowId: string
  readonly subject: string
  /** Is a part of the name of everything that the demo saves. */
  readonly tag: string
  readonly denyName: string
  /** A workflow of the member, whose mail a tool policy limits. */
  readonly limited: { readonly workflowId: string; readonly subject: string }
  readonly changes: Changes
  readonly lines: readonly string[]
}

/**
 * Turns approvals on and saves rules, a tool policy and workflows with unique names. At the end of the show the rules
 * are deleted, and the settings and the policy are restored. Workflows and runs stay for inspection.
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
    // Only the mail of this demo, so that other mail of the organization needs no approval.
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
  return { workflowId: workflow.id, subject, tag, denyName: names.deny, limited, changes, lines }
}

/** A saved limit on the mail of one role, with a workflow of a person with this role. `line` describes it. */
/** The person with this role has the same name. */
export const limited: Person & 'member' = 'member'

interface Policy {
  readonly tool_name: string
  readonly role: string | null
  readonly allowed: boolean | null
  readonly restrictions: object
}

const domain = 'larkspur.example'

/**
 * Lets people with the role `limited` send mail only to `domain`. The restrictions of a policy that exists already come
 * back at the end. The workflow is not deleted.
 */
async function limitMail(
  client: Client,
  organizationId: string,
  tag: string,
  onUndo: (step: () => Promise<unknown>) => void,
): Promise<{ workflowId: string; line: string }> {
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

/** What a show (`npm run demo` or `npm run samples`) changes in an organization. */
export interface Changes {
  /** Saves a rule, and deletes it at the end of the show. */
  save(kind: 'rules' | 'label-rules', body: Readonly<Record<string, unknown>>): Promise<void>
  /**
   * Makes a group for each name, with these people, and deletes it at the end of the show. Returns a rule's `approvers`:
   * one member of each.
   */
  groups(people: Readonly<Record<string, Person>>): Promise<readonly { group: string; count: number }[]>
  /** For the end of the show. The step that was registered last runs first. */
  onUndo(step: () => Promise<unknown>): void
}

interface Settings {
  readonly approvals_enabled: boolean
  readonly allow_self_approval: boolean
}

/**
 * Turns approvals on and self-approval off. `save` saves rules as the person `as`. All is undone at the end of the
 * show; a show that is ended before prints `what` may stay.
 */
export async function turnApprovalsOn(
  { stack, client, atEnd }: Stage,
  as: Person,
  what: string,
): Promise<Changes> {
  const organization = `/organizations/${stack.bootstrap.organization_id}`
  const governance = `${organization}/governance`
  const undoing: (() => Promise<unknown>)[] = []
  atEnd(what, () => undoAll(undoing))
  const before = await client.get<Settings>('owner', 'GET', governance)
  const { approvals_enabled, allow_self_approval } = before
  undoing.push(() => client.get('owner', 'PATCH', governance, { approvals_enabled, allow_self_approval }))
  const settings: Settings = { approvals_enabled: true, allow_self_approval: false }
  await client.get('owner', 'PATCH', governance, settings)
  return {
    async save(kind, body) {
      const { id } = await client.get<{ id: string }>(as, 'POST', `${organization}/${kind}`, body)
      undoing.push(() => client.get(as, 'DELETE', `${organization}/${kind}/${id}`))
    },
    async groups(people) {
      const names = Object.keys(people)
      for (const name of names) {
        const members = [stack.bootstrap.users[people[name] as Person].email]
        const { id } = await client.get<{ id: string }>('owner', 'POST', `${organization}/groups`, { name, members }) // prettier-ignore
        undoing.push(() => client.get('owner', 'DELETE', `${organization}/groups/${id}`))
      }
      return names.map((group) => ({ group, count: 1 }))
    },
    onUndo: (step) => void undoing.push(step),
  }
}

/** Runs every step, and then throws one error with the messages of those that failed. */
async function undoAll(undoing: (() => Promise<unknown>)[]): Promise<void> {
  const failures: string[] = []
  for (let step = undoing.pop(); step !== undefined; step = undoing.pop())
    await step().catch((error: unknown) => failures.push((error as Error).message))
  if (failures.length > 0) throw new Error(`not everything was changed back:\n${failures.join('\n')}`)
}

/* Connects a person, or an organization, to stand-ins of services while a show runs. */

interface Connection {
  readonly id: string
  readonly name: string
  readonly owner_id: string | null
  readonly integration: string
  readonly account: string | null
  readonly status: string
}

/** The person's own. One named `name` is left from an interrupted show, and is revoked here. */
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

export async function connectStandIn(
  client: Client,
  onUndo: (step: () => Promise<unknown>) => void,
  person: Person,
  {
    tool,
    ...body
  }: {
    readonly tool: string
    readonly name: string
    readonly credential: object
    readonly scope: 'personal' | 'organization'
  },
): Promise<Connection> {
  const connection = await client.get<Connection>(person, 'POST', `/tools/${tool}/connect`, body)
  onUndo(() => client.get(person, 'DELETE', `/connections/${connection.id}`))
  return connection
}

const voters: readonly Person[] = ['approver', 'owner']

/** Approves as one person after another, until there are enough votes. Throws if there never are. */
export async function voteUntilDecided(client: Client, approvalId: string): Promise<Person[]> {
  for (const [index, person] of voters.entries()) {
    const body = { comment: 'read it, fine' }
    const path = `/approvals/${approvalId}/approve`
    const { status } = await client.get<{ status: string }>(person, 'POST', path, body)
    if (status === 'approved') return voters.slice(0, index + 1)
  }
  throw new Error(`the organization asks for more approvals than ${voters.join(' and ')} can give`)
}

/** Returns the addresses of the people who voted. Throws if they did not approve, or after an hour. */
export async function decidedByPerson(client: Client, approvalId: string): Promise<string[]> {
  const { status, votes } = await until(
    'a decision in the browser',
    () =>
      client.get<{ status: string; votes: readonly { email: string }[] }>(
        'approver',
        'GET',
        `/approvals/${approvalId}`,
      ),
    (approval) => approval.status !== 'pending',
    3_600_000,
  )
  mustHold(status === 'approved', `the call is approved (it is ${status}, so the mail does not leave)`)
  return votes.map(({ email }) => email)
}
