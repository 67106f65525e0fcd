import type { AnswerOf, BodyOf } from '../../api/routes/index.ts'
import { peoplePath, triggerPath, triggersPath } from '../../contract/pages.ts'
import { empty, Field, labelled, onceOf, Refused, Select, type Filled } from '../parts/form.tsx'
import { OnceField, PostForm } from '../parts/layout.tsx'
import { Empty, Pager, Table } from '../parts/list.tsx'
import { secretPage } from '../parts/secret.tsx'
import { Badge } from '../parts/state.tsx'
import { Time } from '../parts/time.tsx'
import { OrganizationName, Words } from '../parts/words.tsx'
import { hasRole, type Form, type PersonsVisit, type Problem, type Shown } from '../visit.ts'
import { problemPage } from './plain.tsx'
import { serviceAccountsOf } from './service-accounts.tsx'

/* `/console/triggers`: what starts runs without a person. Members see it, and admins make it. */

export type Trigger = AnswerOf<'GET /triggers'>['data'][number]

const idOf = ({ person }: PersonsVisit): string => person.organization?.id ?? ''
export const mayArm = ({ person }: PersonsVisit): boolean =>
  hasRole(person.organization?.role ?? null, 'admin')

/** "every 300 s", "0 9 * * 1-5 (Europe/Berlin)", "messages (github)". */
export function whenWords({ schedule, webhook }: Pick<Trigger, 'schedule' | 'webhook'>): string {
  if (schedule === null) return `messages (${webhook?.verify ?? ''})`
  const { cron, every_seconds: seconds, time_zone: zone } = schedule
  return cron === null ? `every ${seconds} s` : `${cron} (${zone})`
}

export const TriggerState = ({ paused }: Pick<Trigger, 'paused'>) =>
  paused ? <Badge tone="hold" word="Paused" /> : <Badge tone="good" word="Active" />

/** `GET /console/triggers` */
export async function triggersPage(visit: PersonsVisit, given: Filled = empty): Promise<Shown> {
  const filled = labelled(given, labels, { schedule: 'cron' })
  const cursor = visit.query.get('cursor') ?? undefined
  const listed = await visit.api.call('GET /triggers', {
    query: { organization_id: idOf(visit), limit: '50', ...(cursor === undefined ? {} : { cursor }) },
  })
  if (!listed.ok) return problemPage(listed, visit.place)
  const { data, next_cursor: next } = listed.body
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
          <p>They start runs without a person: at due times, or when another program sends a message.</p>
        </header>
        <Refused filled={filled} />
        {data.length === 0 ? (
          <Empty title="There is no trigger yet.">
            An admin makes one for a workflow and a service account.
          </Empty>
        ) : (
          <Table
            label="Triggers"
            head={['Name', 'When', 'State', 'Next']}
            rows={data.map((trigger) => [
              <a href={triggerPath(trigger.workflow_id, trigger.id)}>
                <Words text={trigger.name} />
              </a>,
              whenWords(trigger),
              <TriggerState paused={trigger.paused} />,
              trigger.schedule === null || trigger.paused ? (
                '–'
              ) : (
                <Time at={trigger.schedule.next_due_at} now={visit.now} />
              ),
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
            <a href={`${triggersPath}?new=schedule`}>New schedule</a>
            <a href={`${triggersPath}?new=webhook`}>New webhook</a>
          </p>
        ) : null}
        {mayArm(visit) && isKind(kind) ? (
          <NewTrigger visit={visit} filled={filled} given={await choicesOf(visit)} kind={kind} />
        ) : null}
      </article>
    ),
  }
}

const isKind = (kind: string | null): kind is 'schedule' | 'webhook' =>
  kind === 'schedule' || kind === 'webhook'

const labels = {
  name: 'Name',
  workflow: 'Workflow',
  service_account: 'Service account',
  version: 'Version',
  inputs: 'Inputs',
  cron: 'Cron pattern',
  every_seconds: 'Seconds',
  time_zone: 'Time zone',
  overlap: 'If the last run has not ended',
  secret: 'Secret',
} as const

type Options = readonly (readonly [string, string])[]

async function choicesOf(visit: PersonsVisit): Promise<{ workflows: Options; accounts: Options }> {
  const organization_id = idOf(visit)
  const [workflows, accounts] = await Promise.all([
    visit.api.call('GET /workflows', { query: { organization_id, limit: '200' } }),
    serviceAccountsOf(visit, organization_id),
  ])
  return {
    workflows: workflows.ok ? workflows.body.data.map(({ id, name }) => [id, name]) : [],
    accounts: accounts.filter(({ role }) => role === 'member').map(({ id, name }) => [id, name]),
  }
}

interface Making {
  readonly visit: PersonsVisit
  readonly filled: Filled
  readonly given: { readonly workflows: Options; readonly accounts: Options }
  readonly kind: 'schedule' | 'webhook'
}

function NewTrigger({ visit, filled, given, kind }: Making) {
  if (given.workflows.length === 0 || given.accounts.length === 0)
    return (
      <Empty title="A trigger needs a workflow and a service account.">
        An owner makes service accounts at <a href={peoplePath}>People</a>.
      </Empty>
    )
  const example = kind === 'schedule' ? '{"day": "{{ due_at }}"}' : '{"title": "{{ body.title }}"}'
  const text = { autocomplete: 'off', filled } as const
  return (
    <PostForm action={triggersPath} token={visit.token} class="card fill">
      <h2>New {kind}</h2>
      <OnceField />
      <input type="hidden" name="kind" value={kind} />
      <input type="hidden" name="organization_id" value={idOf(visit)} />
      <Field name="name" label={labels.name} most={100} {...text} />
      <Select name="workflow" label={labels.workflow} options={given.workflows} filled={filled} />
      <Select
        name="service_account"
        label={labels.service_account}
        options={given.accounts}
        filled={filled}
        help="Its runs act for it."
      />
      <Field
        name="version"
        label={labels.version}
        most={10}
        value="latest"
        help="A number pins a version; “latest” follows the workflow."
        {...text}
      />
      <Field
        name="inputs"
        label={labels.inputs}
        most={20_000}
        rows={3}
        value="{}"
        help={`JSON with expressions, such as ${example}.`}
        {...text}
      />
      {kind === 'schedule' ? <Times filled={filled} /> : <Proofs filled={filled} />}
      <button>Create the {kind}</button>
    </PostForm>
  )
}

const Times = ({ filled }: { filled: Filled }) => (
  <>
    <Field
      name="cron"
      label={labels.cron}
      autocomplete="off"
      most={100}
      optional
      help="Minute, hour, day, month, day of the week, such as “0 9 * * 1-5”. Or leave it empty and give seconds."
      filled={filled}
    />
    <Field
      name="every_seconds"
      label={labels.every_seconds}
      autocomplete="off"
      most={8}
      optional
      help="At least 10."
      filled={filled}
    />
    <Field
      name="time_zone"
      label={labels.time_zone}
      autocomplete="off"
      most={100}
      value="UTC"
      filled={filled}
    />
    <Select
      name="catch_up"
      label="If no worker was there"
      options={[
        ['last', 'Fire once, late'],
        ['none', 'Skip'],
        ['all', 'Fire for each, at most 100'],
      ]}
      filled={filled}
    />
    <Select
      name="overlap"
      label={labels.overlap}
      options={[
        ['skip', 'Skip this time'],
        ['queue', 'Wait for it'],
        ['allow', 'Start anyway'],
      ]}
      filled={filled}
    />
  </>
)

const Proofs = ({ filled }: { filled: Filled }) => (
  <>
    <Select
      name="verify"
      label="The sender proves itself by"
      options={[
        ['standard', 'Standard Webhooks'],
        ['github', 'GitHub’s signature'],
        ['slack', 'Slack’s signature'],
        ['bearer', 'A bearer token'],
      ]}
      filled={filled}
    />
    <Field
      name="secret"
      label={labels.secret}
      autocomplete="off"
      most={500}
      optional
      help="Only if the sender made it, as Slack does. Else leave it empty: you get one."
      filled={filled}
    />
  </>
)

/** `POST /console/triggers` */
export async function createTrigger(visit: PersonsVisit, form: Form): Promise<Shown> {
  const body = bodyOf(form)
  if ('problem' in body) return triggersPage(visit, { form, problem: body.problem })
  const made = await visit.api.call('POST /workflows/{id}/triggers', {
    params: { id: form.get('workflow') ?? '' },
    body: body.body,
    ...onceOf(form),
  })
  if (!made.ok) return triggersPage(visit, { form, problem: ofFields(made) })
  const { id, workflow_id: workflow, secret, webhook } = made.body
  const path = triggerPath(workflow, id)
  return secret === null || webhook === null
    ? { redirect: path }
    : shownSecret({ path, secret, url: webhook.url })
}

type Body = BodyOf<'POST /workflows/{id}/triggers'>

function bodyOf(form: Form): { readonly body: Body } | { readonly problem: Problem } {
  const text = (name: string) => (form.get(name) ?? '').trim()
  const version = text('version')
  const wrong = (path: string, message: string) => ({
    problem: { status: 422, code: 'validation_error', message, details: [{ path, message }] },
  })
  if (version !== 'latest' && !/^[1-9]\d{0,8}$/.test(version))
    return wrong('version', 'give the number of a version, or `latest`')
  let inputs: unknown
  try {
    inputs = JSON.parse(text('inputs') || '{}')
  } catch {
    return wrong('inputs', 'is not JSON: write an object such as `{"name": "value"}`')
  }
  const seconds = text('every_seconds')
  const common = {
    name: text('name'),
    service_account: text('service_account'),
    version: version === 'latest' ? ('latest' as const) : Number(version),
    inputs: inputs as Record<string, unknown>,
  }
  if (form.get('kind') === 'webhook')
    return {
      body: {
        ...common,
        webhook: { verify: text('verify') as 'standard' },
        ...(text('secret') === '' ? {} : { secret: text('secret') }),
      },
    }
  return {
    body: {
      ...common,
      schedule: {
        cron: text('cron') || null,
        every_seconds: seconds === '' ? null : Number(seconds),
        time_zone: text('time_zone'),
        catch_up: text('catch_up') as 'last',
        overlap: text('overlap') as 'skip',
      },
    },
  }
}

/** The fields of the form have the names of the body, without `schedule.` and `webhook.` before them. */
const ofFields = (problem: Problem): Problem => ({
  ...problem,
  details: (problem.details ?? []).map((each) => ({
    ...each,
    path: each.path.replace(/^(schedule|webhook)\./, ''),
  })),
})

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
