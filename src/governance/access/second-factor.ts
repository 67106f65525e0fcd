import { sql } from 'kysely'
import { secondFactorPath } from '../../contract/pages.ts'
import { publicBase, type Config } from '../../shared/config.ts'
import type { Db } from '../../db/schema/index.ts'
import { DomainError } from '../errors.ts'
import type { Sender } from './identity.ts'

/** How a session was opened; `unrecorded`: by an older version. */
export type OpenedWith = 'unrecorded' | 'password' | 'password+totp' | 'password+backup_code'

/** Whether the session was opened with a second factor. */
export const isWithFactor = (openedWith: unknown): boolean =>
  openedWith === 'password+totp' || openedWith === 'password+backup_code'

/** Whether a second factor opened the session or confirmed the key. */
export const isBackedByFactor = ({ keyId, sessionId }: Pick<Sender, 'keyId' | 'sessionId'>) => sql<boolean>`(
  exists (select from api_keys where id = ${keyId} and factor_confirmed_at is not null)
  or exists (select from auth_sessions where id = ${sessionId}
             and opened_with in ('password+totp', 'password+backup_code')))`

/** Whether organization `o` requires a second factor. */
export const requiresFactor = sql<boolean>`coalesce((o.settings->>'require_mfa')::boolean, false)`

/** The lack of a required second factor: the person has none, or the key or session was made without it. */
export type MissingFactor = 'person' | 'sender'

/**
 * Selects the required second factor that the sender lacks, in organization `o` for user `u`, else null. `always` means
 * that the call requires a second factor even if the organization does not.
 */
export const missingFactor = (sender: Pick<Sender, 'keyId' | 'sessionId'>, always = false) =>
  sql<MissingFactor | null>`case
    when not (${sql.lit(always)} or ${requiresFactor}) then null
    when not u.two_factor_enabled then 'person'
    when not ${isBackedByFactor(sender)} then 'sender' end`

/**
 * Agents work unattended and only ask for decisions, which can only restrict them. So neither their person nor their
 * key needs a second factor (docs/decisions/0072).
 */
const isForAgents = (scope: string | null): boolean => scope === 'agents:authorize'

/**
 * Throws `mfa_required`, with instructions and a link, if `missing` names a lacking factor. A call that always needs a
 * factor refuses every key.
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
 * Ends a session that was opened with a password alone, if its person has enrolled a second factor meanwhile. Returns
 * whether it has ended the session. Waits for a concurrent enrolment. A later enrolment ends the session itself.
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
