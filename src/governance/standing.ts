import { sql } from 'kysely'
import type { Context } from '../context.ts'
import type { Role } from '../policy/types.ts'
import type { ChainTx } from './chain-tx.ts'
import type { CommitPoint } from './commit-points.ts'
import { DomainError, notFound } from './errors.ts'
import type { Caller, Sender } from './identity.ts'
import {
  isBackedByFactor,
  missingFactor,
  requireFactor,
  requiresFactor,
  type MissingFactor,
} from './people/second-factor.ts'
import { covers, hasRole, isAgentsOnly, scopesOfRole } from './scopes.ts'

/** The caller as they are under the lock. */
export interface PresentCaller extends Caller {
  /** When the caller's key ends; null for never, and for a session. */
  readonly keyExpiresAt: Date | null
  /** Whether a second factor that their person has stands behind the key or session. */
  readonly hasFactor: boolean
  /** Whether the organization requires a second factor. */
  readonly factorRequired: boolean
  /** Whether somebody has shown that they read the mail of the caller's address. */
  readonly isConfirmed: boolean
}

/**
 * Runs one operation of a caller under the lock of their organization's chain: the one way to do so. What dispatch found
 * out about them may be over by then, so it is asked again in the transaction itself, before anything that `work` reads:
 * nobody acts after the entry that took their role or key away. The question is sent along with the first of `work`
 * and answered before the commit; who needs the answer in order to decide asks `now`. Throws `unauthenticated` for a key or
 * session that has ended, `not_found` for who is no member any more, `missing_scope`, `mfa_required`, `insufficient_role`.
 */
export function runAs<R>(
  context: Context,
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
      // Whoever may not ask learns nothing of what the answer would have been.
      await present
      throw error
    }
  })
}

/**
 * For acts where no role counts: throws `unauthenticated` when the sender's key or session has ended, and `mfa_required`
 * where the organization of their key requires a second factor that they lack.
 */
export async function requireStillValid({ config }: Context, tx: ChainTx, sender: Sender): Promise<void> {
  const [row] = await tx.send(sql<{ valid: boolean; missing: MissingFactor | null }>`
    select ${validity(sender)} as valid, (${missingToKey(sender)}) as missing`)
  if (row?.valid !== true) throw ended(sender)
  requireFactor(config, { scope: null }, row.missing, sender)
}

/** In the organization that the sender's key was made in, while its person belongs to it; no row for a session. */
export const missingToKey = (sender: Sender) => sql<MissingFactor | null>`
  select ${missingFactor(sender)} from api_keys k
  join memberships m on m.organization_id = k.organization_id and m.user_id = k.user_id
  join organizations o on o.id = k.organization_id join users u on u.id = k.user_id
  where k.id = ${sender.keyId}`

/** Throws `missing_scope`. `null` is what any key may ask, but for an agent's: that asks for decisions and nothing else. */
export function requireScope(held: readonly string[], scope: string | null): void {
  if (scope === null ? !isAgentsOnly(held) : covers(held, scope)) return
  const message =
    scope === null
      ? 'an agent’s key asks for decisions and nothing else: use one with another scope'
      : `the key lacks the scope \`${scope}\`: use one that has it`
  const path = scope ?? 'agents:authorize'
  const detail = scope === null ? 'is the key’s only scope' : `needs the scope \`${scope}\``
  throw new DomainError('missing_scope', message, [{ path, message: detail }])
}

export function requireRole(role: Role, minimum: Role): void {
  if (hasRole(role, minimum)) return
  const message = `this needs the role \`${minimum}\` in the organization, yours is \`${role}\``
  throw new DomainError('insufficient_role', message, [
    { path: minimum, message: `needs the role \`${minimum}\`` },
  ])
}

interface Row {
  readonly role: Role | null
  readonly valid: boolean
  readonly missing: MissingFactor | null
  readonly has_factor: boolean
  readonly factor_required: boolean
  readonly scopes: string[] | null
  readonly expires_at: Date | null
  readonly confirmed: boolean | null
}

async function presentCaller({ config }: Context, tx: ChainTx, caller: Caller): Promise<PresentCaller> {
  const [row] = await tx.send(sql<Row>`
    select m.role, ${validity(caller)} as valid, k.scopes, k.expires_at, ${requiresFactor} as factor_required,
           ${missingFactor(caller, caller.needs.factor)} as missing, u.email_verified as confirmed,
           coalesce(u.two_factor_enabled, false) and ${isBackedByFactor(caller)} as has_factor
    from (select) as one
    left join organizations o on o.id = ${tx.organizationId}
    left join users u on u.id = ${caller.userId}
    left join memberships m on m.organization_id = ${tx.organizationId} and m.user_id = ${caller.userId}
    left join api_keys k on k.id = ${caller.keyId}`)
  const { role, valid, missing, scopes, expires_at: keyExpiresAt, confirmed } = row as Row
  if (!valid) throw ended(caller)
  if (role === null) throw notFound('organization', tx.organizationId)
  const held = scopes ?? scopesOfRole(role)
  requireScope(held, caller.needs.scope)
  requireFactor(config, caller.needs, missing, caller)
  requireRole(role, caller.needs.role)
  const { has_factor: hasFactor, factor_required: factorRequired } = row as Row
  const isConfirmed = confirmed === true
  return { ...caller, role, scopes: held, keyExpiresAt, hasFactor, factorRequired, isConfirmed }
}

/** A sender with neither is nobody's. */
const validity = ({ keyId, sessionId, userId }: Sender) => sql<boolean>`(
  exists (select from api_keys where id = ${keyId} and user_id = ${userId}
          and revoked_at is null and coalesce(expires_at > clock_timestamp(), true))
  or exists (select from auth_sessions where id = ${sessionId} and user_id = ${userId}
             and expires_at > clock_timestamp()))`

const ended = ({ keyId }: Sender): DomainError =>
  new DomainError('unauthenticated', `the ${keyId === null ? 'session' : 'key'} has ended: send a valid one`)
