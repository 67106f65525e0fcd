import type { AnswerOf, BodyOf } from '../../api/routes/index.ts'
import type { JsonObject } from '../../policy/types.ts'
import { hasRole, organizationId, type Form, type PersonsVisit, type Problem } from '../visit.ts'
import { Fields, labelled, type FieldOrSelect, type Filled } from './form.tsx'

/* The fields of a trigger, for a new one and for changes. */

export type Trigger = AnswerOf<'GET /triggers'>['data'][number]
type Body = BodyOf<'POST /workflows/{id}/triggers'>
export type TriggerKind = Trigger['kind']
export type Options = readonly (readonly [string, string])[]

const labels = {
  name: 'Name',
  workflow: 'Workflow',
  service_account: 'Service account',
  version: 'Version',
  inputs: 'Inputs',
  cron: 'Cron pattern',
  every_seconds: 'Every how many seconds',
  time_zone: 'Time zone',
  catch_up: 'If no worker was there',
  overlap: 'If the last run has not ended',
  verify: 'The sender proves itself by',
  answer: 'What the sender gets',
  secret: 'Secret',
  tool: 'Tool',
  params: 'Parameters',
  list: 'List',
  id: 'Id of an item',
  order: 'Order',
  first: 'Items that are there already',
} as const

/** The fields have the names of the body, without the kind before them: `cron` in place of `schedule.cron`. */
export function labelledTrigger({ form, problem }: Filled): Filled {
  const details = problem?.details?.map((each) => ({
    ...each,
    path: each.path.replace(/^(schedule|webhook|poll)\./, ''),
  }))
  const named = problem === null || details === undefined ? problem : { ...problem, details }
  return labelled({ form, problem: named }, labels, { schedule: 'cron', poll: 'tool' })
}

interface Offered {
  readonly isOwner: boolean
  /** Tools that read. */
  readonly tools: Options
}

interface KindOf {
  /** An input that reads what arrives. */
  readonly example: string
  fields(trigger: Trigger | null, offered: Offered): readonly FieldOrSelect[]
  /** Its part of the body. `params`: the field of this name, read as JSON. */
  body(text: (name: string) => string, trigger: Trigger | null, params: JsonObject): Partial<Body>
}

const kinds: Readonly<Record<TriggerKind, KindOf>> = {
  schedule: {
    example: '{"day": "{{ due_at }}"}',
    fields: (trigger) => [
      {
        name: 'cron',
        most: 100,
        optional: true,
        value: trigger?.schedule?.cron ?? '',
        help: 'Minute, hour, day, month, day of the week, such as “0 9 * * 1-5”. Or leave it empty and give seconds.',
      },
      {
        name: 'every_seconds',
        most: 8,
        optional: true,
        value: String(trigger?.schedule?.every_seconds ?? ''),
        help: 'At least 10.',
      },
      { name: 'time_zone', most: 100, value: trigger?.schedule?.time_zone ?? 'UTC' },
      {
        name: 'catch_up',
        options: [
          ['last', 'Fire once, late'],
          ['none', 'Skip'],
          ['all', 'Fire for each, at most 100'],
        ],
        value: trigger?.schedule?.catch_up ?? 'last',
      },
      {
        name: 'overlap',
        options: [
          ['skip', 'Skip this time'],
          ['queue', 'Wait for it'],
          ['allow', 'Start anyway'],
        ],
        value: trigger?.schedule?.overlap ?? 'skip',
      },
    ],
    body: (text) => ({
      schedule: {
        cron: text('cron') || null,
        every_seconds: text('every_seconds') === '' ? null : Number(text('every_seconds')),
        time_zone: text('time_zone'),
        catch_up: text('catch_up') as 'last',
        overlap: text('overlap') as 'skip',
      },
    }),
  },
  webhook: {
    example: '{"title": "{{ body.title }}"}',
    fields: (trigger, { isOwner }) => [
      {
        name: 'verify',
        options: [
          ['standard', 'Standard Webhooks'],
          ['github', 'GitHub’s signature'],
          ['slack', 'Slack’s signature'],
          ['bearer', 'A bearer token'],
        ],
        value: trigger?.webhook?.verify ?? 'standard',
      },
      // Whoever knows the secret sees the result, so only an owner sets it.
      ...(isOwner
        ? [
            {
              name: 'answer',
              options: [
                ['accepted', 'That the message has arrived'],
                ['result', 'The result of the run, if it ends within 25 seconds'],
              ] as const,
              value: trigger?.webhook?.answer ?? 'accepted',
            },
          ]
        : []),
      {
        name: 'secret',
        most: 500,
        optional: true,
        help:
          trigger === null
            ? 'Only if the sender made it, as Slack does. Else leave it empty: you get one.'
            : 'Leave it empty to keep the present one. If you choose another proof, you get a new one.',
      },
    ],
    body: (text, trigger) => ({
      webhook: {
        verify: text('verify') as 'standard',
        answer: (text('answer') || (trigger?.webhook?.answer ?? 'accepted')) as 'accepted',
      },
      ...(text('secret') === '' ? {} : { secret: text('secret') }),
    }),
  },
  poll: {
    example: '{"email": "{{ item.Email }}"}',
    fields: (trigger, { tools }) => {
      const {
        tool,
        params,
        every_seconds = 300,
        list = '',
        id = '',
        order,
        first = 'skip',
      } = trigger?.poll ?? {}
      return [
        {
          name: 'tool',
          options: withOwn(tools, tool),
          ...(tool === undefined ? {} : { value: tool }),
          help: 'Each call is governed.',
        },
        {
          name: 'params',
          most: 20_000,
          rows: 3,
          value: params === undefined ? '{}' : JSON.stringify(params, null, 2),
          help: 'JSON, as in the step of a workflow.',
        },
        {
          name: 'every_seconds',
          most: 8,
          value: String(every_seconds),
          help: 'Between two calls, at least 10. Each call counts as a run.',
        },
        {
          name: 'list',
          most: 2_000,
          value: list,
          help: 'An expression over the output, such as {{ output.records }}.',
        },
        { name: 'id', most: 1_000, value: id, help: 'By which an item is known, such as {{ item.Email }}.' },
        {
          name: 'order',
          most: 1_000,
          optional: true,
          value: order ?? '',
          help: 'Items with a smaller number or text start first, such as {{ item.Day }}.',
        },
        {
          name: 'first',
          options: [
            ['skip', 'Skip them'],
            ['all', 'Start a run for each'],
          ],
          value: first,
        },
      ]
    },
    body: (text, _, params) => ({
      poll: {
        ...{ tool: text('tool'), params, every_seconds: Number(text('every_seconds')) },
        ...{ list: text('list'), id: text('id'), order: text('order') || null },
        first: text('first') as 'skip',
      },
    }),
  },
}

/** One that is not offered any more must not become another one. */
const withOwn = (offered: Options, own: string | undefined, words = own): Options =>
  own === undefined || offered.some(([value]) => value === own) ? offered : [[own, words ?? own], ...offered]

export const isKind = (kind: string | null): kind is TriggerKind =>
  kind !== null && Object.hasOwn(kinds, kind)

export function TriggerFields(props: {
  readonly visit: PersonsVisit
  readonly kind: TriggerKind
  /** null for a new one. */
  readonly trigger: Trigger | null
  readonly accounts: Options
  /** Needed for a poll. */
  readonly tools: Options
  readonly filled: Filled
  /** A new one is made for one of these. */
  readonly workflows?: Options
}) {
  const { visit, kind, trigger, accounts, tools, filled, workflows } = props
  const { example, fields } = kinds[kind]
  const isOwner = hasRole(visit.person.organization?.role ?? null, 'owner')
  const own = trigger?.service_account
  return (
    <>
      {trigger === null ? (
        <>
          <input type="hidden" name="kind" value={kind} />
          <input type="hidden" name="organization_id" value={organizationId(visit)} />
        </>
      ) : null}
      <Fields
        filled={filled}
        fields={[
          { name: 'name', most: 100, value: trigger?.name ?? '' },
          ...(workflows === undefined
            ? []
            : [{ name: 'workflow', options: workflows, value: visit.query.get('workflow') ?? '' }]),
          {
            name: 'service_account',
            options: withOwn(accounts, own, 'Choose another one: this was deleted, or is only a viewer'),
            ...(own === undefined ? {} : { value: own }),
            help: 'The runs act with its rights.',
          },
          {
            name: 'version',
            most: 10,
            value: String(trigger?.version ?? 'latest'),
            help: 'A number pins a version; “latest” follows the workflow.',
          },
          {
            name: 'inputs',
            most: 20_000,
            rows: 3,
            value: trigger === null ? '{}' : JSON.stringify(trigger.inputs, null, 2),
            help: `JSON with expressions, such as ${example}.`,
          },
          ...fields(trigger, { isOwner, tools }),
        ]}
      />
    </>
  )
}

/** `trigger`: the one that the form changes. */
export function triggerBody(
  form: Form,
  kind: TriggerKind,
  trigger: Trigger | null,
): { readonly body: Body } | { readonly problem: Problem } {
  const text = (name: string) => (form.get(name) ?? '').trim()
  const version = text('version')
  const wrong = (path: string, message: string) => ({
    problem: { status: 422, code: 'validation_error', message, details: [{ path, message }] },
  })
  if (version !== 'latest' && !/^[1-9]\d{0,8}$/.test(version))
    return wrong('version', 'give the number of a version, or `latest`')
  const seconds = text('every_seconds')
  if (!/^\d*$/.test(seconds) || (kind === 'poll' && seconds === ''))
    return wrong('every_seconds', 'must be a number of seconds')
  const objects: Record<string, JsonObject> = {}
  for (const name of ['inputs', 'params'])
    try {
      objects[name] = JSON.parse(text(name) || '{}') as JsonObject
    } catch {
      return wrong(name, 'is not JSON: write an object such as `{"name": "value"}`')
    }
  const { inputs = {}, params = {} } = objects
  return {
    body: {
      name: text('name'),
      service_account: text('service_account'),
      version: version === 'latest' ? ('latest' as const) : Number(version),
      inputs,
      ...kinds[kind].body(text, trigger, params),
    },
  }
}

type Changes = BodyOf<'PATCH /workflows/{id}/triggers/{trigger}'>

/** Only what is another one now, because a schedule that is sent again begins anew. */
export function triggerChanges(trigger: Trigger, body: Body): Changes {
  const changed: Changes = Object.fromEntries(
    Object.entries(body).filter(
      ([name, value]) => !isSame(value, trigger[name as 'schedule'], name === trigger.kind),
    ),
  )
  const isProvedElse = changed.webhook !== undefined && changed.webhook.verify !== trigger.webhook?.verify
  return isProvedElse && changed.secret === undefined ? { ...changed, new_secret: true } : changed
}

/** What a kind shows has fields that no form changes, such as its next time. */
const isSame = (after: unknown, before: unknown, isPart: boolean): boolean =>
  isPart
    ? Object.entries(after as object).every(
        ([name, value]) =>
          JSON.stringify(value) === JSON.stringify((before as Record<string, unknown>)[name]),
      )
    : JSON.stringify(after) === JSON.stringify(before)
