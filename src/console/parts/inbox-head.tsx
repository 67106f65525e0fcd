import type { ComponentChildren } from 'preact'
import { inboxPath } from '../../contract/pages.ts'
import type { ApprovalView, PersonsVisit, WaitingSummary } from '../visit.ts'
import { addressOf, Choice, Field, Filters, type Chosen } from './list.tsx'
import { OrganizationName, whoOf } from './words.tsx'

/* What stands above the approvals that wait, and above those that are decided: search, filters, and the way to the others. */

export const inboxFilters = [
  'kind',
  'rule_id',
  'requested_by',
  'risk',
  'group',
  'mine',
  'status',
  'decided_by',
] as const

export const isOfDecided = ({ state }: Chosen): boolean => state === 'decided'

export function InboxHead(props: {
  readonly visit: PersonsVisit
  readonly chosen: Chosen
  readonly title: string
  readonly children?: ComponentChildren
}) {
  const { visit, chosen, title, children } = props
  const { organization } = visit.person
  const { search } = chosen
  const tab = (state: string, words: string) => (
    <a
      class="button"
      href={addressOf(inboxPath, { search, state })}
      {...(isOfDecided(chosen) === (state !== '') ? { 'aria-current': 'page' } : {})}
    >
      {words}
    </a>
  )
  return (
    <>
      <header class="headline">
        <h1>{title}</h1>
        <p class="quiet">
          {organization === null ? null : <OrganizationName name={organization.name} />}
          {children}
        </p>
      </header>
      <nav class="pager" aria-label="Waiting or decided">
        {tab('', 'Waiting')}
        {tab('decided', 'Decided')}
      </nav>
    </>
  )
}

interface FiltersProps {
  readonly visit: PersonsVisit
  readonly chosen: Chosen
  /** null if they are not counted. */
  readonly waiting: WaitingSummary | null
  readonly items: readonly ApprovalView[]
}

/** Each option shows how many approvals wait, if they are counted. */
export function InboxFilters({ visit, chosen, waiting, items }: FiltersProps) {
  const { kinds = [], rules = [], requesters = [], risks = [] } = waiting ?? {}
  const decided = isOfDecided(chosen)
  const own = visit.person.user.id
  const others = requesters.filter(({ user_id }) => user_id !== own)
  return (
    <Filters
      path={addressOf(inboxPath, { state: chosen['state'] })}
      chosen={chosen}
      names={[...inboxFilters, 'search', 'order']}
      title="Search and filter"
    >
      {decided ? <input type="hidden" name="state" value="decided" /> : null}
      <Field name="search" label="Tool, workflow or person" chosen={chosen} />
      {decided ? (
        <Choice name="status" label="Decision" chosen={chosen} options={decisions} />
      ) : (
        <Choice name="mine" label="Who decides" chosen={chosen} options={[['true', 'me, now']]} />
      )}
      <Choice
        name="kind"
        label="Kind"
        chosen={chosen}
        options={
          decided
            ? Object.entries(kindWords)
            : [...counted(kinds, ({ kind }) => [kind, kindWords[kind]]), ['resolution', 'Unknown outcomes']]
        }
      />
      <Choice
        name="rule_id"
        label="Rule"
        chosen={chosen}
        options={decided ? rulesOf(items) : counted(rules, ({ rule_id, rule_name }) => [rule_id, rule_name])}
      />
      <Choice
        name="requested_by"
        label="Asked by"
        chosen={chosen}
        options={[[own, 'me'], ...counted(others, ({ user_id, email }) => [user_id, whoOf(email)])]}
      />
      {decided ? (
        <Choice
          name="decided_by"
          label="Decided by"
          chosen={chosen}
          options={[[own, 'me'], ...votersOf(items).filter(([id]) => id !== own)]}
        />
      ) : null}
      <Choice name="group" label="Group" chosen={chosen} options={groupsOf(visit, items)} />
      <Choice
        name="risk"
        label="Risk"
        chosen={chosen}
        options={decided ? levels : counted(risks, ({ level }) => [level, level])}
      />
      <Choice
        name="order"
        label="Order"
        chosen={chosen}
        any="newest first"
        options={[['oldest', 'oldest first']]}
      />
    </Filters>
  )
}

function counted<Each extends { readonly count: number }>(
  all: readonly Each[],
  option: (each: Each) => readonly [string, string],
): (readonly [string, string, string])[] {
  return all.map((each) => [...option(each), ` (${each.count.toLocaleString('en')})`])
}

/* What is decided is not counted: the page offers what it shows. */

const distinct = (pairs: readonly (readonly [string, string])[]) => [...new Map(pairs)]

const rulesOf = (items: readonly ApprovalView[]) =>
  distinct(
    items.flatMap(({ rule_id, rule_name }) => (rule_id === null ? [] : [[rule_id, rule_name ?? rule_id]])),
  )

const votersOf = (items: readonly ApprovalView[]) =>
  distinct(
    items.flatMap(({ votes, ask }) =>
      [...votes, ...(ask?.answered_by == null ? [] : [ask.answered_by])].map(
        ({ user_id, email }) => [user_id, whoOf(email)] as const,
      ),
    ),
  )

const groupsOf = ({ person }: PersonsVisit, items: readonly ApprovalView[]) =>
  distinct(
    [
      ...(person.organization?.groups ?? []),
      ...items.flatMap(({ approvers }) => approvers.flatMap((seat) => ('group' in seat ? [seat.group] : []))),
    ].map((name) => [name, name] as const),
  )

const levels = ['low', 'medium', 'high', 'critical'].map((level) => [level, level] as const)

const decisions = [
  ['approved', 'approved'],
  ['rejected', 'rejected'],
  ['answered', 'answered'],
  ['expired', 'nobody in time'],
  ['cancelled', 'withdrawn'],
  ['revised', 'edited'],
] as const

const kindWords = {
  step: 'Steps of runs',
  run: 'Whole runs',
  agent_call: 'Calls of agents',
  change: 'Changes',
  ask: 'Questions',
  repeat: 'Repeated calls',
  revision: 'Changes requested of you',
  edit: 'Edited calls',
} as const

export const pagesOf = ({ order }: Chosen) =>
  order === 'oldest'
    ? { first: 'Oldest ones', next: 'Newer ones' }
    : { first: 'Newest ones', next: 'Older ones' }
