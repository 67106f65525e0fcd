import { sql } from 'kysely'
import { secondFactorPath } from '../../contract/pages.ts'
import { publicBase, type Config } from '../../shared/config.ts'
import type { Db } from '../../db/schema/index.ts'
import { DomainError } from '../errors.ts'
import type { Sender } from './identity.ts'

/** How the person signed in. `unrecorded`, if the service does not know it, counts as without a second factor. */
export type OpenedWith = 'unrecorded' | 'password' | 'password+totp' | 'password+backup_code'

export const isWithFactor = (openedWith: unknown): boolean =>
  openedWith === 'password+totp' || openedWith === 'password+backup_code'

/** SQL: whether a second factor opened the session or confirmed the key. */
export const isBackedByFactor = ({ keyId, sessionId }: Pick<Sender, 'keyId' | 'sessionId'>) => sql<boolean>`(
  exists (select from api_keys where id = ${keyId} and factor_confirmed_at is not null)
  or exists (select from auth_sessions where id = ${sessionId}
             and opened_with in ('password+totp', 'password+backup_code')))`

/** SQL: for the organization `o`. */
export const requiresFactor = sql<boolean>`coalesce((o.settings->>'require_mfa')::boolean, false)`

/** The person has no second factor, or the sender is not backed by the one that the person has. */
export type MissingFactor = 'person' | 'sender'

/** SQL for `o` and `u`; null if nothing is lacking. `always`: even if the organization requires none. */
export const missingFactor = (sender: Pick<Sender, 'keyId' | 'sessionId'>, always = false) =>
  sql<MissingFactor | null>`case
    when not (${sql.lit(always)} or ${requiresFactor}) then null
    when not u.two_factor_enabled then 'person'
    when not ${isBackedByFactor(sender)} then 'sender' end`

/** Throws `mfa_required` with a link. `needs.factor` needs a session, so it refuses every key. */
export function requireFactor(
  config: Config,
  needs: { readonly scope: string | null; readonly factor?: boolean },
  missing: MissingFactor | null,
  { keyId }: Pick<Sender, 'keyId'>,
): void {
  if (needs.factor === true && keyId !== null) throw refusal(config, toSignIn)
  // Agents only ask for decisions, which can only restrict them. So they need no second factor (docs/decisions/0072).
  if (missing === null || needs.scope === 'agents:authorize') return
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
 * For a session that was opened by password alone: ends it if the person has enrolled a second factor meanwhile, and
 * returns whether it did. Waits for an enrolment in progress. A later one ends the session itself.
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
