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
 * A server may accept each refresh token only once. So exactly one process asks for a new access token. This process
 * claims the connection's row for a limited time (the lease). While the server answers, the process needs no lock and
 * no database connection. The other processes wait and read the row again. The new tokens are committed before they are
 * used.
 */

export interface Refreshing {
  readonly db: Db
  readonly config: Pick<Config, 'connections'>
  readonly outgoing: Outgoing
  readonly secrets: Secrets
  readonly combiner: Combiner
  readonly accessTokens: TokenCache
}

/** An access token for one call. */
export interface Access {
  readonly token: string
  /** Whether the token was made for this call. */
  readonly isNew: boolean
  /**
   * Forgets the token, so that the next call gets another token. Call this method after the service has refused the
   * token.
   */
  drop(): Promise<void>
}

/** The reason why a call has no access token. `gone` means that the connection was revoked. */
export type NoAccess = 'gone' | 'expired'

/** A call waits at most this long for a token that another process has requested. */
const patienceMilliseconds = 20_000
const [firstPause, longestPause] = [50, 500]

/**
 * Returns for how many seconds a token is used. The last minute of the token's life is not used. If the life is shorter
 * than four minutes, its last quarter is not used. Example: a token that lives for 100 seconds is used for 75 seconds.
 */
export const freshSecondsOf = ({ expiresInSeconds }: Tokens): number =>
  expiresInSeconds - Math.min(60, expiresInSeconds / 4)

/** A credential with its first access token. */
export interface FirstAccess {
  readonly credential: unknown
  /**
   * Is null for an integration without a grant. Is also null for a service account, because each process requests its
   * own access tokens for a service account.
   */
  readonly accessToken: string | null
  readonly freshSeconds: number
  /** The rights that the server has named. Is null if the server named no rights. */
  readonly scopes: readonly string[] | null
}

/** A connection's row as a call reads it. */
export type LiveRow = ConnectionRow & { readonly is_fresh: boolean }
/** Whether the stored access token may still be used, according to the database's clock. */
export const isFresh = sql<boolean>`coalesce(access_fresh_until > clock_timestamp(), false)`.as('is_fresh')

type RefreshGrant = Extract<Grant, { kind: 'refresh_token' }>

/** Returns the grant with its OAuth client. Throws GrantRefused if the grant has no client. */
export function withClient(grant: RefreshGrant): RefreshGrant & { readonly client: OAuthClient } {
  const { client } = grant
  if (client === null) throw new GrantRefused('invalid_client')
  return { ...grant, client }
}

/**
 * Returns an access token for one call of `tool`, or the reason why there is none. Throws RightsMissing,
 * TokenServerAway, SecretsUnavailable. Throws GrantRefused if the server refuses for another reason than the
 * credential.
 */
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

/**
 * Returns the row's access token if the token is fresh. Otherwise, returns a new token. One process requests the new
 * token for all processes.
 */
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

/** Asks the server for new tokens, and commits them before they are used. */
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

/**
 * If the server no longer accepts the credential, marks the connection as expired and returns the reason. Throws every
 * other error.
 */
async function expiredOr(context: Refreshing, row: ConnectionRow, error: unknown): Promise<NoAccess> {
  if (!(error instanceof GrantRefused) || !endsCredential.has(error.code)) throw error
  await expireConnection(context, row, row.generation)
  return changedMeanwhile(context.db, row)
}

/**
 * Returns why a call gets no access token. Returns `gone` if the connection was revoked, and `expired` if its
 * credential has expired. Throws TokenServerAway if the connection is still active. In this case its credential was
 * replaced meanwhile, so the call may work later.
 */
async function changedMeanwhile(db: Db, { id }: ConnectionRow): Promise<NoAccess> {
  const row = await db.selectFrom('connections').select('status').where('id', '=', id).executeTakeFirst()
  if (row === undefined || row.status === 'revoked') return 'gone'
  if (row.status === 'expired') return 'expired'
  throw new TokenServerAway('the credential was replaced meanwhile')
}

/**
 * Error codes after which the credential can never work again. `invalid_grant` means that the person or the service has
 * ended the grant or the key. `invalid_key` means that the private key cannot be read.
 */
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

/* A lease is the right to ask the authorization server for a new access token of a connection (access-token.ts). */

/**
 * The length of the lease. After this time, another process may ask the server for a token. The requests to the server
 * and to the secrets backend take less time.
 */
const leaseSeconds = 45
/**
 * A request to the server begins at most this many milliseconds after the claim. A later request could outlast the
 * lease.
 */
const mostBeforeSending = 20_000

/**
 * Claims the right to ask for a new access token. Returns the end of the lease. Returns null if another process has
 * this right, or if the row has changed. The end is text, because a Date of JavaScript has no microseconds.
 */
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

/**
 * Returns an Outgoing whose requests throw if too much time has passed since the claim. Without this check, a process
 * that stood still could send a refresh token that another process has used meanwhile.
 */
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
 * Ends the lease, so that the next call can ask the server at once. This process may have stood still until its lease
 * was over. Another process may then have a lease, and that lease stays. If the database does not answer, the lease
 * expires by itself.
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
