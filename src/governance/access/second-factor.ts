import { sql } from 'kysely'
import { providerSignInPath, secondFactorPath } from '../../contract/pages.ts'
import { publicBase, type Config } from '../../shared/config.ts'
import type { Db } from '../../db/schema/index.ts'
import { DomainError } from '../errors.ts'
import type { Sender } from './identity.ts'

/** How the person signed in. `unrecorded`, if the service does not know it, counts as without a second factor. */
export const openings = [
  'unrecorded',
  'password',
  'password+totp',
  'password+backup_code',
  'passkey',
  'provider',
  'provider+factor',
] as const
export type OpenedWith = (typeof openings)[number]

const withFactor: readonly unknown[] = [
  'password+totp',
  'password+backup_code',
  'passkey',
  'provider+factor',
] satisfies OpenedWith[]
export const isWithFactor = (openedWith: unknown): boolean => withFactor.includes(openedWith)

/** SQL: whether a second factor opened the session or confirmed the key. */
export const isBackedByFactor = ({
  keyId,
  sessionId,
  trigger,
  rerun,
}: Pick<Sender, 'keyId' | 'sessionId' | 'trigger' | 'rerun'>) => sql<boolean>`(
  exists (select from api_keys where id = ${keyId} and factor_confirmed_at is not null)
  or exists (select from auth_sessions where id = ${sessionId}
             and opened_with in (${sql.join(withFactor.map((each) => sql.lit(each)))}))
  ${ofTrigger(trigger, 'and with_factor')} ${ofRerun(rerun, 'and with_factor')})`

/** SQL: or it is this trigger. */
const ofTrigger = (trigger: Sender['trigger'], more = '') =>
  trigger === undefined
    ? sql``
    : sql`or exists (select from triggers where id = ${trigger.id} ${sql.raw(more)})`

/** SQL: or it is this request, which a session made. */
const ofRerun = (rerun: Sender['rerun'], more = '') =>
  rerun === undefined
    ? sql``
    : sql`or exists (select from reruns where id = ${rerun.id} and api_key_id is null ${sql.raw(more)})`

const isService = sql<boolean>`exists (select from service_accounts where id = u.id)`

/**
 * SQL for the user `u`: whether the session or key is backed by a second factor that the person still has. That of a
 * bound session or key is at the organization's provider.
 */
export const hasFactor = (sender: Omit<Sender, 'userId'>) =>
  sql<boolean>`(${isBackedByFactor(sender)} and (${sender.boundTo !== null} or coalesce(u.two_factor_enabled, false) or ${isService}))`

/** SQL: for the organization `o`. */
export const requiresFactor = sql<boolean>`coalesce((o.settings->>'require_mfa')::boolean, false)`
const requiresProvider = sql<boolean>`coalesce((o.settings->>'require_sso')::boolean, false)`

/**
 * `provider`: the organization requires its own provider. The sign-in there did not ask for a second factor
 * (`at_provider`), the person has none, or the sender is not backed by the one that the person has.
 */
export type MissingFactor = 'provider' | 'at_provider' | 'person' | 'sender'

/**
 * SQL for the organization `o`, the user `u` and the membership `m`; null if nothing is lacking. `always`: even if the
 * organization requires no second factor. An owner keeps one way past the provider, a second factor or a passkey. A key of
 * a service account needs the factor of the owner who made or confirmed it, and a trigger that of who armed it last.
 */
export function missingFactor(sender: Omit<Sender, 'userId'>, always = false) {
  const { keyId, sessionId, boundTo } = sender
  // A key of another organization may be made with a password at any time.
  const passes =
    sessionId === null && sender.rerun === undefined
      ? sql`(exists (select from api_keys where id = ${keyId} and organization_id = o.id) ${ofTrigger(sender.trigger)})`
      : sql`(m.role = 'owner' and ${hasFactor(sender)})`
  const passesProvider = boundTo !== null ? sql.lit(true) : sql`(not ${requiresProvider} or ${passes})`
  const atProvider = sessionId !== null && boundTo !== null
  const lacks = sql`case when ${hasFactor(sender)} then null when ${sql.lit(atProvider)} then 'at_provider'
    when not u.two_factor_enabled and ${sql.lit(boundTo === null)} and not ${isService} then 'person' else 'sender' end`
  return sql<MissingFactor | null>`case when not ${passesProvider} then 'provider'
    when not (${sql.lit(always)} or ${requiresFactor}) then null else ${lacks} end`
}

/** Throws `mfa_required` or `sso_required` with a link. `needs.factor` needs a session, so it refuses every key. */
export function requireFactor(
  config: Config,
  needs: { readonly scope: string | null; readonly factor?: boolean },
  missing: MissingFactor | null,
  { keyId, trigger }: Pick<Sender, 'keyId' | 'trigger'>,
): void {
  if (needs.factor === true && keyId !== null) throw refusal(config, toSignIn)
  // Agents only ask for decisions, which can only restrict them. So they need no second factor (docs/decisions/0072).
  if (missing === null || needs.scope === 'agents:authorize') return
  if (trigger !== undefined) throw refusal(config, toArm)
  if (missing === 'provider') throw providerRefusal(config, keyId === null ? toProvider : toOwnKey)
  throw refusal(
    config,
    missing === 'person'
      ? toEnrol
      : missing === 'at_provider'
        ? toAskProvider
        : keyId === null
          ? toStepUp
          : toConfirm,
  )
}

/**
 * Throws `sso_required` if the sender is bound to another organization: whoever runs a provider acts as its people
 * there, and nowhere else.
 */
export function requireBound(
  config: Config,
  { boundTo, keyId }: Pick<Sender, 'boundTo' | 'keyId'>,
  organizationId: string | null,
): void {
  if (boundTo === null || boundTo === organizationId) return
  throw providerRefusal(config, keyId === null ? elsewhere : elsewhereByKey)
}

const toSignIn = 'a key cannot do this: sign in with your second factor'
const toEnrol = 'a second factor is required: sign in and enrol one'
const toStepUp =
  'a second factor is required, and this session was opened without one: send a code to `POST /api/auth/two-factor/verify-totp`, or sign in again with a code or a passkey'
const toConfirm =
  'a second factor is required, and this key was made without one: confirm it with `POST /api-keys/{id}/confirm`, signed in with your second factor'
const toArm =
  'a second factor is required, and this trigger was armed without one: resume it, signed in with your second factor'
const toAskProvider =
  'a second factor is required, and your company’s provider did not say that it asked for one: ask an owner to set this up at the provider, or to set `checks_factor` if it always asks'
const toProvider =
  'this organization requires a sign-in with its provider: sign in again with “Company sign-in”. An owner can also use the password with a second factor, or a passkey'
const toOwnKey =
  'this organization requires a sign-in with its provider, and this key was made for another organization: make one here'
const elsewhere =
  'you signed in with the provider of another organization, and this sign-in acts only there: sign in with your password'
const elsewhereByKey =
  'this key was made in a sign-in with the provider of another organization, and acts only there: make a key here'

const refusal = (config: Config, message: string): DomainError =>
  new DomainError('mfa_required', message, [
    { path: 'second_factor', message: `${publicBase(config)}${secondFactorPath}` },
  ])

const providerRefusal = (config: Config, message: string): DomainError =>
  new DomainError('sso_required', message, [
    { path: 'sign_in', message: `${publicBase(config)}${providerSignInPath}` },
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
