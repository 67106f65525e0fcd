import type { BodyOf } from '../../api/routes/index.ts'
import { describeCondition, describeLabels } from '../../policy/explain.ts'
import { escalationWords, mostSeats, seatsOf, type Seat } from '../../policy/seats.ts'
import { exactTime } from '../../policy/units.ts'
import type { Form, RuleBody } from '../visit.ts'
import { conditionsIn, mostConditions } from './conditions.tsx'
import { ruleBodyOf } from './rule-text.tsx'

/* From the fields of a rule's form to the body of a request, and back. */

type Changes = BodyOf<'PATCH /organizations/{id}/rules/{rule}'>
type NewRule = BodyOf<'POST /organizations/{id}/rules/backtest'>['rules'][number]

/** Rows for the approvers that are in use, and spare ones. */
export const rowsFor = (seats: readonly Seat[]): number => Math.min(mostSeats, Math.max(3, seats.length + 1))

/** The value of an option: `admin`, or `group:finance`. */
export const valueOf = (seat: Seat): string => ('role' in seat ? seat.role : `group:${seat.group}`)

/** Seats of the rows that name somebody. */
export function seatsIn(form: Form): Seat[] {
  return Array.from({ length: mostSeats }, (_, row) => row).flatMap((row): Seat[] => {
    const who = form.get(`approver_${row}`) ?? ''
    const count = Number(form.get(`count_${row}`) || '1')
    if (who === '') return []
    return who.startsWith('group:')
      ? [{ group: who.slice('group:'.length), count }]
      : // The route refuses any other role, and names it.
        [{ role: who as 'admin', count }]
  })
}

export const lines = (text: string): string[] =>
  text
    .split(/[\s,]+/)
    .map((line) => line.trim())
    .filter((line) => line !== '')

/** A rule without approval has none of these. */
const approvalFields = [
  'approver',
  'approvals_needed',
  'approvers',
  'expires_after_seconds',
  'remind_after_seconds',
  'escalate',
  'approver_may_edit',
]

const list = (given: readonly string[]) => (given.length === 0 ? undefined : given)

/** The labels that are checked under this name, and those that are written beside them. */
export const labelsIn = (form: Form, name: string): string[] => [
  ...new Set([...form.getAll(name), ...lines(form.get(`other_${name}`) ?? '')]),
]

/** The conditions that every rule has, also one that labels. */
export function matchIn(form: Form, present: Pick<Partial<RuleBody>, 'labels' | 'params'>) {
  const { any_of: _, ...others } = present.labels ?? {}
  const any = list(labelsIn(form, 'labels'))
  const labels = { ...(any === undefined ? {} : { any_of: any }), ...others }
  return {
    tools: list(lines(form.get('tools') ?? '')),
    labels: Object.keys(labels).length === 0 ? undefined : labels,
    params: conditionsIn(form, present.params),
  }
}

/** What the form says. Fields that it does not show are as in the present rule. undefined: the rule has no such field. */
function wanted(form: Form, present: Partial<RuleBody>): Readonly<Record<string, unknown>> {
  const text = (name: string): string => (form.get(name) ?? '').replaceAll('\r\n', '\n').trim()
  const callers = form.get('applies_to') ?? ''
  const isBoth = callers === '' && present.applies_to?.length === 2
  return {
    name: text('name'),
    description: text('description') === '' && present.description !== '' ? undefined : text('description'),
    verdict: form.get('verdict') ?? '',
    status: form.get('status') ?? '',
    ...matchIn(form, present),
    side_effects: list(form.getAll('side_effects')),
    applies_to: isBoth ? present.applies_to : callers === '' ? undefined : [callers],
    match_all: form.get('match_all') === 'true' ? true : present.match_all === false ? false : undefined,
    ...approval(form, present),
  }
}

function approval(form: Form, present: Partial<RuleBody>): Readonly<Record<string, unknown>> {
  if (form.get('verdict') !== 'require_approval')
    return Object.fromEntries(approvalFields.map((field) => [field, undefined]))
  const names = lines(form.get('approver_may_edit') ?? '')
  const edits = { approver_may_edit: names.length === 0 ? undefined : names }
  const seats = seatsIn(form)
  const before = present.verdict === 'require_approval' ? seatsOf(present) : []
  if (same(seats, before)) return edits
  const [only] = seats
  if (seats.length > 1 || only === undefined)
    return { ...edits, approver: undefined, approvals_needed: undefined, approvers: only && seats }
  return {
    ...edits,
    approver: 'role' in only ? only.role : { group: only.group },
    approvals_needed: only.count,
    approvers: undefined,
  }
}

const same = (one: unknown, other: unknown): boolean => JSON.stringify(one) === JSON.stringify(other)

export const newRule = (form: Form): NewRule =>
  Object.fromEntries(
    Object.entries(wanted(form, {})).filter(([, value]) => value !== undefined),
  ) as unknown as NewRule

/** The whole rule as it would be saved. */
export function changedRule(form: Form, present: RuleBody): NewRule {
  const whole = { ...ruleBodyOf(present), ...wanted(form, present) }
  return Object.fromEntries(
    Object.entries(whole).filter(([, value]) => value !== undefined),
  ) as unknown as NewRule
}

/** Only the fields that differ. null takes one away. */
export const changesOf = (form: Form, present: RuleBody): Changes =>
  Object.fromEntries(
    Object.entries(wanted(form, present))
      .filter(([field, value]) => !sameField(value, present[field as keyof RuleBody]))
      .map(([field, value]) => [field, value ?? null]),
  )

/** The order of a list means nothing, but for the seats. */
const sameField = (one: unknown, other: unknown): boolean =>
  same(sorted(one), sorted(other)) || same(one, other)

function sorted(value: unknown): unknown {
  if (Array.isArray(value) && value.every((each) => typeof each === 'string')) return value.toSorted()
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value
  return Object.fromEntries(
    Object.entries(value)
      .toSorted(([a], [b]) => (a < b ? -1 : 1))
      .map(([name, each]) => [name, sorted(each)]),
  )
}

const shown = new Set([
  ...['id', 'organization_id', 'created_by', 'created_at', 'updated_at', 'managed_by'],
  ...[
    'name',
    'description',
    'verdict',
    'status',
    'tools',
    'side_effects',
    'labels',
    'applies_to',
    'match_all',
    'params',
  ],
  ...['approver', 'approvals_needed', 'approvers', 'approver_may_edit'],
])

/** Fields that stand in no sentence of their own, in words where there are any. */
export const othersOf = (rule: RuleBody): (readonly [string, string])[] =>
  Object.entries(rule).flatMap(([name, value]) =>
    shown.has(name) || value === undefined
      ? []
      : [[name, fieldWords[name]?.(rule) ?? JSON.stringify(value)] as const],
  )

const fieldWords: Readonly<Record<string, (rule: RuleBody) => string>> = {
  expires_after_seconds: ({ expires_after_seconds: seconds = 0 }) =>
    seconds === 0 ? 'never' : exactTime(seconds),
  remind_after_seconds: ({ remind_after_seconds: seconds = 0 }) => exactTime(seconds),
  escalate: (rule) => escalationWords(seatsOf(rule)[0]?.also ?? []),
}

/** Parts of the rule that the form does not show, in words: it keeps them. */
export const keptOf = (rule: RuleBody): (readonly [string, string])[] => [
  ...(['all_of', 'none_of'] as const).flatMap((which) => {
    const words = describeLabels(rule, which)
    return words === null ? [] : [[`labels.${which}`, words] as const]
  }),
  ...(rule.params ?? []).slice(mostConditions).map((each) => ['params', describeCondition(each)] as const),
  ...othersOf(rule),
]
