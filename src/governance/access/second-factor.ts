import { sql } from 'kysely'
import { secondFactorPath } from '../../contract/pages.ts'
import { publicBase, type Config } from '../../shared/config.ts'
import type { Db } from '../../db/schema/index.ts'
import { DomainError } from '../errors.ts'
import type { Sender } from './identity.ts'

/**
 * The way in which the person signed in to the session. `unrecorded` means that the service does not know the way. Such
 * a session counts as opened without a second factor.
 */
export type OpenedWith = 'unrecorded' | 'password' | 'password+totp' | 'password+backup_code'

/** Whether the person used a second factor to sign in to the session. */
export const isWithFactor = (openedWith: unknown): boolean =>
  openedWith === 'password+totp' || openedWith === 'password+backup_code'

/** SQL: whether the person used a second factor to open the sign-in session or to confirm the key. */
export const isBackedByFactor = ({ keyId, sessionId }: Pick<Sender, 'keyId' | 'sessionId'>) => sql<boolean>`(
  exists (select from api_keys where id = ${keyId} and factor_confirmed_at is not null)
  or exists (select from auth_sessions where id = ${sessionId}
             and opened_with in ('password+totp', 'password+backup_code')))`

/** SQL: whether organization `o` requires a second factor. */
export const requiresFactor = sql<boolean>`coalesce((o.settings->>'require_mfa')::boolean, false)`

/**
 * Who lacks a required second factor. `person` means that the person has enrolled no second factor. `sender` means that
 * the person has one, but did not use it for the sign-in session or to confirm the key.
 */
export type MissingFactor = 'person' | 'sender'

/**
 * SQL: who lacks a required second factor; null if nobody lacks one. In the statement, `o` is the row of the
 * organization and `u` the row of the person. If `always` is true, the call requires a second factor, even if the
 * organization does not require one.
 */
export const missingFactor = (sender: Pick<Sender, 'keyId' | 'sessionId'>, always = false) =>
  sql<MissingFactor | null>`case
    when not (${sql.lit(always)} or ${requiresFactor}) then null
    when not u.two_factor_enabled then 'person'
    when not ${isBackedByFactor(sender)} then 'sender' end`

/**
 * Whether only agents need this scope. Agents work unattended. They only ask for decisions, and a decision can only
 * restrict them. So neither the person of an agent nor its key needs a second factor (docs/decisions/0072).
 */
const isForAgents = (scope: string | null): boolean => scope === 'agents:authorize'

/**
 * Throws `mfa_required`, with instructions and a link, if a required second factor is lacking. If `needs.factor` is
 * true, the call needs a sign-in session, so the function throws for every API key.
 */
export function requireFactor(
  config: Config,
  needs: { readonly scope: string | null; readonly factor?: boolean },
  missing: MissingFactor | null,
  { keyId }: Pick<Sender, 'keyId'>,
): void {
  if (needs.factor === true && keyId !== null) throw refusal(config, toSignIn)
  if (missing === null || isForAgents(needs.scope)) return
  throw refusal(config, missing === 'person' ? toEnrol : keyId === null ? toStepUp : toConfirm)
}

const toSignIn = 'a key cannot do this: sign in with your second factor'
const toEnrol = 'a second factor is required: sign in and enrol one'
const toStepUp =
  'a second factor is required, and this session was opened without one: send a code to `POST /api/auth/two-factor/verify-totp`, or sign in again'
const toConfirm =
  'a second factor is required, and this key was made without one: confirm it with `POST /api-keys/{id}/confirm`, signed in with your second factor'

const refusal = (config: Config, message: string): DomainError =>
  new DomainError('mfa_required', message, [
    { path: 'second_factor', message: `${publicBase(config)}${secondFactorPath}` },
  ])

/**
 * Call this for a sign-in session that was opened with a password and without a second factor. Ends the session if its
 * person has enrolled a second factor meanwhile. Returns whether the session was ended. If an enrolment is in progress,
 * waits for its end. A later enrolment ends the session itself.
 */
export async function endIfEnrolled(db: Db, userId: string, token: string): Promise<boolean> {
  return db.transaction().execute(async (trx) => {
    const user = await trx
      .selectFrom('users')
      .select('two_factor_enabled')
      .where('id', '=', userId)
      .forShare()
      .executeTakeFirst()
    if (user?.two_factor_enabled !== true) return false
    await sql`delete from auth_sessions where token = ${token}`.execute(trx)
    return true
  })
}
