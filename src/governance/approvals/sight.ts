import type { ApprovalKind } from '../../contract/status.ts'
import type { Db } from '../../db/schema/index.ts'
import { readSightFacts } from '../../db/queries/approvals.ts'
import { isPerson, isRole } from '../../policy/seats.ts'
import { list, quote } from '../../policy/text.ts'
import { readSettings } from '../../policy/settings.ts'
import { hasRole } from '../access/scopes.ts'
import { hiddenError, type ValuesHidden, type Viewer } from '../access/viewer.ts'
import { notFound } from '../errors.ts'
import { canFillOne, storedSeats, type Rights, type StoredTerms, type Voter } from './requirement.ts'
import { allRights } from './rights.ts'

/*
 * Who sees values: inputs, resolved parameters, items, outputs, results and details of errors. Every route and page asks
 * here. Everybody sees names, states, sizes, labels, rules and reasons, and who can show more (docs/security.md).
 */

/** What a person sees of a run. */
export interface Sight {
  /** Also true for people who may decide the approval of the whole run, which covers its inputs. */
  readonly inputs: boolean
  /** Null: the person sees all values. */
  readonly hidden: ValuesHidden | null
  /** Whether an approval that the person may not decide hides the values. */
  readonly isBarred: boolean
}

interface Run {
  readonly id: string
  readonly requested_by: string
}

interface Facts {
  readonly id: string
  readonly requester_email: string
  readonly settings: object
  readonly at: Date
  /** Ids of the viewer's groups. */
  readonly groups: readonly string[]
  /** The rights of those whose deputy the viewer is now. */
  readonly for_absent: readonly Rights[]
  /** The groups that the version that runs names as `readers`. */
  readonly readers: readonly { readonly id: string; readonly name: string }[]
  readonly approvals: readonly (DecidedTerms & { readonly kind: ApprovalKind })[]
}

/** By the id of the run. One statement, and none for people who see all values anyway. */
export async function sightsOf(
  db: Db,
  viewer: Viewer,
  runs: readonly Run[],
): Promise<ReadonlyMap<string, Sight>> {
  const seesAll = ({ requested_by }: Run): boolean =>
    viewer.role === 'owner' || viewer.userId === requested_by
  const sights = new Map<string, Sight>()
  for (const run of runs) if (seesAll(run)) sights.set(run.id, everything)
  const others = runs.filter((run) => !seesAll(run)).map(({ id }) => id)
  if (others.length === 0) return sights
  const { rows } = await readSightFacts<Facts>(others, viewer.userId).execute(db)
  for (const facts of rows) sights.set(facts.id, sightBy(viewer, facts))
  return sights
}

const everything: Sight = { inputs: true, hidden: null, isBarred: false }

export async function sightOf(db: Db, viewer: Viewer, run: Run): Promise<Sight> {
  const sight = (await sightsOf(db, viewer, [run])).get(run.id)
  if (sight === undefined) throw notFound('run', run.id)
  return sight
}

/**
 * A value of one call can stand in an input, in another call and in outputs. So people who may not decide one of the
 * approvals see no values of the run (docs/decisions/0267), but the workflow's readers do if admins may decide it.
 */
function sightBy({ role, userId }: Viewer, facts: Facts): Sight {
  const { approvals, groups } = facts
  const isOpen = {
    participants: hasRole(role, 'admin'),
    members: hasRole(role, 'member'),
    everyone: true,
  }[readSettings(facts.settings).run_values]
  const isReader = facts.readers.some(({ id }) => groups.includes(id))
  const rights = allRights(userId, { role, groups }, facts.for_absent, facts.at)
  const canDecide = (terms: DecidedTerms): boolean => mayFillOne({ rights: [rights[0]] }, terms)
  const isBarred = !approvals.every(canDecide)
  const isClosed = !approvals.every((terms) => canDecide(terms) || isForAdmins(terms))
  if ((isOpen && !isBarred) || (isReader && !isClosed)) return everything
  return {
    // A deputy sees what the approval shows, and not the run.
    inputs: approvals.some((terms) => terms.kind === 'run' && mayFillOne({ rights }, terms)),
    hidden: hiddenBy(facts, isOpen),
    isBarred,
  }
}

const isForAdmins = (terms: StoredTerms): boolean =>
  storedSeats(terms).every((seat) => isPerson(seat) || (isRole(seat) && seat.role === 'admin'))

function hiddenBy({ approvals, readers, requester_email: requester }: Facts, isOpen: boolean): ValuesHidden {
  const strict = approvals.find((terms) => !isForAdmins(terms))
  const why =
    strict !== undefined
      ? `an approval of this run needs ${strict.approver === 'owner' ? 'an owner' : 'a group'}, so its values are shown only to`
      : isOpen
        ? 'this run needed an approval, so its values are shown only to'
        : 'the values of a run are shown only to'
  const seers = strict === undefined ? 'admins and owners' : 'owners'
  const named = strict === undefined ? readers.map(({ name }) => `the group ${quote(name)}`) : []
  return {
    reason: `${why} ${list(['the person who started it', seers, ...named], 'and')}`,
    ask: [requester, seers, ...named],
  }
}

/** Throws if the viewer may not see the outputs of the run. */
export async function requireValues(db: Db, viewer: Viewer, runId: string): Promise<void> {
  const run = await db
    .selectFrom('runs')
    .select(['id', 'requested_by'])
    .where('id', '=', runId)
    .where('organization_id', '=', viewer.organizationId)
    .executeTakeFirst()
  if (run === undefined) return
  const { hidden, isBarred } = await sightOf(db, viewer, run)
  if (hidden === null) return
  const role = hasRole(viewer.role, 'admin') ? 'owner' : 'admin'
  throw hiddenError(hidden, role, isBarred ? 'not_an_approver' : 'insufficient_role')
}

export interface DecidedTerms extends StoredTerms {
  readonly decided_at: Date | string | null
}

interface Decided extends DecidedTerms {
  readonly kind: ApprovalKind
  readonly requested_by: string
  readonly requester_email: string | null
}

export interface Deciding extends Viewer {
  readonly rights: readonly Voter[]
}

/** Now, or when the approval was decided: who would have been asked later does not see it afterwards. */
export const mayFillOne = ({ rights }: Pick<Deciding, 'rights'>, terms: DecidedTerms): boolean =>
  rights.some((voter) => canFillOne({ ...voter, at: terms.decided_at ?? voter.at }, storedSeats(terms)))

/** Owners see what a group decides, and cannot decide it. */
export const seesLikeDeciders = (viewer: Deciding, terms: DecidedTerms): boolean =>
  viewer.role === 'owner' || mayFillOne(viewer, terms)

/** Null: the viewer sees what the approval shows. */
export function hiddenByApproval(viewer: Deciding, approval: Decided): ValuesHidden | null {
  if (viewer.userId === approval.requested_by || seesLikeDeciders(viewer, approval)) return null
  const seers = storedSeats(approval).map((seat) =>
    isPerson(seat)
      ? seat.person
      : !isRole(seat)
        ? `members of ${quote(seat.group)}`
        : seat.role === 'owner'
          ? 'owners'
          : 'admins and owners',
  )
  return {
    reason:
      approval.kind === 'ask'
        ? 'the values of a question are shown only to the person who started the run, those who may answer, and owners'
        : 'what an approval covers is shown only to the person who asked, those who may decide it, and owners',
    ask: [
      ...(approval.requester_email === null ? [] : [approval.requester_email]),
      ...new Set([...seers, ...(seers.includes('admins and owners') ? [] : ['owners'])]),
    ],
  }
}
