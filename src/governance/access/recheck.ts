import { sql } from 'kysely'
import { readCaller } from '../../db/queries/access.ts'
import type { Config } from '../../shared/config.ts'
import type { Role } from '../../policy/types.ts'
import type { ChainTx } from '../audit/chain-tx.ts'
import type { Combiner } from '../audit/combiner.ts'
import type { CommitPoint } from '../audit/commit-points.ts'
import { DomainError, notFound } from '../errors.ts'
import type { Caller, Sender } from './identity.ts'
import {
  isBackedByFactor,
  missingFactor,
  requireFactor,
  requiresFactor,
  type MissingFactor,
} from './second-factor.ts'
import { covers, hasRole, isAgentsOnly, scopesOfRole } from './scopes.ts'

/** The parts of the context that an operation of a caller needs. */
export interface Acting {
  readonly combiner: Combiner
  readonly config: Config
}

/** The caller's rights as read under the lock. */
export interface PresentCaller extends Caller {
  /** The time when the caller's key ends. null if the key never ends, or if the person is signed in and uses no key. */
  readonly keyExpiresAt: Date | null
  /**
   * True if the person used a second factor to open the sign-in session or to confirm the key, and still has a second
   * factor.
   */
  readonly hasFactor: boolean
  /** Whether the organization requires a second factor. */
  readonly factorRequired: boolean
  /** Whether the caller's address is confirmed. */
  readonly isConfirmed: boolean
}

/**
 * Runs one operation of a caller under the lock of the organization's chain. Every operation that needs a role must go
 * through this function. The caller may have lost the role, key or sign-in session since the request arrived, so the
 * transaction checks the caller's rights again. So if the chain has the entry that takes a role or key away, the former
 * holder can change nothing.
 *
 * The check is sent with the first statement of `work`, and its result is awaited before the commit. If `work` needs
 * the result for its own decision, `work` calls `now`.
 *
 * Throws `unauthenticated` if the key or sign-in session has ended, and `not_found` if the person is no longer a
 * member. Throws `missing_scope`, `mfa_required` or `insufficient_role` if the caller lacks a scope, second factor or
 * role.
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
      // If the check has failed too, the error of the check is thrown. So an unauthorized caller learns nothing about
      // the data.
      await present
      throw error
    }
  })
}

/**
 * Checks the sender of an operation that needs no role. Throws `unauthenticated` if the sender's key or sign-in session
 * has ended. Throws `mfa_required` if the organization of the key requires a second factor that the sender lacks.
 */
export async function requireStillValid(
  { config }: Pick<Acting, 'config'>,
  tx: ChainTx,
  sender: Sender,
): Promise<void> {
  const [row] = await tx.send(sql<{ valid: boolean; missing: MissingFactor | null }>`
    select ${validity(sender)} as valid, (${missingToKey(sender)}) as missing`)
  if (row?.valid !== true) throw ended(sender)
  requireFactor(config, { scope: null }, row.missing, sender)
}

/**
 * SQL: selects who lacks a second factor that the organization of the sender's key requires (see `MissingFactor`).
 * Selects no row for a sign-in session, or if the key's person is no longer a member of this organization.
 */
export const missingToKey = (sender: Sender) => sql<MissingFactor | null>`
  select ${missingFactor(sender)} from api_keys k
  join memberships m on m.organization_id = k.organization_id and m.user_id = k.user_id
  join organizations o on o.id = k.organization_id join users u on u.id = k.user_id
  where k.id = ${sender.keyId}`

/**
 * Throws `missing_scope` if the held scopes do not cover `scope`. If `scope` is null, accepts every key except a key
 * whose only scope is `agents:authorize`. The message contains `keyName`.
 */
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

/** Throws `missing_scope` for the first needed scope that the held scopes do not cover (see `requireScope`). */
export function requireScopes(
  held: readonly string[],
  { scope, further = [] }: Pick<Caller['needs'], 'scope' | 'further'>,
  keyName: string | null = null,
): void {
  for (const each of [scope, ...further]) requireScope(held, each, keyName)
}

export function requireRole(role: Role, minimum: Role): void {
  if (hasRole(role, minimum)) return
  const message = `this needs the role \`${minimum}\` in the organization, yours is \`${role}\``
  throw new DomainError('insufficient_role', message, [
    { path: minimum, message: `needs the role \`${minimum}\`` },
  ])
}

/**
 * Returns the user's role; null for a non-member. The chain's lock keeps the role unchanged until the end of this
 * transaction.
 */
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
      backedByFactor: isBackedByFactor(caller),
    }),
  )
  const { role, valid, missing, scopes, key_name: keyName, expires_at: keyExpiresAt, confirmed } = row as Row
  if (!valid) throw ended(caller)
  if (role === null) throw notFound('organization', tx.organizationId)
  const held = scopes ?? scopesOfRole(role)
  requireScopes(held, caller.needs, keyName)
  requireFactor(config, caller.needs, missing, caller)
  requireRole(role, caller.needs.role)
  const { has_factor: hasFactor, factor_required: factorRequired } = row as Row
  const isConfirmed = confirmed === true
  return { ...caller, role, scopes: held, keyExpiresAt, hasFactor, factorRequired, isConfirmed }
}

/**
 * SQL: true if the sender's key or sign-in session is still valid. Is false if the sender has neither a key nor a
 * session.
 */
const validity = ({ keyId, sessionId, userId }: Sender) => sql<boolean>`(
  exists (select from api_keys where id = ${keyId} and user_id = ${userId}
          and revoked_at is null and coalesce(expires_at > clock_timestamp(), true))
  or exists (select from auth_sessions where id = ${sessionId} and user_id = ${userId}
             and expires_at > clock_timestamp()))`

const ended = ({ keyId }: Sender): DomainError =>
  new DomainError('unauthenticated', `the ${keyId === null ? 'session' : 'key'} has ended: send a valid one`)
