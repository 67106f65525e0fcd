import { sql } from 'kysely'
import type {
  Grant,
  OAuthClient,
  GrantDeclaration,
  IntegrationDeclaration,
} from '../../tools/kit/integration.ts'
import type { Config } from '../../shared/config.ts'
import type { Db } from '../../db/schema/index.ts'
import type { Outgoing } from '../../shared/outgoing/outgoing.ts'
import { presentMoment, millisecondsSince, type Moment } from '../../shared/moment.ts'
import type { TokenCache } from '../../shared/outgoing/token-cache.ts'
import type { Combiner } from '../audit/combiner.ts'
import type { Secrets } from '../sealing/secrets-backend.ts'
import { type ConnectionRow, expireConnection } from './connection-view.ts'
import { lackingTools, keptText, readKept, type KeptCredential } from './kept-credential.ts'
import {
  refreshTokens,
  serviceAccountToken,
  type Tokens,
  GrantRefused,
  RightsMissing,
  TokenServerAway,
} from './token-server.ts'

/*
 * A server may accept each refresh token only once. So exactly one process asks for a new access token: it leases the
 * connection's row, and needs no lock and no database connection while the server answers. The others wait and read the
 * row again. New tokens are committed before they are used.
 */

export interface Refreshing {
  readonly db: Db
  readonly config: Pick<Config, 'connections'>
  readonly outgoing: Outgoing
  readonly secrets: Secrets
  readonly combiner: Combiner
  readonly accessTokens: TokenCache
}

export interface Access {
  readonly token: string
  readonly isNew: boolean
  /** Forgets the token. Call this after the service has refused it. */
  drop(): Promise<void>
}

/** `gone`: the connection was revoked. */
export type NoAccess = 'gone' | 'expired'

/** How long a call waits for a token that another process has requested. */
const patienceMilliseconds = 20_000
const [firstPause, longestPause] = [50, 500]

/** A token is not used in its last minute, or in the last quarter of a life below four minutes. */
export const freshSecondsOf = ({ expiresInSeconds }: Tokens): number =>
  expiresInSeconds - Math.min(60, expiresInSeconds / 4)

export interface FirstAccess {
  readonly credential: unknown
  /** null without a grant, and for a service account: each process requests tokens of its own. */
  readonly accessToken: string | null
  readonly freshSeconds: number
  /** null if the server has named none. */
  readonly scopes: readonly string[] | null
}

export type LiveRow = ConnectionRow & { readonly is_fresh: boolean }
/** By the database's clock. */
export const isFresh = sql<boolean>`coalesce(access_fresh_until > clock_timestamp(), false)`.as('is_fresh')

type RefreshGrant = Extract<Grant, { kind: 'refresh_token' }>

/** Throws GrantRefused if the grant has no client. */
export function withClient(grant: RefreshGrant): RefreshGrant & { readonly client: OAuthClient } {
  const { client } = grant
  if (client === null) throw new GrantRefused('invalid_client')
  return { ...grant, client }
}

/** Throws RightsMissing, TokenServerAway, SecretsUnavailable, and GrantRefused if not the credential is refused. */
export async function accessFor(
  context: Refreshing,
  declaration: IntegrationDeclaration,
  granting: GrantDeclaration<unknown>,
  row: LiveRow,
  kept: KeptCredential<unknown>,
  tool: string,
): Promise<Access | NoAccess> {
  const grant = granting.of(kept.credential, context.config.connections)
  if (grant.kind === 'refresh_token') {
    const missing = kept.scopes === null ? [] : granting.missingScopes(tool, kept.scopes)
    if (missing.length > 0) throw new RightsMissing(missing)
    return sharedAccess(context, declaration, granting, row, kept)
  }
  const scopes = granting.scopesOf(tool)
  const name = JSON.stringify([row.id, row.generation, ...scopes])
  try {
    const { token, isNew } = await context.accessTokens.take(name, async () => {
      const tokens = await serviceAccountToken(context.outgoing, grant, scopes)
      return { token: tokens.accessToken, freshSeconds: freshSecondsOf(tokens) }
    })
    return { token, isNew, drop: async () => context.accessTokens.drop(name, token) }
  } catch (error) {
    return expiredOr(context, row, error)
  }
}

/** One process requests a new token for all processes. */
async function sharedAccess(
  context: Refreshing,
  declaration: IntegrationDeclaration,
  granting: GrantDeclaration<unknown>,
  first: LiveRow,
  firstKept: KeptCredential<unknown>,
): Promise<Access | NoAccess> {
  let [row, kept] = [first, firstKept]
  const end = performance.now() + patienceMilliseconds
  for (let pause = firstPause; ; pause = Math.min(pause * 2, longestPause)) {
    if (row.is_fresh && kept.accessToken !== null)
      return sharedToken(context.db, row, kept.accessToken, false)
    const asked = presentMoment()
    const lease = await claim(context.db, row)
    if (lease !== null) {
      const outgoing = soonAfter(asked, context.outgoing)
      return refresh({ ...context, outgoing }, declaration, granting, { ...row, lease }, kept)
    }
    if (performance.now() > end)
      throw new TokenServerAway('another process has asked for a new access token and has no answer yet')
    await new Promise((resolve) => setTimeout(resolve, pause))
    const next = await context.db
      .selectFrom('connections')
      .selectAll()
      .select(isFresh)
      .where('id', '=', row.id)
      .executeTakeFirst()
    if (next === undefined || next.status === 'revoked') return 'gone'
    if (next.status === 'expired') return 'expired'
    if (next.generation === row.generation) continue
    const owner = { organizationId: next.organization_id, connectionId: next.id }
    const read = readKept(declaration, await context.secrets.read(owner, next))
    if (read === null) return 'expired'
    ;[row, kept] = [next, read]
  }
}

async function refresh(
  context: Refreshing,
  declaration: IntegrationDeclaration,
  granting: GrantDeclaration<unknown>,
  row: ConnectionRow & { readonly lease: string },
  { credential, scopes }: KeptCredential<unknown>,
): Promise<Access | NoAccess> {
  try {
    const grant = granting.of(credential, context.config.connections)
    if (grant.kind !== 'refresh_token') throw new GrantRefused('it has no refresh token')
    const tokens = await refreshTokens(context.outgoing, withClient(grant))
    const { accessToken, refreshToken } = tokens
    const next = refreshToken === null ? credential : granting.renewed(credential, refreshToken)
    const owner = { organizationId: row.organization_id, connectionId: row.id }
    const granted = tokens.scopes ?? scopes
    const text = keptText(declaration, { credential: next, accessToken, scopes: granted })
    const kept = await context.secrets.replace(owner, text, row)
    const saved = await context.db
      .updateTable('connections')
      .set({
        ...kept,
        lacking: lackingTools(declaration, granted),
        generation: row.generation + 1,
        access_fresh_until: sql<Date>`clock_timestamp() + make_interval(secs => ${freshSecondsOf(tokens)})`,
        refreshing_until: null,
      })
      .where('id', '=', row.id)
      .where('status', '=', 'active')
      .where('generation', '=', row.generation)
      .returningAll()
      .executeTakeFirst()
    return saved === undefined
      ? await changedMeanwhile(context.db, row)
      : sharedToken(context.db, saved, accessToken, true)
  } catch (error) {
    await release(context.db, row)
    return expiredOr(context, row, error)
  }
}

/** Expires the connection if the server no longer accepts the credential. Throws every other error. */
async function expiredOr(context: Refreshing, row: ConnectionRow, error: unknown): Promise<NoAccess> {
  if (!(error instanceof GrantRefused) || !endsCredential.has(error.code)) throw error
  await expireConnection(context, row, row.generation)
  return changedMeanwhile(context.db, row)
}

/** Throws TokenServerAway if it is still active: the credential was replaced, so the call may work later. */
async function changedMeanwhile(db: Db, { id }: ConnectionRow): Promise<NoAccess> {
  const row = await db.selectFrom('connections').select('status').where('id', '=', id).executeTakeFirst()
  if (row === undefined || row.status === 'revoked') return 'gone'
  if (row.status === 'expired') return 'expired'
  throw new TokenServerAway('the credential was replaced meanwhile')
}

/** The credential can never work again: the grant or key was ended, or the private key cannot be read. */
const endsCredential: ReadonlySet<string> = new Set(['invalid_grant', 'invalid_key'])

function sharedToken(db: Db, { id, generation }: ConnectionRow, token: string, isNew: boolean): Access {
  return {
    token,
    isNew,
    async drop() {
      await db
        .updateTable('connections')
        .set({ access_fresh_until: null })
        .where('id', '=', id)
        .where('generation', '=', generation)
        .execute()
    },
  }
}

/** After this time, another process may ask the server. The requests to it and to the secrets backend take less. */
const leaseSeconds = 45
/** Milliseconds from the claim. A later request could outlast the lease. */
const mostBeforeSending = 20_000

/** The end of the lease as text, because a Date has no microseconds; null if another process was faster. */
async function claim(db: Db, { id, generation }: ConnectionRow): Promise<string | null> {
  const claimed = await db
    .updateTable('connections')
    .set({ refreshing_until: sql<Date>`clock_timestamp() + make_interval(secs => ${leaseSeconds})` })
    .where('id', '=', id)
    .where('status', '=', 'active')
    .where('generation', '=', generation)
    .where(sql<boolean>`coalesce(refreshing_until < clock_timestamp(), true)`)
    .where(sql<boolean>`coalesce(access_fresh_until <= clock_timestamp(), true)`)
    .returning(sql<string>`refreshing_until::text`.as('lease'))
    .executeTakeFirst()
  return claimed?.lease ?? null
}

/** Throws if the claim is too old: a process that stood still could send a token that another one has used. */
const soonAfter = (asked: Moment, outgoing: Outgoing): Outgoing => ({
  ...outgoing,
  fetchWithin: (bounds) =>
    outgoing.fetchWithin({
      ...bounds,
      beforeSending() {
        bounds.beforeSending?.()
        if (millisecondsSince(asked) > mostBeforeSending)
          throw new TokenServerAway('this process stood still before it asked for a new access token')
      },
    }),
})

/**
 * Ends the lease, so that the next call can ask at once. If this process stood still and another one has the lease now,
 * it stays. If the database does not answer, the lease expires by itself.
 */
async function release(
  db: Db,
  { id, lease }: { readonly id: string; readonly lease: string },
): Promise<void> {
  await db
    .updateTable('connections')
    .set({ refreshing_until: null })
    .where('id', '=', id)
    .where(sql<boolean>`refreshing_until = ${lease}::timestamptz`)
    .execute()
    .catch(() => undefined)
}
