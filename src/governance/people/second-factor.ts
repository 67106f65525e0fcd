import { sql } from 'kysely'
import { publicBase, type Config } from '../../config.ts'
import { DomainError } from '../errors.ts'

/** The page that enrols a second factor. */
export const secondFactorPage = '/console/second-factor'

/** Of organization `o` and user `u`: whether it requires a second factor that they have not enrolled. */
export const lacksSecondFactor = sql<boolean>`(coalesce((o.settings->>'require_mfa')::boolean, false) and not u.two_factor_enabled)`

/** Whether a call that needs this scope is for people: agents work unattended, and rules decide what they ask. */
export const asksSecondFactor = (scope: string | null): boolean => scope !== 'agents:authorize'

/** What such a person is told: `mfa_required` with the page that enrols (contract section 2). */
export function mfaRequired(config: Config): DomainError {
  const message = 'the organization requires a second factor: sign in and enrol one'
  return new DomainError('mfa_required', message, [
    { path: 'second_factor', message: `${publicBase(config)}${secondFactorPage}` },
  ])
}
