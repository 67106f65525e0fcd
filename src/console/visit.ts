import type { ComponentChild } from 'preact'
import {
  auditPath,
  connectionsPath,
  dataPath,
  docsPath,
  freezePath,
  groupsPath,
  homePath,
  inboxPath,
  keysPath,
  healthPath,
  notificationsPath,
  organizationsPath,
  peoplePath,
  providerPath,
  reportsPath,
  rerunsPath,
  rulesPath,
  settingsPath,
  templatesPath,
  toolsPath,
  triggersPath,
  webhooksPath,
  workflowsPath,
} from '../contract/pages.ts'
import { seatWords, type ShownSeat } from '../policy/seats.ts'
import type { Role } from '../policy/types.ts'
import type { Documents } from './documents.ts'
import type { Layouts } from './graph.ts'
import type { AnswerOf, BodyOf, ParamsOf, QueryOf, RouteKey } from '../api/routes/index.ts'

const order: readonly Role[] = ['viewer', 'member', 'admin', 'owner']

/** This changes only what a page offers: the API checks each action. */
export const hasRole = (role: Role | null, least: Role): boolean =>
  role !== null && order.indexOf(role) >= order.indexOf(least)

export const organizationId = ({ person }: PersonsVisit): string => person.organization?.id ?? ''

/** The time zone of the reader. */
export const zoneOf = ({ person }: PersonsVisit): string => person.user.time_zone ?? 'UTC'

/** In the organization whose pages the person sees. */
export const isAtLeast = ({ person }: PersonsVisit, least: Role): boolean =>
  hasRole(person.organization?.role ?? null, least)

/** Whether they fill a seat of the approval. */
export function isDecider(
  visit: PersonsVisit,
  approval: Pick<ApprovalView, 'organization_id' | 'approvers'>,
): boolean {
  const own = visit.person.organizations.find(({ id }) => id === approval.organization_id)
  if (own === undefined) return false
  const now = visit.now.toISOString()
  const asked = approval.approvers.flatMap(({ also = [], ...seat }) => [
    seat,
    ...also.filter(({ at = '' }) => at <= now),
  ])
  const self = { role: own.role, groups: own.groups, email: visit.person.user.email }
  return [self, ...own.deputy_for].some(({ role, groups, email }) =>
    asked.some((who) =>
      'role' in who
        ? hasRole(role, who.role)
        : 'person' in who
          ? email === who.person
          : groups.includes(who.group),
    ),
  )
}

export const roleIn = ({ person }: PersonsVisit, organizationId: string): Role | null =>
  person.organizations.find(({ id }) => id === organizationId)?.role ?? null

/** The parts of the navigation, in their order. The first one has no title, and also stands in the bar of a phone. */
export const areas = ['', 'Workflows', 'Rules', 'Organization'] as const

/** The lowest role that can use the page. */
type Place = readonly [path: string, name: string, least: Role, area: (typeof areas)[number]]
const places: readonly Place[] = [
  [homePath, 'Home', 'viewer', ''],
  [inboxPath, 'Approvals', 'member', ''],
  ['/console/runs', 'Runs', 'viewer', ''],
  ['/console/sessions', 'Agents', 'member', ''],
  [workflowsPath, 'All workflows', 'viewer', 'Workflows'],
  [templatesPath, 'Templates', 'viewer', 'Workflows'],
  [triggersPath, 'Triggers', 'member', 'Workflows'],
  [connectionsPath, 'Connections', 'viewer', 'Workflows'],
  [dataPath, 'Files and memory', 'member', 'Workflows'],
  [rerunsPath, 'Run many again', 'member', 'Workflows'],
  [rulesPath, 'All rules', 'member', 'Rules'],
  [toolsPath, 'Policies and tools', 'viewer', 'Rules'],
  [freezePath, 'Freeze', 'viewer', 'Rules'],
  [auditPath, 'Audit log', 'admin', 'Rules'],
  [peoplePath, 'People', 'owner', 'Organization'],
  [groupsPath, 'Groups', 'admin', 'Organization'],
  [keysPath, 'Keys', 'viewer', 'Organization'],
  [settingsPath, 'Settings and limits', 'admin', 'Organization'],
  [reportsPath, 'Reports', 'admin', 'Organization'],
  [notificationsPath, 'Notifications', 'admin', 'Organization'],
  [webhooksPath, 'Webhooks', 'admin', 'Organization'],
  [providerPath, 'Company sign-in', 'owner', 'Organization'],
  [organizationsPath, 'Your organizations', 'viewer', 'Organization'],
  [healthPath, 'Health', 'viewer', 'Organization'],
  [docsPath, 'Documents', 'viewer', 'Organization'],
]

/** A person without an organization gets the lists of a member. A viewer in a group, and a deputy, decide approvals too. */
export const placesOf = ({ organization }: Pick<Person, 'organization'>) =>
  places.filter(
    ([path, , least]) =>
      (hasRole(organization?.role ?? 'member', least) ||
        (path === inboxPath && (organization?.groups.length ?? 0) > 0) ||
        (path === inboxPath && (organization?.deputy_for.length ?? 0) > 0)) &&
      (path !== providerPath || organization?.personal === false),
  )

/* Whether the list of approvals lets a person select one. This changes only the page: the API checks each vote. */

export interface Chooser {
  readonly visit: PersonsVisit
  readonly allowsOwn: boolean
}

/** Who must decide, or where, for the approval's row; null if the person may select it. A change is read before it is approved. */
export function whoDecides({ visit, allowsOwn }: Chooser, approval: ApprovalView): string | null {
  const { user } = visit.person
  if (!isDecider(visit, approval)) return decidedBy(approval.approvers, verbOf(approval.kind))
  // If enough people have voted and the approval still waits, a vote may be given again.
  const isMissing = approval.votes.length < approval.approvals_needed
  if (isMissing && approval.votes.some(({ user_id }) => user_id === user.id))
    return 'you have voted, another person decides'
  if (approval.kind === 'ask') return 'open it to answer'
  if (approval.kind === 'revision') return 'open it to edit the call'
  if (approval.kind === 'edit') return 'open it to decide'
  // Whoever made the run again says whether its call is made once more.
  if (approval.kind === 'repeat') return null
  if (approval.requested_by === user.id && (!allowsOwn || approval.kind === 'change'))
    return 'you asked for it, another person decides'
  if (isAuthor(approval, user.id) && !allowsOwn) return 'you wrote what runs, another person decides'
  if (approval.kind === 'change') return 'open it to decide'
  return null
}

/** What people do with an approval of this kind. */
export const verbOf = (kind: string): string =>
  kind === 'ask' ? 'answer' : kind === 'revision' ? 'edit' : 'decide'

/** "an owner decides", "1 member of finance and 1 member of legal decide". */
export const decidedBy = (approvers: readonly ShownSeat[], verb = 'decide'): string => {
  const areMany = approvers.length > 1 || approvers.some((seat) => !('role' in seat) && seat.count > 1)
  return `${seatWords(approvers).replaceAll('`', '')} ${verb}${areMany ? '' : 's'}`
}

const isAuthor = ({ authors }: ApprovalView, userId: string): boolean =>
  authors.some(({ user_id }) => user_id === userId)

export async function chooserOf(visit: PersonsVisit, items: readonly ApprovalView[]): Promise<Chooser> {
  return { visit, allowsOwn: await readAllowsOwn(visit, items) }
}

/** Read only if the list has a request of this person, or of a version that they wrote. */
async function readAllowsOwn(visit: PersonsVisit, items: readonly ApprovalView[]): Promise<boolean> {
  const { user, organization } = visit.person
  const isOwn = (item: ApprovalView): boolean => item.requested_by === user.id || isAuthor(item, user.id)
  if (organization === null || !items.some(isOwn)) return false
  const settings = await visit.api.call('GET /organizations/{id}/governance', {
    params: { id: organization.id },
  })
  return settings.ok && settings.body.allow_self_approval
}

/** Calls that are approved together must have these in common. */
export type Traits = Readonly<Record<'tool' | 'rule' | 'labels', string>>

export const traitsOf = ({
  kind,
  tool,
  rule_id,
  labels,
}: Pick<ApprovalView, 'kind' | 'tool' | 'rule_id' | 'labels'>): Traits => ({
  tool: JSON.stringify([kind, tool]),
  rule: rule_id ?? '',
  labels: JSON.stringify([...labels].sort()),
})

/*
 * A page gets a visit and returns what to show. It reads and changes data only through `Api`: the routes of the public
 * API, with the rights of the signed-in person.
 */

export type Me = AnswerOf<'GET /me'>
export type Organization = Me['organizations'][number]

export interface Person {
  readonly user: Me['user']
  readonly organizations: readonly Organization[]
  /** Chosen by the person, else the first that is not personal, or else the personal one. */
  readonly organization: Organization | null
}

export interface Problem {
  readonly status: number
  readonly code: string
  readonly message: string
  /** What is wrong with which field of the query or body. */
  readonly details?: readonly FieldProblem[]
}

export interface FieldProblem {
  readonly path: string
  readonly message: string
}

export type Result<T> = { readonly ok: true; readonly body: T } | ({ readonly ok: false } & Problem)

/** `Field`: the fields of a large answer that are read. Without them, all. */
export type ApiRequest<Key extends RouteKey, Field> = Given<'params', ParamsOf<Key>> &
  Given<'body', BodyOf<Key>> & {
    /** Texts of an address, which the route checks. */
    readonly query?: { readonly [Name in keyof QueryOf<Key>]?: string }
    readonly idempotencyKey?: string
    readonly only?: readonly Field[]
    /** For a streamed answer. A longer one fails with `too_large`. */
    readonly mostCharacters?: number
  }

type Given<Name extends string, T> = [T] extends [undefined | Record<string, never>]
  ? unknown
  : object extends T
    ? { readonly [N in Name]?: T }
    : { readonly [N in Name]: T }

/** A definition that was read from YAML or JSON. Refusals of a call with this body name lines of its text. */
export interface ReadDefinition {
  definition: BodyOf<'POST /workflows'>['definition']
}

export interface Api {
  readYaml(text: string): Result<ReadDefinition>
  /** A very long value comes as JSON, which is YAML too. */
  writeYaml(value: object): string
  /** `key` is that of a route, such as `GET /approvals/{id}`, whose schemas say what it takes and answers. */
  call<Key extends RouteKey, Field extends keyof AnswerOf<Key> = keyof AnswerOf<Key>>(
    key: Key,
    ...request: object extends ApiRequest<Key, Field> ? [ApiRequest<Key, Field>?] : [ApiRequest<Key, Field>]
  ): Promise<Result<Part<AnswerOf<Key>, Field>>>
}

type Part<T, Field extends keyof T> = keyof T extends Field ? T : Pick<T, Field>

/* What the routes show, as pages read it. */
export type ApprovalView = AnswerOf<'GET /approvals/{id}'>
export type RunView = AnswerOf<'GET /runs/{id}'>
export type RuleView = AnswerOf<'GET /organizations/{id}/rules/{rule}'>
/** As a version keeps it. */
export type RuleBody = Omit<
  RuleView,
  'id' | 'organization_id' | 'created_by' | 'created_at' | 'updated_at' | 'managed_by'
>
export type StepView = RunView['steps'][number]
export type WaitingView = RunView['waiting_for'][number]
export type ReceiptView = AnswerOf<'GET /runs/{id}/authorization'>
export type ReceiptDecision = ReceiptView['decisions'][number]
export type CallsView = AnswerOf<'GET /runs/{id}/steps/{step}/calls'>
export type RunHead = AnswerOf<'GET /runs'>['data'][number]
export type WaitingSummary = AnswerOf<'GET /organizations/{id}/approvals/summary'>
export type AgentSessionView = AnswerOf<'GET /agent-sessions/{id}'>

export type Form = URLSearchParams

interface Visit {
  /** With its query, so that a person can return to it. */
  readonly place: string
  readonly params: Readonly<Record<string, string>>
  readonly query: URLSearchParams
}

/** The page of its approval, if the route answered that the change waits for a second person. */
export function waitsFor(answer: unknown): string | null {
  const { change } = (answer ?? {}) as { readonly change?: { readonly id: string } }
  return change === undefined ? null : `${inboxPath}/${change.id}`
}

export interface PersonsVisit extends Visit {
  readonly api: Api
  readonly person: Person
  /** Proves that a form comes from a page of this sign-in session. */
  readonly token: string
  readonly now: Date
  /** The address of the server, for commands that a page shows. */
  readonly base: string
  /** The form has brought a file: `POST /files` keeps it, with the `labels` of its body. */
  readonly hasFile: boolean
  /** Where the mails of a development stack lie. */
  readonly mailFolder: string | null
  readonly layouts: Layouts
  readonly documents: Documents
}

export interface Page {
  readonly status: number
  readonly title: string
  readonly main: ComponentChild
  /** A script of its own. */
  readonly script?: 'editor'
}

/** JSON, or rows of CSV. */
type Download = { readonly name: string } & (
  | { readonly value: Readonly<Record<string, unknown>> }
  | { readonly rows: readonly (readonly (string | number | null)[])[] }
)

export type Shown = Page | { readonly redirect: string } | { readonly file: Download }

/** `given` might lead to another host, to the sign-in, or contain `..`: then the home page. */
export function ownPlace(given: string | null): string {
  const inside =
    given !== null &&
    given.length <= 500 &&
    /^\/console\/[\w\-./?=&%~]*$/.test(given) &&
    new URL(given, 'http://console').href === `http://console${given}`
  return inside && !given.startsWith('/console/sign-in') ? given : homePath
}
