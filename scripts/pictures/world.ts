import { Api, type Person } from '../../test/support/client.ts'
import { asAdmin } from '../../test/support/postgres.ts'
import type { SmtpSink } from '../../test/support/smtp-sink.ts'
import type { StartedStack } from '../../test/support/start-stack.ts'
import { agentAtWork } from './agent.ts'

/* The data in the pictures: the organization Larkspur with its people, rules and runs, and an agent. */

export interface World {
  readonly stack: StartedStack
  readonly as: Readonly<Record<Person, Api>>
  readonly organization: string
  /** The run of the story. It waits for the approval `mail`, and completes when somebody approves. */
  readonly report: { readonly run: string; readonly mail: string }
  /**
   * The ids of waiting approvals. The keys `change`, `push`, `edit` and `wholeRun` name what waits. `late` is the
   * approval for `tooLate`.
   */
  readonly waiting: Readonly<Record<'change' | 'push' | 'edit' | 'wholeRun' | 'late', string>>
  readonly rejected: string
  /** The id of a run whose mail has an unknown outcome. */
  readonly unknown: string
  readonly session: string
}

/** The mail addresses in the pictures. The first start of a stack creates these people. */
export const addresses: Readonly<Record<Person, string>> = {
  owner: 'olga@larkspur.example',
  admin: 'adam@larkspur.example',
  approver: 'sam@larkspur.example',
  member: 'mira@larkspur.example',
  viewer: 'vera@larkspur.example',
}

export async function makeWorld(stack: StartedStack, sink: SmtpSink): Promise<World> {
  const as = peopleOf(stack)
  const organization = stack.bootstrap<{ organization_id: string }>().organization_id
  await rename(stack)
  await saveRules(as, organization)
  await endedRuns(as)
  const unknown = await lostMail(as, sink)
  const change = await changedPrices(as)
  const { late, rejected } = await reminders(as)
  const wholeRun = await as.member.untilHeld(await start(as, supplierRun), 'run')
  const run = await start(as, quarterlyReport, { quarter: 'Q3' })
  const mail = await as.member.untilHeld(run, 'step')
  await as.member.untilRun(run, 'at its held mail', ({ steps }) =>
    steps.every(({ id, status }) => ['board', 'archive'].includes(id) || status !== 'pending'),
  )
  const { session, push, edit } = await agentAtWork(stack, as)
  return {
    stack,
    as,
    organization,
    report: { run, mail },
    waiting: { change, push, edit, wholeRun, late },
    rejected,
    unknown,
    session,
  }
}

function peopleOf({ dataDir }: StartedStack): World['as'] {
  const { owner, admin, approver, member, viewer } = addresses
  const names = Object.keys({ owner, admin, approver, member, viewer }) as Person[]
  return Object.fromEntries(names.map((name) => [name, new Api(dataDir, name)])) as unknown as World['as']
}

/**
 * Changes names and mail addresses in the database, because the API cannot change them. The first start of a stack
 * always creates the same ones.
 */
async function rename(stack: StartedStack): Promise<void> {
  const { database_admin_url: url, users } = stack.bootstrap<Api['bootstrap']>()
  await asAdmin(url, async (client) => {
    await client.query(`update organizations set name = 'Larkspur' where not personal`)
    for (const [person, email] of Object.entries(addresses))
      await client.query('update users set email = $1 where id = $2', [
        email,
        users[person as Person].user_id,
      ])
  })
}

const outsiders = { param: 'to', operator: 'domain_not_in', value: ['larkspur.example'] }

async function saveRules({ owner, admin }: World['as'], organization: string): Promise<void> {
  await owner.settings({ approvals_enabled: true, category_flags: { financial: true } })
  const hold = (rule: Record<string, unknown>) => admin.createRule({ verdict: 'require_approval', ...rule })
  await hold({ name: 'Mail to outsiders needs a person', tools: ['mail_send'], params: [outsiders] })
  await hold({
    name: 'Prices change with a second pair of eyes',
    tools: ['memory_set'],
    params: [{ param: 'key', operator: 'equals', value: 'price-list' }],
  })
  await hold({ name: 'Agents ask before they send', applies_to: ['agents'], side_effects: ['egress'] })
  await hold({
    name: 'Limits are changed by two people',
    applies_to: ['agents'],
    tools: ['Edit'],
    params: [{ param: 'file_path', operator: 'contains', value: 'limits.yml' }],
  })
  await admin.createRule({
    name: 'Agents delete nothing',
    verdict: 'deny',
    applies_to: ['agents'],
    params: [{ param: 'command', operator: 'contains', value: 'rm -rf' }],
  })
  await admin.good('POST', `/organizations/${organization}/label-rules`, {
    name: 'Reports are confidential',
    tools: ['file_read'],
    params: [{ param: 'path', operator: 'startswith', value: 'reports/' }],
    add_labels: ['confidential'],
  })
}

interface Workflow {
  readonly name: string
  readonly definition: object
}

async function start(as: World['as'], { name, definition }: Workflow, inputs: object = {}): Promise<string> {
  return as.member.execute(await as.member.createWorkflow(name, definition), inputs)
}

const quarterlyReport: Workflow = {
  name: 'Quarterly report',
  definition: {
    inputs: { quarter: { type: 'string', required: true } },
    steps: [
      { id: 'summary', tool: 'file_read', params: { path: 'reports/q3-summary.md' } },
      { id: 'figures', tool: 'memory_get', params: { key: 'figures-{{input.quarter}}' } },
      {
        id: 'draft',
        tool: 'memory_set',
        params: { key: 'draft-{{input.quarter}}', value: '{{summary.output.text}}' },
        depends_on: ['figures'],
      },
      {
        id: 'warning',
        tool: 'mail_send',
        when: { value: '{{figures.output.value}}', operator: 'equals', compare: '' },
        params: { to: 'finance@larkspur.example', subject: 'Figures are missing', text: '{{input.quarter}}' },
      },
      {
        id: 'teams',
        tool: 'mail_send',
        for_each: ['sales@larkspur.example', 'service@larkspur.example', 'works@larkspur.example'],
        params: { to: '{{item}}', subject: '{{input.quarter}} in short', text: '{{summary.output.text}}' },
        depends_on: ['draft'],
      },
      {
        id: 'board',
        tool: 'mail_send',
        summary: 'Sends the report to the board and its chair',
        params: {
          to: ['board@larkspur.example', 'chair@oakfield.example'],
          subject: 'Larkspur: {{input.quarter}} in short',
          text: '{{summary.output.text}}',
        },
        depends_on: ['draft'],
      },
      {
        id: 'archive',
        tool: 'memory_set',
        params: { key: 'report-{{input.quarter}}', value: '{{summary.output.text}}' },
        depends_on: ['teams', 'board'],
      },
    ],
    result: { report: '{{summary.output.text}}' },
  },
}

const supplierRun: Workflow = {
  name: 'Pay the suppliers',
  definition: {
    categories: ['financial'],
    steps: [
      { id: 'invoices', tool: 'memory_get', params: { key: 'invoices-november' } },
      {
        id: 'order',
        tool: 'mail_send',
        summary: 'Orders the payments at the bank',
        params: {
          to: 'payments@larkspur.example',
          subject: 'Payments of November',
          text: '{{invoices.output.value}}',
        },
      },
    ],
  },
}

/** Makes runs that have ended: one completed, one failed. */
async function endedRuns(as: World['as']): Promise<void> {
  const keep = (key: string, value: string) => ({ id: key, tool: 'memory_set', params: { key, value } })
  const figures = await start(as, {
    name: 'Collect the figures',
    definition: {
      steps: [
        keep('figures-Q3', 'revenue 4812, margin 2551'),
        keep('invoices-november', '14 invoices, 18,240 EUR'),
      ],
    },
  })
  await as.member.untilStatus(figures, 'completed')
  const missing = { id: 'read', tool: 'file_read', params: { path: 'reports/q2-summary.md' } }
  const failed = await start(as, { name: 'Compare two quarters', definition: { steps: [missing] } })
  await as.member.untilStatus(failed, 'failed')
}

/**
 * Makes a run whose mail has an unknown outcome. The mail server takes the mail, but the connection breaks before the
 * mail server answers.
 */
async function lostMail(as: World['as'], sink: SmtpSink): Promise<string> {
  sink.behaviour = { kind: 'drop', taken: true }
  const params = { to: 'staff@larkspur.example', subject: 'The office moves', text: 'We move on Friday.' }
  const steps = [{ id: 'tell', tool: 'mail_send', summary: 'Tells everybody about the move', params }]
  const run = await start(as, { name: 'Tell the staff', definition: { steps } })
  await as.member.untilRun(run, 'unknown', (each) => each.steps[0]?.status === 'unknown_outcome')
  sink.behaviour = { kind: 'accept' }
  return run
}

/** Makes a change of a stored value that waits for approval. The approval shows the old and the new text. */
async function changedPrices(as: World['as']): Promise<string> {
  const store = (basic: number) => ({
    id: 'store',
    tool: 'memory_set',
    summary: 'Raises the price of the basic plan',
    params: { key: 'price-list', value: `Basic ${basic} EUR\nTeam 40 EUR\nEnterprise on request` },
  })
  const first = await start(as, { name: 'First prices', definition: { steps: [store(10)] } })
  await as.approver.decide(await as.member.untilHeld(first, 'step'), 'approve')
  await as.member.untilStatus(first, 'completed')
  return as.member.untilHeld(
    await start(as, { name: 'New prices', definition: { steps: [store(12)] } }),
    'step',
  )
}

/** Makes two runs that mail customers. One mail is rejected, and one waits. */
async function reminders(as: World['as']): Promise<{ late: string; rejected: string }> {
  const remind = (to: string) => ({
    name: 'Remind late payers',
    definition: {
      steps: [
        {
          id: 'remind',
          tool: 'mail_send',
          params: {
            to,
            subject: 'Your invoice of October',
            text: 'Our invoice 4711 is open since 15 October.',
          },
        },
      ],
    },
  })
  const rejected = await as.member.untilHeld(await start(as, remind('info@elmstead.example')), 'step')
  await as.approver.good('POST', `/approvals/${rejected}/reject`, { comment: 'Elmstead paid on Monday.' })
  const late = await as.member.untilHeld(await start(as, remind('office@cedarmill.example')), 'step')
  return { late, rejected }
}
