import type { Db } from '../../db/schema/index.ts'
import type { Role, CallSource } from '../../policy/types.ts'
import { rolesFrom, covers, hasRole, isAgentsOnly, scopesOfRole } from './scopes.ts'
import {
  hasFactor,
  missingFactor,
  requireBound,
  requireFactor,
  requiresFactor,
  type MissingFactor,
} from './second-factor.ts'
import { sql } from 'kysely'
import { readCaller } from '../../db/queries/access.ts'
import type { Config } from '../../shared/config.ts'
import type { ChainTx } from '../audit/chain-tx.ts'
import type { Combiner } from '../audit/combiner.ts'
import type { CommitPoint } from '../audit/commit-points.ts'
import { DomainError, notFound } from '../errors.ts'
import type { Caller, Sender } from './identity.ts'
import { refused, type Decided } from '../../policy/decide.ts'

export interface Acting {
  readonly combiner: Combiner
  readonly config: Config
}

export interface PresentCaller extends Caller {
  /** null if the key never ends, and for a sign-in session. */
  readonly keyExpiresAt: Date | null
  /** Whether a second factor backs the session or key, and the person still has one. */
  readonly hasFactor: boolean
  readonly factorRequired: boolean
  readonly isConfirmed: boolean
}

/**
 * Runs an operation of a caller under the lock of the organization's chain, and checks the caller's rights there again.
 * Every operation that needs a role goes through it. So once the chain has the entry that takes a role or key away, the
 * former holder can change nothing.
 *
 * The check is sent with the first statement of `work` and awaited before the commit. If `work` needs its result, it
 * calls `now`.
 *
 * Throws `unauthenticated` if the key or session has ended, `not_found` for a former member, and `missing_scope`,
 * `mfa_required`, `sso_required` or `insufficient_role`.
 */
export function runAs<R>(
  context: Acting,
  caller: Caller,
  point: CommitPoint,
  work: (tx: ChainTx, now: () => Promise<PresentCaller>) => Promise<R>,
): Promise<R> {
  return context.combiner.run(caller.organizationId, point, async (tx) => {
    const present = presentCaller(context, tx, caller)
    present.catch(() => undefined)
    try {
      const result = await work(tx, () => present)
      await present
      return result
    } catch (error) {
      // The error of a failed check comes first, so that an unauthorized caller learns nothing about the data.
      await present
      throw error
    }
  })
}

/**
 * For an operation that needs no role and leads to another organization. Throws `unauthenticated` if the key or session
 * has ended, `sso_required` if it is bound to an organization, and `mfa_required` if the key's organization requires a
 * second factor that the sender lacks.
 */
export async function requireStillValid(
  { config }: Pick<Acting, 'config'>,
  tx: ChainTx,
  sender: Sender,
): Promise<void> {
  const [row] = await tx.send(sql<{ valid: boolean; missing: MissingFactor | null }>`
    select ${validity(sender)} as valid, (${missingToKey(sender)}) as missing`)
  if (row?.valid !== true) throw ended(sender)
  requireBound(config, sender, null)
  requireFactor(config, { scope: null }, row.missing, sender)
}

/** SQL: what the sender lacks that the key's organization requires. No row for a session or former member. */
export const missingToKey = (sender: Sender) => sql<MissingFactor | null>`
  select ${missingFactor(sender)} from api_keys k
  join memberships m on m.organization_id = k.organization_id and m.user_id = k.user_id
  join organizations o on o.id = k.organization_id join users u on u.id = k.user_id
  where k.id = ${sender.keyId}`

/** Throws `missing_scope`. If `scope` is null, accepts every key but one whose only scope is `agents:authorize`. */
export function requireScope(
  held: readonly string[],
  scope: string | null,
  keyName: string | null = null,
): void {
  if (scope === null ? !isAgentsOnly(held) : covers(held, scope)) return
  const message =
    scope === null
      ? 'an agent’s key can only ask for decisions: use a key with another scope'
      : `the key${keyName === null ? '' : ` \`${keyName}\``} lacks the scope \`${scope}\`: use a key that has it`
  const path = scope ?? 'agents:authorize'
  const detail = scope === null ? 'is the key’s only scope' : `needs the scope \`${scope}\``
  throw new DomainError('missing_scope', message, [{ path, message: detail }])
}

export function requireScopes(
  held: readonly string[],
  { scope, further = [] }: Pick<Caller['needs'], 'scope' | 'further'>,
  keyName: string | null = null,
): void {
  for (const each of [scope, ...further]) requireScope(held, each, keyName)
}

export function requireRole(role: Role, minimum: Role): void {
  if (!hasRole(role, minimum)) throw tooLow(role, minimum)
}

/** The API adds whom to ask (whom-to-ask.ts). */
export function tooLow(role: Role, minimum: Role): DomainError {
  const message = `this needs the role \`${minimum}\` in the organization, yours is \`${role}\``
  return new DomainError('insufficient_role', message, [
    { path: minimum, message: `needs the role \`${minimum}\`` },
  ])
}

export async function roleUnderLock(tx: ChainTx, userId: string): Promise<Role | null> {
  const row = await tx.trx
    .selectFrom('memberships')
    .select('role')
    .where('organization_id', '=', tx.organizationId)
    .where('user_id', '=', userId)
    .executeTakeFirst()
  return row?.role ?? null
}

interface Row {
  readonly role: Role | null
  readonly valid: boolean
  readonly missing: MissingFactor | null
  readonly has_factor: boolean
  readonly factor_required: boolean
  readonly scopes: string[] | null
  readonly key_name: string | null
  readonly expires_at: Date | null
  readonly confirmed: boolean | null
}

async function presentCaller(
  { config }: Pick<Acting, 'config'>,
  tx: ChainTx,
  caller: Caller,
): Promise<PresentCaller> {
  const [row] = await tx.send(
    readCaller<Row>({
      organizationId: tx.organizationId,
      userId: caller.userId,
      keyId: caller.keyId,
      valid: validity(caller),
      factorRequired: requiresFactor,
      missing: missingFactor(caller, caller.needs.factor),
      hasFactor: hasFactor(caller),
    }),
  )
  const { role, valid, missing, scopes, key_name: keyName, expires_at: keyExpiresAt, confirmed } = row as Row
  if (!valid) throw ended(caller)
  requireBound(config, caller, tx.organizationId)
  if (role === null) throw notFound('organization', tx.organizationId)
  const held = scopes ?? scopesOfRole(role)
  requireScopes(held, caller.needs, keyName)
  requireFactor(config, caller.needs, missing, caller)
  requireRole(role, caller.needs.role)
  const { has_factor: isBacked, factor_required: factorRequired } = row as Row
  const isConfirmed = confirmed === true
  return { ...caller, role, scopes: held, keyExpiresAt, hasFactor: isBacked, factorRequired, isConfirmed }
}

/** A sign-in with a provider lasts so long, so that roles that are taken away there end here. */
export const providerSessionHours = 12

/** SQL: whether the sender's key or sign-in session is still valid, or its trigger active. */
const validity = ({ keyId, sessionId, userId, trigger, rerun }: Sender) => sql<boolean>`(
  exists (select from api_keys where id = ${keyId} and user_id = ${userId}
          and revoked_at is null and coalesce(expires_at > clock_timestamp(), true))
  or exists (select from auth_sessions where id = ${sessionId} and user_id = ${userId}
             and ${sessionEnd} > clock_timestamp()) or ${isActive(userId, trigger)} or ${isGoing(userId, rerun)})`

/** SQL: whether the trigger still acts for the service account. */
const isActive = (userId: string, trigger: Sender['trigger']) => sql<boolean>`exists (select from triggers
  where id = ${trigger?.id ?? null} and service_account = ${userId} and paused_reason is null)`

/** SQL: whether a session asked for it, and it has not ended. */
const isGoing = (userId: string, rerun: Sender['rerun']) =>
  rerun === undefined
    ? sql`false`
    : sql`exists (select from reruns
        where id = ${rerun.id} and requested_by = ${userId} and api_key_id is null and ended_at is null)`

/** SQL: when a sign-in session ends. That of a provider is not renewed. */
export const sessionEnd = sql<Date>`least(expires_at, case when provider_organization is not null
  then created_at + make_interval(hours => ${providerSessionHours}) end)`

const ended = ({ keyId, trigger }: Sender): DomainError =>
  trigger === undefined
    ? new DomainError(
        'unauthenticated',
        `the ${keyId === null ? 'session' : 'key'} has ended: send a valid one`,
      )
    : new DomainError('conflict', 'the trigger is paused: an admin resumes it')

/** Returns the denial that every call for a person with this role gets; null if the role may make calls. */
export function refusalOfRole(source: CallSource, role: Role): Decided | null {
  if (hasRole(role, 'member')) return null
  if (source === 'workflows')
    return refused('requester may not run tools', `the person who started this run is only a ${role}`)
  return refused(
    'role may not ask',
    `The person this agent acts for has the role \`${role}\`: agents need \`member\`.`,
  )
}

/** Sorted ids, without organizations whose required second factor or provider the sender lacks. The caller checks the scopes. */
export async function organizationsOf(db: Db, sender: Sender, minimum: Role): Promise<string[]> {
  const rows = await db
    .selectFrom('memberships as m')
    .innerJoin('organizations as o', 'o.id', 'm.organization_id')
    .innerJoin('users as u', 'u.id', 'm.user_id')
    .select('m.organization_id')
    .where('m.user_id', '=', sender.userId)
    .where('m.role', 'in', rolesFrom(minimum))
    .$if(sender.boundTo !== null, (bound) => bound.where('m.organization_id', '=', sender.boundTo))
    .where(missingFactor(sender), 'is', null)
    .orderBy('m.organization_id')
    .limit(1_000)
    .execute()
  return rows.map((row) => row.organization_id)
}
