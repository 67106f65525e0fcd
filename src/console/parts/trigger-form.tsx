import type { AnswerOf, BodyOf } from '../../api/routes/index.ts'
import type { Json, JsonObject } from '../../policy/types.ts'
import { hasRole, type FieldProblem, type Form, type PersonsVisit, type Problem } from '../visit.ts'
import { Fields, labelled, type FieldOrSelect, type Filled } from './form.tsx'
import { asText, ExpressionFields, labelsOf, readFields, type Declared } from './inputs.tsx'
import { TimesFields, timesIn, timesLabels } from './schedule-form.tsx'

/* The fields of a trigger, for a new one and for changes. */

export type Trigger = AnswerOf<'GET /triggers'>['data'][number]
type Body = BodyOf<'POST /workflows/{id}/triggers'>
export type TriggerKind = Trigger['kind']
export type Options = readonly (readonly [string, string])[]

const labels = {
  name: 'Name',
  service_account: 'Service account',
  version: 'Version',
  ...timesLabels,
  time_zone: 'Time zone',
  catch_up: 'If no worker was there',
  overlap: 'If the last run has not ended',
  verify: 'The sender proves itself by',
  answer: 'What the sender gets',
  secret: 'Secret',
  list: 'List',
  id: 'Id of an item',
  order: 'Order',
  first: 'Items that are there already',
} as const

/** What the workflow and the tool of a poll declare: the fields of `inputs` and `params`. */
export interface DeclaredValues {
  readonly inputs: Declared
  readonly params: Declared
}

/** The fields have the names of the body, without the kind before them: `cron` in place of `schedule.cron`. */
export function labelledTrigger({ form, problem }: Filled, declared: DeclaredValues): Filled {
  const details = problem?.details?.map((each) => ({
    ...each,
    path: each.path.replace(/^(schedule|webhook|poll)\./, ''),
  }))
  const named = problem === null || details === undefined ? problem : { ...problem, details }
  const values = { ...labelsOf(declared.inputs, 'inputs'), ...labelsOf(declared.params, 'params') }
  return labelled({ form, problem: named }, { ...labels, ...values }, { schedule: 'often', poll: 'list' })
}

interface KindOf {
  /** An input that reads what arrives. */
  readonly example: string
  fields(trigger: Trigger | null, isOwner: boolean): readonly FieldOrSelect[]
  /** Its part of the body. `params`: of the poll. */
  body(text: (name: string) => string, trigger: Trigger | null, params: JsonObject): Partial<Body>
}

const kinds: Readonly<Record<TriggerKind, KindOf>> = {
  schedule: {
    example: '{{ due_at }}',
    fields: (trigger) => [
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
        ...timesIn(text).times,
        time_zone: text('time_zone') || 'UTC',
        catch_up: text('catch_up') as 'last',
        overlap: text('overlap') as 'skip',
      },
    }),
  },
  webhook: {
    example: '{{ body.title }}',
    fields: (trigger, isOwner) => [
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
    example: '{{ item.Email }}',
    fields: (trigger) => {
      const { every_seconds = 300, list = '', id = '', order, first = 'skip' } = trigger?.poll ?? {}
      return [
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
  readonly declared: DeclaredValues
  readonly filled: Filled
}) {
  const { visit, kind, trigger, accounts, declared, filled } = props
  const { example, fields } = kinds[kind]
  const isOwner = hasRole(visit.person.organization?.role ?? null, 'owner')
  const own = trigger?.service_account
  return (
    <>
      <Fields
        filled={filled}
        fields={[
          { name: 'name', most: 100, value: trigger?.name ?? '' },
          {
            name: 'service_account',
            options: withOwn(accounts, own, 'Choose another one: this was deleted, or is only a viewer'),
            ...(own === undefined ? {} : { value: own }),
            help: 'The runs act with its rights.',
          },
        ]}
      />
      {kind === 'schedule' ? (
        <TimesFields visit={visit} present={trigger?.schedule ?? null} filled={filled} />
      ) : null}
      <Values
        legend="What the tool is asked for"
        at="params"
        declared={declared.params}
        values={(trigger?.poll?.params ?? {}) as JsonObject}
        example={null}
        filled={filled}
      />
      <Fields filled={filled} fields={fields(trigger, isOwner)} />
      <Values
        legend="Inputs of the workflow"
        at="inputs"
        declared={declared.inputs}
        values={(trigger?.inputs ?? {}) as JsonObject}
        example={example}
        filled={filled}
      />
      <Fields
        filled={filled}
        fields={[
          {
            name: 'version',
            most: 10,
            value: String(trigger?.version ?? 'latest'),
            help: 'A number pins a version; “latest” follows the workflow.',
          },
        ]}
      />
    </>
  )
}

function Values(props: {
  legend: string
  at: keyof DeclaredValues
  declared: Declared
  values: JsonObject
  example: string | null
  filled: Filled
}) {
  return Object.keys(props.declared).length === 0 ? null : (
    <fieldset class="group">
      <legend>{props.legend}</legend>
      <ExpressionFields {...props} />
    </fieldset>
  )
}

/** Also those that a trigger gives to a version which declares others. */
export function withPresent(declared: Declared, values: JsonObject): Declared {
  const others = Object.entries(values).filter(([name]) => !Object.hasOwn(declared, name))
  const typed = others.map(([name, value]) => [
    name,
    { type: typeof value === 'string' ? ('string' as const) : ('object' as const) },
  ])
  return { ...declared, ...Object.fromEntries(typed) }
}

/** All that is wrong, at its fields. `trigger`: the one that the form changes. */
export function triggerBody(
  form: Form,
  {
    kind,
    trigger,
    tool,
    declared,
  }: { kind: TriggerKind; trigger: Trigger | null; tool: string; declared: DeclaredValues },
): { readonly body: Body } | { readonly problem: Problem } {
  const text = (name: string) => (name === 'tool' ? tool : (form.get(name) ?? '').trim())
  const version = text('version')
  const wrong: FieldProblem[] = []
  if (version !== 'latest' && !/^[1-9]\d{0,8}$/.test(version))
    wrong.push({ path: 'version', message: 'give the number of a version, or `latest`' })
  if (kind === 'schedule') wrong.push(...timesIn(text).wrong)
  if (kind === 'poll' && !/^\d+$/.test(text('every_seconds')))
    wrong.push({ path: 'every_seconds', message: 'must be a number of seconds' })
  const valuesAt = (at: keyof DeclaredValues, present: JsonObject): JsonObject => {
    const read = readFields(declared[at], form, { at, refused: '', expressions: true })
    if ('values' in read) return inOrderOf(present, { ...unsaid(form, at, present), ...read.values })
    wrong.push(...(read.problem.details ?? []))
    return {}
  }
  const inputs = valuesAt('inputs', (trigger?.inputs ?? {}) as JsonObject)
  const params = valuesAt('params', (trigger?.poll?.params ?? {}) as JsonObject)
  if (wrong.length > 0)
    return {
      problem: { status: 422, code: 'validation_error', message: wrong[0]?.message ?? '', details: wrong },
    }
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

/** A field shows these values as nothing. They stay if nothing is written there. */
const unsaid = (form: Form, at: string, present: JsonObject): JsonObject =>
  Object.fromEntries(
    Object.entries(present).filter(
      ([name, value]: [string, Json]) => asText(value) === '' && (form.get(`${at}.${name}`) ?? '') === '',
    ),
  )

/** In another order, the same values would count as a change. */
const inOrderOf = (present: JsonObject, values: JsonObject): JsonObject =>
  Object.fromEntries(
    Object.keys({ ...present, ...values }).flatMap((name): [string, Json][] =>
      Object.hasOwn(values, name) ? [[name, values[name] as Json]] : [],
    ),
  )

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
