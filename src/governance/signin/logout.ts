import { decodeJwt } from 'jose'
import { sql } from 'kysely'
import type { Context } from '../context.ts'
import { DomainError } from '../errors.ts'
import { endedBy, ProviderTrouble } from './oidc.ts'
import { findProvider } from './provider.ts'

type Ending = Pick<Context, 'db' | 'outgoing'>

/**
 * Ends the sessions that a logout token of the organization’s provider names. Without such a session, the provider is
 * not asked: strangers cannot make the service send requests. Throws `bad_request`, `unavailable`.
 */
export async function endBackChannel(context: Ending, organizationId: string, token: string): Promise<void> {
  const named = namedIn(token)
  if (named === null) throw unreadable()
  const provider = organizationId.includes('\u0000') ? null : await findProvider(context.db, organizationId)
  // A SAML provider sends no such token.
  if (provider?.kind !== 'oidc') throw unreadable()
  const { rows } =
    await sql`select from auth_sessions where ${sessionsOf(organizationId, named)} limit 1`.execute(
      context.db,
    )
  if (rows.length === 0) return
  const { issuer, client_id: clientId } = provider
  const ended = await endedBy(context.outgoing, { issuer, clientId }, token).catch((error: unknown) => {
    if (!(error instanceof ProviderTrouble)) throw error
    throw new DomainError(error.isAway ? 'unavailable' : 'bad_request', error.message)
  })
  await sql`delete from auth_sessions where ${sessionsOf(organizationId, ended)}`.execute(context.db)
}

const unreadable = (): DomainError => new DomainError('bad_request', '`logout_token` cannot be read')

interface Named {
  readonly subject: string | null
  readonly session: string | null
}

/** Does not check the signature. */
function namedIn(token: string): Named | null {
  try {
    const { sub = null, sid } = decodeJwt(token)
    const session = typeof sid === 'string' ? sid : null
    return [sub, session].some((each) => each?.includes('\u0000') === true) ? null : { subject: sub, session }
  } catch {
    return null
  }
}

/** With both, both must fit. A session that the provider gave no name is ended by its person. */
const sessionsOf = (organizationId: string, { subject, session }: Named) => sql`
  provider_organization = ${organizationId}
  and (${subject}::text is null or provider_subject = ${subject})
  and case when ${session}::text is null or provider_session is null then ${subject}::text is not null
      else provider_session = ${session} end`
