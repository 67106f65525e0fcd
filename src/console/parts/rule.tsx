import { rulesPath } from '../../contract/pages.ts'
import { describeConditions } from '../../policy/explain.ts'
import { askedWords, seatsOf } from '../../policy/seats.ts'
import { list, quote } from '../../policy/text.ts'
import { organizationId, type PersonsVisit, type RuleBody, type RuleView } from '../visit.ts'
import { othersOf } from './rule-fields.ts'
import { Badge, type Tone } from './state.tsx'
import { Facts } from './values.tsx'
import { capital, Message, Words } from './words.tsx'

/* A rule in words. */

const verdicts: Readonly<Record<RuleBody['verdict'], readonly [Tone, string]>> = {
  allow: ['good', 'Allows'],
  require_approval: ['hold', 'Holds'],
  deny: ['bad', 'Denies'],
}

export function RuleVerdict({ verdict }: Pick<RuleBody, 'verdict'>) {
  const [tone, word] = verdicts[verdict]
  return <Badge tone={tone} word={word} />
}

const states: Readonly<Record<RuleBody['status'], readonly [Tone, string]>> = {
  active: ['go', 'Active'],
  shadow: ['off', 'Shadow: decides nothing'],
  inactive: ['off', 'Inactive'],
}

export function RuleStatus({ status }: Pick<RuleBody, 'status'>) {
  const [tone, word] = states[status]
  return <Badge tone={tone} word={word} />
}

/** Which calls the rule matches: "the tool matches `Bash`". */
export const matchesOf = (rule: RuleBody): string => {
  const [only, other] = rule.applies_to ?? []
  const callers = only === undefined || other !== undefined ? '' : ` (calls of ${only})`
  return `${describeConditions(rule)}${callers}`
}

/** "If it sends data out, the call waits for approval by an admin or owner." */
export function ruleSentence(rule: RuleBody): string {
  const then = {
    require_approval: `the call waits for approval by ${askedWords(seatsOf(rule))}`,
    deny: 'the call is denied',
    allow: 'the call is allowed, unless another rule holds or denies it',
  }[rule.verdict]
  return rule.match_all === true ? `${capital(then)}.` : `If ${matchesOf(rule)}, ${then}.`
}

/** Null unless the rule holds calls. */
export const approversOf = (rule: RuleBody): string | null =>
  rule.verdict === 'require_approval' ? askedWords(seatsOf(rule)) : null

/** Null unless approvers may edit the calls that it holds. */
export const editableOf = ({ approver_may_edit: names = [] }: RuleBody): string | null =>
  names.length === 0
    ? null
    : `${list(names.map(quote), 'and', names.length)}; another person then confirms the call`

/** The number of members of each group, by name; null for people who may not see groups. */
export async function groupSizes(visit: PersonsVisit): Promise<ReadonlyMap<string, number> | null> {
  const listed = await visit.api.call('GET /organizations/{id}/groups', {
    params: { id: organizationId(visit) },
    // An organization has at most so many.
    query: { limit: '200' },
  })
  return listed.ok
    ? new Map(listed.body.data.map(({ name, member_count: count }) => [name, count] as const))
    : null
}

/** The groups that the rule needs, if too few people are in them, and nobody else is asked later. */
export const lackingGroups = (rule: RuleBody, sizes: ReadonlyMap<string, number> | null): string[] =>
  rule.verdict !== 'require_approval' || sizes === null
    ? []
    : seatsOf(rule).flatMap((seat) =>
        'group' in seat && seat.also === undefined && (sizes.get(seat.group) ?? 0) < seat.count
          ? [seat.group]
          : [],
      )

export const NobodyCan = () => <Badge tone="bad" word="Nobody can approve" />

export const RuleLinks = ({ rules }: { rules: readonly Pick<RuleView, 'id' | 'name'>[] }) => (
  <ul class="bullets">
    {rules.map(({ id, name }) => (
      <li>
        <a href={`${rulesPath}/${id}`}>
          <Words text={name} most={200} />
        </a>
      </li>
    ))}
  </ul>
)

export function RuleFacts({ rule }: { rule: RuleBody }) {
  const { description = '' } = rule
  const [approvers, editable] = [approversOf(rule), editableOf(rule)]
  // Who is asked later stands with who approves.
  const others = othersOf(rule).filter(([name]) => name !== 'escalate')
  return (
    <Facts
      facts={[
        ['Name', <Words text={rule.name} />],
        ['What it is for', description === '' ? null : <Words text={description} most={2_000} />],
        ['Verdict', <RuleVerdict verdict={rule.verdict} />],
        ['State', <RuleStatus status={rule.status} />],
        ['It matches a call if', <Message text={matchesOf(rule)} />],
        ['Who approves', approvers === null ? null : <Message text={approvers} />],
        ['Approvers may edit', editable === null ? null : <Message text={editable} />],
        ['Also', others.length === 0 ? null : <Also parts={others} />],
      ]}
    />
  )
}

/** Parts of a rule by their names in the API. */
export const Also = ({ parts }: { parts: ReturnType<typeof othersOf> }) => (
  <ul class="bullets">
    {parts.map(([name, words]) => (
      <li>
        <code>{name}</code>: <Message text={words} />
      </li>
    ))}
  </ul>
)
