import { createHash, randomBytes, randomUUID } from 'node:crypto'
import { isIP } from 'node:net'
import { verifyAuthenticationResponse, verifyRegistrationResponse } from '@simplewebauthn/server'
import { decodeAttestationObject } from '@simplewebauthn/server/helpers'
import { sql, type Transaction } from 'kysely'
import { z } from 'zod'
import { newId } from '../../contract/ids.ts'
import { isDuplicate } from '../../db/errors.ts'
import type { Database, Db } from '../../db/schema/index.ts'
import { bareHost } from '../../shared/outgoing/hosts.ts'
import { publicBase, type Config } from '../../shared/config.ts'
import { confirmFirst } from '../access/address-proof.ts'
import { isWithFactor } from '../access/second-factor.ts'
import type { Configured } from '../context.ts'
import { DomainError, errorAt, notFound } from '../errors.ts'

/*
 * Passkeys (WebAuthn). The authenticator checks who the person is, so a passkey is both factors at once. The server keeps
 * the public key only, and believes nothing that an authenticator says about its make.
 */

export const mostPasskeys = 10
export const challengeSeconds = 300

const text = z.string().max(2_048)
const credential = { id: text, rawId: text, type: z.literal('public-key') }
/** What `PublicKeyCredential.toJSON()` gives after `navigator.credentials.create()`. */
export const newCredential = z.object({
  ...credential,
  response: z.object({ clientDataJSON: text, attestationObject: z.string().max(16_384) }),
})
/** What it gives after `navigator.credentials.get()`. */
export const usedCredential = z.object({
  ...credential,
  response: z.object({ clientDataJSON: text, authenticatorData: text, signature: text, userHandle: text }),
})

/** Passkeys belong to the name in the public address. Throws `conflict` if it is an IP address. */
function placeOf(config: Config): { readonly expectedOrigin: string; readonly expectedRPID: string } {
  const { origin, hostname } = new URL(publicBase(config))
  if (isIP(bareHost(hostname)) === 0) return { expectedOrigin: origin, expectedRPID: hostname }
  throw new DomainError(
    'conflict',
    `Passkeys need an address with a name, and this service is at ${hostname}: ask the operator to set PUBLIC_URL`,
  )
}

/** The options of `navigator.credentials.get()`, as JSON. They name nobody, so they are the same for everybody. */
export async function beginPasskeySignIn({ config, db }: Configured) {
  const { expectedRPID: rpId } = placeOf(config)
  const challenge = await keepChallenge(db, forSignIn)
  return { challenge, rpId, userVerification: 'required', timeout: challengeSeconds * 1_000 }
}

/** The options of `navigator.credentials.create()`, as JSON. */
export async function beginPasskey(
  { config, db }: Configured,
  {
    user,
    sessionId,
  }: { readonly user: { id: string; email: string; name: string }; readonly sessionId: string },
) {
  const { expectedRPID: id } = placeOf(config)
  const known = await db
    .selectFrom('auth_passkeys')
    .select('credential_id')
    .where('user_id', '=', user.id)
    .execute()
  requireRoom(known.length)
  return {
    challenge: await keepChallenge(db, sessionId),
    rp: { id, name: 'Countersign' },
    user: { id: handleOf(user.id), name: user.email, displayName: user.name },
    pubKeyCredParams: algorithms.map((alg) => ({ type: 'public-key', alg })),
    authenticatorSelection: {
      residentKey: 'required',
      requireResidentKey: true,
      userVerification: 'required',
    },
    attestation: 'none',
    excludeCredentials: known.map((each) => ({ type: 'public-key', id: each.credential_id })),
    timeout: challengeSeconds * 1_000,
  }
}

/** EdDSA, ES256 and RS256. */
const algorithms = [-8, -7, -257]

const handleOf = (userId: string): string => Buffer.from(userId).toString('base64url')

function requireRoom(count: number): void {
  if (count < mostPasskeys) return
  throw new DomainError('conflict', `you have ${mostPasskeys} passkeys: remove one first`)
}

const forSignIn = 'sign-in'

/** `use`: the sign-in, or the session that adds a passkey. */
async function keepChallenge(db: Db, use: string): Promise<string> {
  const challenge = randomBytes(32).toString('base64url')
  await sql`insert into auth_verifications (id, identifier, value, expires_at) values (${randomUUID()},
    ${identifierOf(challenge)}, ${use}, clock_timestamp() + make_interval(secs => ${challengeSeconds}))`.execute(
    db,
  )
  return challenge
}

const identifierOf = (challenge: string): string =>
  `passkey ${createHash('sha256').update(challenge).digest('hex')}`

/** Each challenge counts once, because its row is deleted first, whatever comes of it. */
async function takeChallenge(db: Db, challenge: string | null, use: string): Promise<string | null> {
  if (challenge === null) return null
  const { rows } = await sql<{ value: string; is_live: boolean }>`
    delete from auth_verifications where identifier = ${identifierOf(challenge)}
    returning value, expires_at > clock_timestamp() as is_live`.execute(db)
  return rows[0]?.is_live === true && rows[0].value === use ? challenge : null
}

/** The same for every reason, so that nobody learns about accounts. */
const refused = (): DomainError =>
  new DomainError(
    'unauthenticated',
    'this passkey opens no account here, or its request has ended: try again, or sign in in another way',
  )

/** What a library that reads the bytes of strangers makes of them. Every error is a refusal. */
async function verified<T>(read: () => Promise<T>): Promise<T> {
  try {
    return await read()
  } catch {
    throw refused()
  }
}

/**
 * Who signs in with this passkey. `challenge` comes from the cookie of the browser that began. A counter that does not
 * grow is refused: the passkey was copied. Throws `unauthenticated`.
 */
export async function provePasskey(
  { config, db }: Configured,
  given: z.output<typeof usedCredential>,
  challenge: string | null,
): Promise<{ readonly userId: string; readonly passkeyId: string }> {
  const expectedChallenge = await takeChallenge(db, challenge, forSignIn)
  const known = await db
    .selectFrom('auth_passkeys')
    .select(['id', 'user_id', 'credential_id', 'public_key', 'counter'])
    .where('credential_id', '=', given.id)
    .executeTakeFirst()
  if (expectedChallenge === null || known === undefined) throw refused()
  if (given.response.userHandle !== handleOf(known.user_id)) throw refused()
  const { id, user_id: userId, public_key: publicKey, credential_id: credentialId } = known
  const { authenticationInfo, verified: isRight } = await verified(() =>
    verifyAuthenticationResponse({
      response: { ...given, clientExtensionResults: {} },
      expectedChallenge,
      ...placeOf(config),
      credential: { id: credentialId, publicKey: new Uint8Array(publicKey), counter: known.counter },
      requireUserVerification: true,
    }),
  )
  if (!isRight) throw refused()
  const { newCounter: counter } = authenticationInfo
  // Again, because another process may have taken the same counter meanwhile.
  const { numUpdatedRows } = await db
    .updateTable('auth_passkeys')
    .set({ counter, last_used_at: sql<Date>`clock_timestamp()` })
    .where('id', '=', id)
    .where(sql<boolean>`(counter < ${counter} or (counter = 0 and ${counter} = 0))`)
    .executeTakeFirstOrThrow()
  if (numUpdatedRows === 0n) throw refused()
  return { userId, passkeyId: id }
}

/** Ends a new session whose passkey was removed meanwhile, and returns whether it did. A later removal ends it itself. */
export async function endIfPasskeyRemoved(db: Db, passkeyId: string, token: string): Promise<boolean> {
  const row = await db
    .selectFrom('auth_passkeys')
    .select('id')
    .where('id', '=', passkeyId)
    .forShare()
    .executeTakeFirst()
  if (row !== undefined) return false
  await sql`delete from auth_sessions where token = ${token}`.execute(db)
  return true
}

interface Owner {
  readonly userId: string
  readonly sessionId: string
}

/**
 * Runs `work` while the row of the person is locked, if the session still may change the account: a new password has
 * ended it, and a factor that was added meanwhile must have opened it. Throws `unauthenticated`, `conflict`.
 */
async function asOwner<T>(
  db: Db,
  { userId, sessionId }: Owner,
  work: (trx: Transaction<Database>, person: { readonly hasFactor: boolean }) => Promise<T>,
): Promise<T> {
  return db.transaction().execute(async (trx) => {
    const user = await trx
      .selectFrom('users')
      .select(['email_verified', 'two_factor_enabled as hasFactor'])
      .where('id', '=', userId)
      .forNoKeyUpdate()
      .executeTakeFirstOrThrow()
    const { rows } = await sql<{ opened_with: string; provider_organization: string | null }>`
      select opened_with, provider_organization from auth_sessions
      where id = ${sessionId} and user_id = ${userId} for share`.execute(trx)
    const [session] = rows
    const isProven = session !== undefined && (!user.hasFactor || isWithFactor(session.opened_with))
    if (!isProven || session.provider_organization !== null)
      throw new DomainError(
        'unauthenticated',
        'this session has ended, or may not change the account: sign in again',
      )
    if (!user.email_verified) throw new DomainError('conflict', confirmFirst)
    return work(trx, user)
  })
}

/**
 * `isFirst`: the passkey is the person's first second factor, so all sessions have ended. Throws `unauthenticated`,
 * `conflict`.
 */
export async function addPasskey(
  { config, db }: Configured,
  owner: Owner,
  {
    name,
    credential: given,
    challenge,
  }: { name: string; credential: z.output<typeof newCredential>; challenge: string | null },
): Promise<{ readonly id: string; readonly isFirst: boolean }> {
  const expectedChallenge = await takeChallenge(db, challenge, owner.sessionId)
  if (expectedChallenge === null || !saysNothing(given.response.attestationObject)) throw refused()
  const { verified: isRight, registrationInfo } = await verified(() =>
    verifyRegistrationResponse({
      response: { ...given, clientExtensionResults: {} },
      expectedChallenge,
      ...placeOf(config),
      requireUserVerification: true,
      supportedAlgorithmIDs: algorithms,
    }),
  )
  if (!isRight) throw refused()
  const { id: credentialId, publicKey, counter } = registrationInfo.credential
  const id = newId('passkey')
  const add = () =>
    asOwner(db, owner, async (trx, { hasFactor }) => {
      const { count } = await trx
        .selectFrom('auth_passkeys')
        .select((eb) => eb.fn.countAll<number>().as('count'))
        .where('user_id', '=', owner.userId)
        .executeTakeFirstOrThrow()
      requireRoom(count)
      await trx
        .insertInto('auth_passkeys')
        .values({
          id,
          user_id: owner.userId,
          credential_id: credentialId,
          public_key: Buffer.from(publicKey),
          counter,
          name,
          created_at: sql<Date>`clock_timestamp()`,
        })
        .execute()
      return { id, isFirst: !hasFactor }
    })
  return add().catch((error: unknown) => {
    throw isDuplicate(error) ? errorAt('conflict', 'credential', 'this passkey was added already') : error
  })
}

/** Without certificates: the library would follow addresses that strangers write into them. */
function saysNothing(attestation: string): boolean {
  try {
    const read = decodeAttestationObject(new Uint8Array(Buffer.from(attestation, 'base64url')))
    const format = read.get('fmt')
    return format === 'none' || (format === 'packed' && read.get('attStmt').get('x5c') === undefined)
  } catch {
    return false
  }
}

export interface PasskeyView {
  readonly id: string
  readonly name: string
  readonly created_at: Date
  readonly last_used_at: Date | null
}

export interface Factors {
  readonly passkeys: readonly PasskeyView[]
  readonly authenticator_app: boolean
}

export async function listFactors(db: Db, userId: string): Promise<Factors> {
  const passkeys = await db
    .selectFrom('auth_passkeys')
    .select(['id', 'name', 'created_at', 'last_used_at'])
    .where('user_id', '=', userId)
    .orderBy('id')
    .execute()
  const { rows } = await sql`select from auth_two_factors where user_id = ${userId} and verified`.execute(db)
  return { passkeys, authenticator_app: rows.length > 0 }
}

/** Throws `not_found`. */
export async function renamePasskey(
  { db }: Configured,
  owner: Owner,
  { id, name }: { id: string; name: string },
) {
  await asOwner(db, owner, async (trx) => {
    const { numUpdatedRows } = await trx
      .updateTable('auth_passkeys')
      .set({ name })
      .where('id', '=', id)
      .where('user_id', '=', owner.userId)
      .executeTakeFirstOrThrow()
    if (numUpdatedRows === 0n) throw notFound('passkey', id)
  })
}

/**
 * Ends the other sessions that a passkey has opened: the device may be lost. Returns the name of the passkey. Throws
 * `not_found`.
 */
export async function removePasskey({ db }: Configured, owner: Owner, id: string): Promise<string> {
  return asOwner(db, owner, async (trx) => {
    // The lock comes first: a sign-in that is under way sees the removal, or its session is ended here.
    const passkey = await trx
      .selectFrom('auth_passkeys')
      .select('name')
      .where('id', '=', id)
      .where('user_id', '=', owner.userId)
      .forUpdate()
      .executeTakeFirst()
    if (passkey === undefined) throw notFound('passkey', id)
    await sql`delete from auth_sessions where user_id = ${owner.userId} and id <> ${owner.sessionId}
      and opened_with = 'passkey'`.execute(trx)
    await trx.deleteFrom('auth_passkeys').where('id', '=', id).execute()
    return passkey.name
  })
}
