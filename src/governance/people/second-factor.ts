import { sql, type Kysely } from 'kysely'
import { publicBase, type Config } from '../../config.ts'
import type { Database } from '../../db/schema/index.ts'
import { DomainError } from '../errors.ts'
import type { Sender } from '../identity.ts'

/** The page that enrols a second factor, and says how a session or key is confirmed with one. */
export const secondFactorPage = '/console/second-factor'

/** How a session was opened; `unrecorded`: before this was kept. */
export type OpenedWith = 'unrecorded' | 'password' | 'password+totp' | 'password+backup_code'

/** Whether a second factor opened the session. */
export const isWithFactor = (openedWith: unknown): boolean =>
  openedWith === 'password+totp' || openedWith === 'password+backup_code'

/** Whether a second factor stands behind the key or session: it opened the session, or confirmed the key. */
export const isBackedByFactor = ({ keyId, sessionId }: Pick<Sender, 'keyId' | 'sessionId'>) => sql<boolean>`(
  exists (select from api_keys where id = ${keyId} and factor_confirmed_at is not null)
  or exists (select from auth_sessions where id = ${sessionId}
             and opened_with in ('password+totp', 'password+backup_code')))`

/** Whether organization `o` requires a second factor. */
export const requiresFactor = sql<boolean>`coalesce((o.settings->>'require_mfa')::boolean, false)`

/** What keeps a sender out: their person has no second factor, or none stands behind their key or session. */
export type MissingFactor = 'person' | 'sender'

/**
 * In organization `o`, for user `u`: the factor that the sender lacks although it is required, else null. `always`: the
 * call itself requires one, whatever the organization says.
 */
export const missingFactor = (sender: Pick<Sender, 'keyId' | 'sessionId'>, always = false) =>
  sql<MissingFactor | null>`case
    when not (${sql.lit(always)} or ${requiresFactor}) then null
    when not u.two_factor_enabled then 'person'
    when not ${isBackedByFactor(sender)} then 'sender' end`

/**
 * Agents work unattended and get nothing but decisions, which only restrict them: neither their person nor their key is
 * asked for a factor (docs/decisions/0072).
 */
const isForAgents = (scope: string | null): boolean => scope === 'agents:authorize'

/**
 * Throws `mfa_required`, with what to do and the page that says how, where `missing` says that the sender lacks a factor.
 * A call that needs a factor itself takes a person: a key is refused in any case.
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

const toSignIn = 'this takes a person: sign in with your second factor, a key cannot do it'
const toEnrol = 'a second factor is required: sign in and enrol one'
const toStepUp =
  'a second factor is required, and this session was opened without one: send a code to `POST /api/auth/two-factor/verify-totp`, or sign in again'
const toConfirm =
  'a second factor is required, and this key was made without one: confirm it with `POST /api-keys/{id}/confirm`, signed in with your second factor'

const refusal = (config: Config, message: string): DomainError =>
  new DomainError('mfa_required', message, [
    { path: 'second_factor', message: `${publicBase(config)}${secondFactorPage}` },
  ])

/**
 * Ends a session that a password alone has opened, if its person has enrolled a second factor meanwhile; answers whether it
 * did. Waits for an enrolment under way: one that comes later finds the session and ends it itself.
 */
export async function endIfEnrolled(db: Kysely<Database>, userId: string, token: string): Promise<boolean> {
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
