import { effectWord } from '../../policy/explain.ts'
import { seatsOf, type Seat } from '../../policy/seats.ts'
import type { Form, PersonsVisit, RuleBody } from '../visit.ts'
import { Checks, Field, Fields, problemsAt, Select, Wrong, type Filled } from './form.tsx'
import { Conditions as ParamConditions } from './conditions.tsx'
import { keptOf, rowsFor, seatsIn, valueOf } from './rule-fields.ts'
import { Also } from './rule.tsx'
import { capital } from './words.tsx'

/* The fields of a rule's form (rule-fields.ts reads them). */

/** What the form offers. */
export interface Offered {
  readonly tools: readonly string[]
  readonly labels: readonly string[]
  /** Names. */
  readonly groups: readonly string[]
}

/** By the names in the body of the route. */
export const ruleLabels = {
  name: 'Name',
  description: 'What it is for',
  verdict: 'Then',
  status: 'State',
  tools: 'Tools',
  side_effects: 'and does one of these',
  labels: 'Labels of the data',
  applies_to: 'comes from',
  params: 'Parameters',
  match_all: 'Every call',
  approvers: 'Who approves',
  approver_may_edit: 'Approvers may edit',
}

/** One seat is sent as these fields. */
export const ruleAliases = { approver: 'approvers', approvals_needed: 'approvers' }

/** From the organization's rules and tools, which an admin may read. */
export async function offeredIn({ api }: PersonsVisit, id: string): Promise<Offered> {
  const [params, query] = [{ id }, { limit: '200' }]
  const [tools, rules, labelRules, groups] = await Promise.all([
    api.call('GET /tools', { query }),
    api.call('GET /organizations/{id}/rules', { params, query }),
    api.call('GET /organizations/{id}/label-rules', { params, query }),
    api.call('GET /organizations/{id}/groups', { params, query }),
  ])
  const listed = tools.ok ? tools.body.data : []
  const labels = [
    ...usual,
    ...listed.flatMap(({ output_labels }) => output_labels),
    ...(rules.ok ? rules.body.data : []).flatMap(({ labels: of = {} }) =>
      [of.any_of, of.all_of, of.none_of].flatMap((each) => each ?? []),
    ),
    ...(labelRules.ok ? labelRules.body.data : []).flatMap(({ add_labels }) => add_labels),
  ]
  return {
    tools: listed.map(({ name }) => name),
    labels: [...new Set(labels)].slice(0, mostOffered),
    groups: groups.ok ? groups.body.data.map(({ name }) => name).toSorted() : [],
  }
}

const usual = ['confidential', 'internal', 'pii', 'untrusted']
const mostOffered = 40

const verdicts = [
  ['require_approval', 'the call waits until people approve it'],
  ['deny', 'the call is denied'],
  ['allow', 'the call is allowed, unless another rule holds or denies it'],
] as const
const states = [
  ['active', 'Active'],
  ['shadow', 'Shadow: only records what it would decide'],
  ['inactive', 'Inactive'],
] as const
const callers = [
  ['', 'a workflow or an agent'],
  ['workflows', 'a workflow'],
  ['agents', 'an agent'],
] as const
const effects = ['egress', 'write', 'read'].map((each) => [each, capital(effectWord(each))] as const)

/** `rule` is null for a new one. */
export function RuleFields(props: { rule: RuleBody | null; offered: Offered; filled: Filled }) {
  const { rule, offered, filled } = props
  return (
    <>
      <fieldset class="checks stack">
        <legend>When a call</legend>
        <Conditions {...props} />
      </fieldset>
      <Select name="verdict" options={verdicts} value={rule?.verdict ?? 'require_approval'} filled={filled} />
      <Approvers rule={rule} groups={offered.groups} filled={filled} />
      <Field
        name="approver_may_edit"
        rows={2}
        most={2_000}
        optional
        value={(rule?.approver_may_edit ?? []).join('\n')}
        help="Names of parameters, one in each line, such as text. Whoever edits a held call does not approve it alone: another person confirms it. Calls of agents are never edited."
        filled={filled}
      />
      <Fields
        filled={filled}
        fields={[
          {
            name: 'name',
            most: 200,
            value: rule?.name ?? '',
            help: 'People read it where a call waits, such as “confidential mails”.',
          },
          { name: 'description', rows: 2, most: 2_000, optional: true, value: rule?.description ?? '' },
        ]}
      />
      <Select name="status" options={states} value={rule?.status ?? 'active'} filled={filled} />
      {rule === null ? null : <Kept rule={rule} />}
    </>
  )
}

function Conditions({ rule, offered, filled }: Parameters<typeof RuleFields>[0]) {
  return (
    <div class="fill">
      <Select
        name="applies_to"
        options={callers}
        value={rule?.applies_to?.length === 1 ? (rule.applies_to[0] ?? '') : ''}
        filled={filled}
      />
      <Checks
        name="side_effects"
        options={effects}
        checked={rule?.side_effects ?? []}
        help="Check none for all calls."
        filled={filled}
      />
      <ToolsField tools={rule?.tools ?? []} offered={offered} filled={filled} />
      <Labels
        name="labels"
        checked={rule?.labels?.any_of ?? []}
        known={offered.labels}
        help="Check none for all data."
        filled={filled}
      />
      <ParamConditions params={rule?.params ?? []} filled={filled} />
      <Checks
        name="match_all"
        options={[['true', 'The rule is for every call, and has no condition']]}
        checked={rule?.match_all === true ? ['true'] : []}
        filled={filled}
      />
    </div>
  )
}

export function ToolsField(props: { tools: readonly string[]; offered: Offered; filled: Filled }) {
  const { tools, offered, filled } = props
  return (
    <>
      <Field
        name="tools"
        rows={2}
        most={20_000}
        optional
        value={tools.join('\n')}
        help="One in each line. A * stands for any characters: mail_*. Leave it empty for all tools."
        filled={filled}
      />
      {offered.tools.length === 0 ? null : (
        <details>
          <summary>Names of the tools of workflows</summary>
          <p class="small">{offered.tools.join(', ')}</p>
        </details>
      )}
    </>
  )
}

export function Labels(props: {
  name: 'labels' | 'add_labels'
  checked: readonly string[]
  known: readonly string[]
  help: string
  filled: Filled
}) {
  const { name, checked, known, help, filled } = props
  const all = [...new Set([...known, ...checked])].toSorted()
  return (
    <Checks
      name={name}
      options={all.map((each) => [each, each])}
      checked={checked}
      help={help}
      filled={filled}
    >
      <label class="quiet small" for={`other_${name}`}>
        Other labels
      </label>
      <input
        id={`other_${name}`}
        name={`other_${name}`}
        maxlength={2_000}
        autocomplete="off"
        spellcheck={false}
        value={filled.form?.get(`other_${name}`) ?? ''}
      />
    </Checks>
  )
}

function Approvers(props: { rule: RuleBody | null; groups: readonly string[]; filled: Filled }) {
  const { rule, groups, filled } = props
  const seats = shownSeats(rule, filled.form)
  const wrong = problemsAt(filled, 'approvers')
  const named = seats.flatMap((seat) => ('group' in seat ? [seat.group] : []))
  const options = [
    ['', 'nobody else'],
    ['admin', 'an admin or owner'],
    ['owner', 'an owner'],
    ...[...new Set([...groups, ...named])].map((name) => [`group:${name}`, `group ${name}`] as const),
  ] as const
  return (
    <fieldset id="approvers" class="checks stack" tabindex={-1} aria-describedby="approvers-help">
      <legend>{ruleLabels.approvers}</legend>
      <Wrong name="approvers" wrong={wrong} />
      {Array.from({ length: rowsFor(seats) }, (_, row) => (
        <Seats row={row} seat={seats[row]} options={options} isWrong={wrong.length > 0} />
      ))}
      <p id="approvers-help" class="quiet small">
        Only for a rule that holds calls. All of them approve, and each person counts once.
        {groups.length === 0 ? ' An owner makes groups on the page Groups.' : ''}
      </p>
    </fieldset>
  )
}

const shownSeats = (rule: RuleBody | null, form: Form | null): readonly Seat[] =>
  form !== null
    ? seatsIn(form)
    : rule?.verdict === 'require_approval' || rule === null
      ? seatsOf(rule ?? {})
      : []

function Seats(props: {
  row: number
  seat: Seat | undefined
  options: readonly (readonly [string, string])[]
  isWrong: boolean
}) {
  const { row, seat, options, isWrong } = props
  const invalid = isWrong && seat !== undefined ? { 'aria-invalid': true as const } : {}
  const who = seat === undefined ? '' : valueOf(seat)
  return (
    <div class="seat">
      <input
        type="number"
        name={`count_${row}`}
        aria-label={`How many people, line ${row + 1}`}
        min={1}
        max={20}
        value={seat?.count ?? 1}
        {...invalid}
      />
      <select name={`approver_${row}`} aria-label={`Who approves, line ${row + 1}`} {...invalid}>
        {options.map(([value, words]) => (
          <option value={value} selected={value === who}>
            {words}
          </option>
        ))}
      </select>
    </div>
  )
}

/** What only the API changes. */
function Kept({ rule }: { rule: RuleBody }) {
  const parts = keptOf(rule)
  if (parts.length === 0) return null
  return (
    <section class="note stack" aria-labelledby="kept">
      <h3 id="kept">Also part of the rule</h3>
      <Also parts={parts} />
      <p class="small">This form keeps it as it is. The API changes it.</p>
    </section>
  )
}
