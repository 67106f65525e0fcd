import { peoplePath, triggerPath, triggersPath, workflowPath } from '../../contract/pages.ts'
import { empty, onceOf, Refused, Select, Told, type Filled } from '../parts/form.tsx'
import { OnceField, PostForm } from '../parts/layout.tsx'
import { exactTime } from '../../policy/units.ts'
import { timesWords } from '../parts/schedule-form.tsx'
import { declaredOf } from '../parts/tool-try.tsx'
import { addressOf, Empty, Pager, Table } from '../parts/list.tsx'
import { secretPage } from '../parts/secret.tsx'
import { Badge } from '../parts/state.tsx'
import { Time } from '../parts/time.tsx'
import {
  isKind,
  labelledTrigger,
  triggerBody,
  TriggerFields,
  type DeclaredValues,
  type Options,
  type Trigger,
  type TriggerKind,
} from '../parts/trigger-form.tsx'
import { OrganizationName, Words } from '../parts/words.tsx'
import { hasRole, organizationId, type Form, type PersonsVisit, type Shown } from '../visit.ts'
import { problemPage } from './plain.tsx'
import { serviceAccountsOf } from './service-accounts.tsx'

/* `/console/triggers`: what starts runs without a person. Members see it, and admins make it. */

export const mayArm = ({ person }: PersonsVisit): boolean =>
  hasRole(person.organization?.role ?? null, 'admin')

/** "every 5 minutes", "every day at 09:00 (Europe/Berlin)", "messages (github)", "sheets_read every minute". */
export function whenWords({
  schedule,
  webhook,
  poll,
}: Pick<Trigger, 'schedule' | 'webhook' | 'poll'>): string {
  if (poll !== null) return `${poll.tool} every ${exactTime(poll.every_seconds).replace(/^1 /, '')}`
  if (schedule === null) return `messages (${webhook?.verify ?? ''})`
  return schedule.cron === null ? timesWords(schedule) : `${timesWords(schedule)} (${schedule.time_zone})`
}

export const TriggerState = ({ paused, isLost }: { paused: boolean; isLost: boolean }) =>
  paused ? (
    <Badge tone="hold" word="Paused" />
  ) : isLost ? (
    <Badge tone="bad" word="Needs another service account" />
  ) : (
    <Badge tone="good" word="Active" />
  )

/** Its service account was deleted, or is no member. `accounts`: null for people who may not see them. */
export const lacksAccount = ({ service_account: own }: Trigger, accounts: Options | null): boolean =>
  accounts !== null && !accounts.some(([id]) => id === own)

/** null for a webhook, and while it is paused. */
export const nextOf = ({ schedule, poll, paused }: Trigger): string | null =>
  paused ? null : ((schedule ?? poll)?.next_due_at ?? null)

/** `GET /console/triggers` */
export async function triggersPage(visit: PersonsVisit, given: Filled = empty): Promise<Shown> {
  const chosen = {
    workflow: given.form?.get('workflow') ?? visit.query.get('workflow'),
    tool: given.form?.get('tool') ?? visit.query.get('tool'),
  }
  const declared = await declaredBy(visit, chosen)
  const filled = labelledTrigger(given, declared)
  const cursor = visit.query.get('cursor') ?? undefined
  const listed = await visit.api.call('GET /triggers', {
    query: {
      organization_id: organizationId(visit),
      limit: '50',
      ...(cursor === undefined ? {} : { cursor }),
    },
  })
  if (!listed.ok) return problemPage(listed, visit.place)
  const { data, next_cursor: next } = listed.body
  const [workflows, accounts] = await Promise.all([workflowsFor(visit), accountsFor(visit)])
  const names = new Map(workflows)
  const kind = filled.form?.get('kind') ?? visit.query.get('new')
  return {
    status: filled.problem?.status ?? 200,
    title: 'Triggers',
    main: (
      <article class="page">
        <header class="headline">
          <h1>Triggers</h1>
          <p class="quiet">
            <OrganizationName name={visit.person.organization?.name ?? ''} />
          </p>
          <p>
            They start runs without a person: at due times, when another program sends a message, or for each
            new item that a tool reads.
          </p>
        </header>
        <Refused filled={filled} />
        <Told visit={visit} results={{ delete: 'The trigger is deleted.' }} />
        {data.length === 0 ? (
          <Empty title="There is no trigger yet.">
            An admin makes one for a workflow and a service account.
          </Empty>
        ) : (
          <Table
            label="Triggers"
            head={['Name', 'Workflow', 'When', 'State', 'Next']}
            rows={data.map((trigger) => [
              <a href={triggerPath(trigger.workflow_id, trigger.id)}>
                <Words text={trigger.name} />
              </a>,
              <a href={workflowPath(trigger.workflow_id)}>
                <Words text={names.get(trigger.workflow_id) ?? trigger.workflow_id} most={120} />
              </a>,
              whenWords(trigger),
              <TriggerState paused={trigger.paused} isLost={lacksAccount(trigger, accounts)} />,
              timeOf(nextOf(trigger), visit.now),
            ])}
          />
        )}
        <Pager
          path={triggersPath}
          chosen={{ cursor }}
          cursor="cursor"
          next={next}
          words={{ first: 'First triggers', next: 'More triggers' }}
        />
        {mayArm(visit) ? (
          <p class="links">
            <a href={newPath(visit, 'schedule')}>New schedule</a>
            <a href={newPath(visit, 'webhook')}>New webhook</a>
            <a href={newPath(visit, 'poll')}>New poll</a>
          </p>
        ) : null}
        {mayArm(visit) && isKind(kind)
          ? await newTrigger(visit, filled, kind, { workflows, accounts: accounts ?? [], chosen, declared })
          : null}
      </article>
    ),
  }
}

/** The workflow from whose page one comes stays chosen. */
function newPath({ query }: PersonsVisit, kind: TriggerKind): string {
  const workflow = query.get('workflow')
  return `${addressOf(triggersPath, { new: kind, ...(workflow === null ? {} : { workflow }) })}#new`
}

const timeOf = (at: string | null, now: Date) => (at === null ? '–' : <Time at={at} now={now} />)

interface Chosen {
  readonly workflow: string | null
  /** null unless a poll reads with it. */
  readonly tool: string | null
}

/** Nothing, for what is not chosen or not there. */
export async function declaredBy(visit: PersonsVisit, { workflow, tool }: Chosen): Promise<DeclaredValues> {
  const [started, read] = await Promise.all([
    workflow === null ? null : visit.api.call('GET /workflows/{id}', { params: { id: workflow } }),
    tool === null
      ? null
      : visit.api.call('GET /tools/{name}', {
          params: { name: tool },
          query: { organization_id: organizationId(visit) },
        }),
  ])
  return {
    inputs: started?.ok === true ? (started.body.definition.inputs ?? {}) : {},
    params: read?.ok === true ? declaredOf(read.body) : {},
  }
}

/** Those that read. */
async function toolsFor(visit: PersonsVisit): Promise<Options> {
  const query = { organization_id: organizationId(visit), limit: '200' }
  const tools = await visit.api.call('GET /tools', { query })
  if (!tools.ok) return []
  return tools.body.data.filter((tool) => tool.side_effect === 'read').map(({ name }) => [name, name])
}

/** Those that can start runs. null for people who may not see them. */
export async function accountsFor(visit: PersonsVisit): Promise<Options | null> {
  if (!mayArm(visit)) return null
  const accounts = await serviceAccountsOf(visit, organizationId(visit))
  return accounts.filter(({ role }) => role === 'member').map(({ id, name }) => [id, name])
}

export async function workflowsFor(visit: PersonsVisit): Promise<Options> {
  const query = { organization_id: organizationId(visit), limit: '200' }
  const listed = await visit.api.call('GET /workflows', { query })
  if (!listed.ok) return []
  const { data } = listed.body
  const isAlone = (name: string) => data.filter((each) => each.name === name).length === 1
  return data.map(({ id, name, slug }) => [id, isAlone(name) ? name : `${name} (${slug ?? id})`])
}

/** First, what it starts and reads is chosen, because that declares the further fields. */
async function newTrigger(
  visit: PersonsVisit,
  filled: Filled,
  kind: TriggerKind,
  offered: {
    readonly workflows: Options
    readonly accounts: Options
    readonly chosen: Chosen
    readonly declared: DeclaredValues
  },
) {
  const { workflows, accounts, declared } = offered
  if (workflows.length === 0 || accounts.length === 0)
    return (
      <Empty title="A trigger needs a workflow, and a service account with the role “member”.">
        An owner makes service accounts at <a href={`${peoplePath}#service-accounts`}>People</a>.
      </Empty>
    )
  const tools = kind === 'poll' ? await toolsFor(visit) : []
  const [id, name] = workflows.find(([each]) => each === offered.chosen.workflow) ?? []
  const tool = tools.find(([each]) => each === offered.chosen.tool)?.[0] ?? null
  const choose = `${addressOf(triggersPath, { new: kind })}#new`
  if (id === undefined || name === undefined || (kind === 'poll' && tool === null))
    return (
      <form action={triggersPath} method="get" class="card fill" id="new">
        <h2>New {kind}</h2>
        <input type="hidden" name="new" value={kind} />
        <Select
          name="workflow"
          label="Workflow that it starts"
          options={workflows}
          {...(id === undefined ? {} : { value: id })}
        />
        {kind === 'poll' ? <Select name="tool" label="Tool that it reads with" options={tools} /> : null}
        <button class="primary">Continue</button>
      </form>
    )
  return (
    <PostForm action={triggersPath} token={visit.token} class="card fill">
      <h2 id="new">New {kind}</h2>
      <p>
        It starts{' '}
        <a href={workflowPath(id)}>
          <Words text={name} most={120} />
        </a>
        {tool === null ? null : (
          <>
            {' '}
            for each new item that <code>{tool}</code> reads. Each call of the tool is governed
          </>
        )}
        . <a href={choose}>Choose another</a>
      </p>
      <OnceField />
      <input type="hidden" name="kind" value={kind} />
      <input type="hidden" name="workflow" value={id} />
      {tool === null ? null : <input type="hidden" name="tool" value={tool} />}
      <TriggerFields trigger={null} {...{ visit, kind, accounts, declared, filled }} />
      <button class="primary">Create the {kind}</button>
    </PostForm>
  )
}

/** `POST /console/triggers` */
export async function createTrigger(visit: PersonsVisit, form: Form): Promise<Shown> {
  const kind = form.get('kind')
  if (!isKind(kind)) return triggersPage(visit)
  const [workflow, tool] = [form.get('workflow') ?? '', form.get('tool')]
  const declared = await declaredBy(visit, { workflow, tool })
  const body = triggerBody(form, { kind, trigger: null, tool: tool ?? '', declared })
  if ('problem' in body) return triggersPage(visit, { form, problem: body.problem })
  const made = await visit.api.call('POST /workflows/{id}/triggers', {
    params: { id: workflow },
    body: body.body,
    ...onceOf(form),
  })
  if (!made.ok) return triggersPage(visit, { form, problem: made })
  const { id, secret, webhook } = made.body
  const path = triggerPath(workflow, id)
  return secret === null || webhook === null
    ? { redirect: path }
    : shownSecret({ path, secret, url: webhook.url })
}

export const shownSecret = ({ path, secret, url }: { path: string; secret: string; url: string }): Shown =>
  secretPage({
    title: 'The secret of your webhook',
    label: 'The secret',
    secret,
    inside: (
      <>
        <p>Give the sender this address too:</p>
        <p>
          <code class="whole">{url}</code>
        </p>
      </>
    ),
    after: (
      <p>
        <a href={path}>Go to the trigger</a>
      </p>
    ),
  })
