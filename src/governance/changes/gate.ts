import { sql } from 'kysely'
import { groupsCalled } from '../../db/queries/people.ts'
import type { ManagedBy } from '../../db/schema/policy.ts'
import { hashOf } from '../../shared/canonical-json.ts'
import { actorOf, type Caller } from '../access/identity.ts'
import { refuseManaged } from '../access/managed.ts'
import { runAs, type Acting, type PresentCaller } from '../access/recheck.ts'
import { announceRequest } from '../approvals/moves.ts'
import {
  agentApprovalSeconds,
  insertApprovals,
  pendingApproval,
  type NewApproval,
} from '../approvals/records.ts'
import type { ChainTx } from '../audit/chain-tx.ts'
import { DomainError } from '../errors.ts'
import type { Once } from '../idempotency.ts'
import { exceededEntry, quotaExceeded, type Exceeded } from '../limits/run-quota.ts'
import { approvalsOver, storageOver } from '../limits/storage.ts'
import type { Seal, Sealer } from '../sealing/sealer.ts'
import {
  baseOf,
  heldChange,
  objectOf,
  plainJson,
  sealChange,
  type ChangeRequest,
  type HeldChange,
  type LooserExample,
  type PendingChange,
} from '../approvals/change.ts'

/*
 * Every change of what decides calls comes through here. With the setting `loosening` at `second_person`, it is saved at
 * once only if it is proven to leave every call decided as strictly as before; else it becomes an approval of the kind
 * `change`.
 */

/** In one organization, at a time. */
export const mostPendingChanges = 50
const daysToDecide = 7

export type Governing = Acting & { readonly sealer: Sealer }

/** Who asks. */
export interface Changer extends Pick<
  Caller,
  'userId' | 'keyId' | 'organizationId' | 'email' | 'ip' | 'requestId'
> {
  readonly cause?: Cause
}

/** In the audit entry of the change. */
export interface Cause {
  readonly requested_by?: string
  /** Another person has approved it. */
  readonly approved_by?: string
  readonly approval_id?: string
  /** It is one of the changes that files make together (src/governance/declared). */
  readonly apply_id?: string
}

/** What the installation sets. */
export interface UsualTerms {
  /** The shortest time that an approval waits if no rule says how long. */
  readonly usualSeconds: number
}

/** A change that was validated under the lock, and not saved yet. */
export interface Prepared<R> {
  readonly request: ChangeRequest
  /** Such as "Change the rule `X`". It has no values. */
  readonly title: string
  /** Names the person whom the change is about; only who may see the change reads it. Default: `title`. */
  readonly sealedTitle?: string
  readonly before: object | null
  readonly after: object | null
  /** A credential that comes with the request, which then names its version. Default: none. */
  readonly secret?: string | null
  /** The file that decides what would change: then nobody changes it here. Default: none. */
  readonly managed?: ManagedBy | null
  /** Ids of what it changes. Default: the one that the request names. */
  readonly touches?: readonly string[]
  /** Names of groups, or of roles, whose members it is about. Default: none. */
  readonly groups?: readonly string[]
  /** What else decides what it means: another one, and it would mean something else. Default: nothing. */
  reliesOn?(): readonly object[]
  /** The limit that it would exceed. Default: none. */
  over?(): Promise<Exceeded | null>
  /** Empty: every call is proven to be decided as strictly as before. */
  whyLooser(
    terms: UsualTerms,
    waiting: () => Promise<ReadonlySet<string>>,
  ): readonly string[] | Promise<readonly string[]>
  /**
   * Reasons that come and go with calls. The requester of a change cannot know later ones, so they do not count when it
   * is applied. Default: none.
   */
  whyForNow?(): Promise<readonly string[]>
  save(): Promise<R>
}

interface Changing<R> {
  /** In the entry of a refusal by a limit. */
  readonly action: string
  readonly once?: Once | null | undefined
  /** Sought before the lock is taken, because this takes long. */
  readonly example?: LooserExample | null
  prepare(tx: ChainTx, changer: Changer, now: () => Promise<PresentCaller>): Promise<Prepared<R>>
  /** What the answer of a credential adds, because nothing stores it. Default: nothing. */
  show?(answer: R | HeldChange): R | HeldChange
}

/** Throws what `prepare` and `save` throw, `quota_exceeded`, and `conflict` for what comes from a file and above `mostPendingChanges`. */
export async function changeAs<R>(
  context: Governing,
  caller: Caller,
  { action, once = null, example = null, prepare, show = (answer) => answer }: Changing<R>,
): Promise<R | HeldChange> {
  const seal = await context.sealer.sealing()
  const ended = await runAs(context, caller, 'org.change', async (tx, now) => {
    const prepared = await prepare(tx, caller, now)
    refuseManaged(tx.organizationId, prepared.managed ?? null)
    const over = (await prepared.over?.()) ?? null
    if (over !== null) {
      tx.append(exceededEntry(over, action, actorOf(caller)))
      return { over }
    }
    const why =
      tx.policy.settings.loosening === 'second_person'
        ? [
            ...(await prepared.whyLooser(usualTerms(context), () => waitingObjects(tx))),
            ...((await prepared.whyForNow?.()) ?? []),
          ]
        : []
    const answer = show(
      why.length === 0 ? await prepared.save() : await hold(tx, caller, seal, { prepared, why, example }),
    )
    await once?.markActed(tx.trx, (answer as object | undefined) ?? undefined)
    return { answer }
  })
  // After the commit, so that the entry of the refusal is saved.
  if ('over' in ended) throw quotaExceeded(ended.over)
  return ended.answer
}

export const usualTerms = ({
  config: { runApprovalSeconds: seconds },
}: Pick<Acting, 'config'>): UsualTerms => ({
  usualSeconds: Math.min(agentApprovalSeconds, seconds === 0 ? Infinity : seconds),
})

interface Holding {
  readonly prepared: Prepared<unknown>
  readonly why: readonly string[]
  readonly example: LooserExample | null
}

async function hold(
  tx: ChainTx,
  caller: Caller,
  seal: Seal,
  { prepared, why, example }: Holding,
): Promise<HeldChange> {
  const { request, title, sealedTitle = title, before, after } = prepared
  const told = beginningOf(why)
  const groups = await tx.send(groupsCalled(tx.organizationId, prepared.groups ?? []))
  const base = baseOf(before, prepared.reliesOn?.() ?? [])
  const hash = hashOf({ ...request, base, groups })
  const { count, same } = await pendingOf(tx, caller.userId, hash)
  // Asked again, for example because the answer was lost.
  if (same !== null) return heldChange(same, told)
  if (count >= mostPendingChanges)
    throw new DomainError(
      'conflict',
      `${mostPendingChanges} changes wait for a second person already: decide or withdraw one of them first`,
    )
  const role = caller.needs.role === 'owner' ? 'owner' : 'admin'
  const record = pendingApproval(
    tx,
    {
      kind: 'change',
      run_id: null,
      workflow_id: null,
      step_id: null,
      item_index: null,
      session_id: null,
      requested_by: caller.userId,
      authors: [],
      params_hash: hash,
      labels: [],
      rule_name: null,
      decision_id: null,
    },
    { seats: [{ role, count: 1 }], needed: 1 },
    { expiresAfterSeconds: daysToDecide * 24 * 3_600, remindAfterSeconds: null },
  )
  const change: PendingChange = {
    request,
    secret: prepared.secret ?? null,
    role,
    title: sealedTitle,
    base,
    before: plainJson(before),
    after: plainJson(after),
    groups,
    why,
    example,
  }
  const sealed = sealChange(seal, record.id, change)
  const over = storageOver(tx, sealed.length) ?? approvalsOver(tx)
  if (over !== null) throw quotaExceeded(over)
  tx.expects({ bytes: sealed.length, approvals: 1 })
  const approval: NewApproval = {
    record,
    sealed,
    state: null,
    tool: null,
    title,
    side_effect: null,
    destination: null,
    rule_id: null,
    risk: { level: 'high', reasons: told },
    touches: prepared.touches ?? [objectOf(request) ?? []].flat(),
  }
  void tx.send(sql`with ${insertApprovals(tx, [approval])} select 1`)
  announceRequest(tx, approval, { actor: actorOf(caller), runId: null })
  return heldChange(record.id, told)
}

/** In answers and lists. The approval has all reasons. */
const mostTold = 5

const beginningOf = (why: readonly string[]): string[] =>
  why.length > mostTold ? [...why.slice(0, mostTold), `${why.length - mostTold} more`] : [...why]

/** Ids of the rules, label rules and groups whose change waits. All of them, if one waits from before they were kept. */
async function waitingObjects(tx: ChainTx): Promise<ReadonlySet<string>> {
  const rows = await tx.trx
    .selectFrom('approvals')
    .select('touches')
    .where('organization_id', '=', tx.organizationId)
    .where('kind', '=', 'change')
    .where('status', '=', 'pending')
    .execute()
  const all = () => [...tx.policy.rules.keys(), ...tx.policy.labelRules.keys()]
  return new Set(rows.flatMap(({ touches }) => touches ?? all()))
}

async function pendingOf(tx: ChainTx, userId: string, hash: string) {
  const [row] = await tx.send(sql<{ count: number; same: string | null }>`
    select count(*)::int as count,
      max(id) filter (where requested_by = ${userId} and params_hash = ${hash} and not (expires_at <= ${tx.now})) as same
    from approvals where organization_id = ${tx.organizationId} and kind = 'change' and status = 'pending'`)
  return row as { readonly count: number; readonly same: string | null }
}
