import { createHmac, randomInt } from 'node:crypto'
import { sql, type Selectable } from 'kysely'
import { addTerminalLogin } from '../../db/queries/people.ts'
import type { Db } from '../../db/schema/index.ts'
import type { TerminalLoginsTable } from '../../db/schema/identity.ts'
import { sha256 } from '../../shared/canonical-json.ts'
import type { ChainTx } from '../audit/chain-tx.ts'
import { actorOf, hashApiKey, newApiKey, type Caller } from '../access/identity.ts'
import { runAs, type Acting } from '../access/recheck.ts'
import { scopesOfRole } from '../access/scopes.ts'
import type { Configured } from '../context.ts'
import { DomainError } from '../errors.ts'
import { keepMade, type Once } from '../idempotency.ts'
import { growAs } from '../limits/storage.ts'
import { addKey, type KeyView } from './api-keys.ts'
import { takeGuess, returnGuess } from './guesses.ts'

/*
 * A terminal is signed in with the browser (docs/decisions/0296). It gets a key at once, whose hash is here, and a
 * short code. The key counts from the moment when a signed-in person has compared the code and said yes.
 */

export const codeMinutes = 10
/** Seconds between two questions of a terminal. */
export const pollSeconds = 5
export const keyDays = 30
/** Waiting terminals, of all addresses and of one; a whole /64 of IPv6 is one, as for the limits of the sign-in. */
export const mostOpen = 1_000
export const mostOfAddress = 20

/** No vowels, so that no words arise, and nothing that looks like another letter. */
const letters = 'BCDFGHJKLMNPQRSTVWXZ'
const codeLength = 8

function newCode(): string {
  return Array.from({ length: codeLength }, () => letters[randomInt(letters.length)]).join('')
}

/** `wdjb-mjht` and `WDJB MJHT` are the same. */
const hashOfCode = (code: string): string =>
  sha256(
    `terminal login ${code
      .slice(0, 100)
      .toUpperCase()
      .replaceAll(/[^A-Z]/g, '')}`,
  )

export const shownCode = (code: string): string => `${code.slice(0, 4)}-${code.slice(4)}`

export interface Begun {
  /** The key, which nothing accepts until a person has said yes. */
  readonly secret: string
  readonly code: string
}

/** Throws `quota_exceeded` if too many terminals wait. */
export async function beginTerminalLogin(
  { db }: { readonly db: Db },
  { machine, address }: { readonly machine: string; readonly address: string },
): Promise<Begun> {
  const { secret, hash, last4 } = newApiKey()
  const code = newCode()
  await sql`delete from terminal_logins where expires_at < clock_timestamp()`.execute(db)
  const login = { codeHash: hashOfCode(code), keyHash: hash, last4, machine, address }
  const { rows } = await addTerminalLogin(login, { minutes: codeMinutes, mostOpen, mostOfAddress }).execute(
    db,
  )
  if (rows.length === 0)
    throw new DomainError(
      'quota_exceeded',
      'too many terminals wait to be signed in: try again in ten minutes',
    )
  return { secret, code }
}

export type LoginState = 'pending' | 'approved' | 'denied' | 'expired'

/** The same for a login that never was and one that has ended. */
export async function terminalLoginState({ db }: { readonly db: Db }, secret: string): Promise<LoginState> {
  const found = await db
    .selectFrom('terminal_logins')
    .select('status')
    .where('key_hash', '=', hashApiKey(secret))
    .where('expires_at', '>', sql<Date>`clock_timestamp()`)
    .executeTakeFirst()
  if (found === undefined) return 'expired'
  return found.status === 'open' ? 'pending' : found.status
}

export interface LoginView {
  readonly machine: string
  readonly address: string
  readonly created_at: string
  readonly expires_at: string
  readonly status: 'open' | 'approved' | 'denied'
}

/** Throws `not_found`, and `quota_exceeded` for a person who has named too many wrong codes. */
export async function readTerminalLogin(
  context: Configured,
  caller: Pick<Caller, 'userId'>,
  code: string,
): Promise<LoginView> {
  return viewOf(await found(context, caller, code))
}

const viewOf = ({ machine, address, created_at, expires_at, status }: Row): LoginView => ({
  machine,
  address,
  created_at: created_at.toISOString(),
  expires_at: expires_at.toISOString(),
  status,
})

type Row = Selectable<TerminalLoginsTable>

async function found(
  { config, db }: Configured,
  { userId }: Pick<Caller, 'userId'>,
  code: string,
): Promise<Row> {
  const guesses = createHmac('sha256', config.sessionSecret).update(`terminal codes ${userId}`).digest('hex')
  const wait = await takeGuess(db, guesses)
  if (wait !== null)
    throw new DomainError(
      'quota_exceeded',
      `too many wrong codes: try again in ${Math.ceil(wait / 60)} minutes`,
      [],
      wait,
    )
  const row = await db
    .selectFrom('terminal_logins')
    .selectAll()
    .where('code_hash', '=', hashOfCode(code))
    .where('expires_at', '>', sql<Date>`clock_timestamp()`)
    .executeTakeFirst()
  if (row === undefined)
    throw new DomainError(
      'not_found',
      'no terminal waits with this code: compare it with the terminal, or run `countersign login` again',
    )
  await returnGuess(db, guesses)
  return row
}

/**
 * Makes the terminal's key one of the caller, with the scopes of their role. Throws `conflict` if somebody has decided
 * it already, and as `createApiKey`.
 */
export async function approveTerminalLogin(
  context: Acting & Configured,
  caller: Caller,
  code: string,
  once: Once | null = null,
): Promise<KeyView> {
  const { code_hash, key_hash: hash, last4, machine, address } = await found(context, caller, code)
  return growAs(context, caller, 'org.change', {
    action: 'create',
    async work(tx, now) {
      const present = await now()
      await lockOpen(tx, code_hash)
      const expiresAt = new Date(tx.now.getTime() + keyDays * 86_400_000)
      const name = `countersign login on ${machine}`
      const scopes = present.keyId === null ? scopesOfRole(present.role) : present.scopes
      const key = await addKey(tx, present, caller, { name, scopes, expiresAt }, { hash, last4 })
      await sql`update terminal_logins set status = 'approved', key_id = ${key.id}
        where code_hash = ${code_hash}`.execute(tx.trx)
      tx.append({
        eventType: 'terminal_login.approved',
        action: 'approve',
        actor: actorOf(caller),
        metadata: { key_id: key.id, machine, address },
      })
      return keepMade(once, tx, key)
    },
  })
}

/** Throws `conflict` if somebody has decided it already. */
export async function denyTerminalLogin(
  context: Acting & Configured,
  caller: Caller,
  code: string,
  once: Once | null = null,
): Promise<LoginView> {
  const row = await found(context, caller, code)
  const { code_hash, machine, address } = row
  return runAs(context, caller, 'org.change', async (tx, now) => {
    await now()
    await lockOpen(tx, code_hash)
    await sql`update terminal_logins set status = 'denied' where code_hash = ${code_hash}`.execute(tx.trx)
    tx.append({
      eventType: 'terminal_login.denied',
      action: 'deny',
      actor: actorOf(caller),
      metadata: { machine, address },
    })
    return keepMade(once, tx, viewOf({ ...row, status: 'denied' }))
  })
}

/** People of two organizations may decide at once, and only the first one does. */
async function lockOpen(tx: ChainTx, codeHash: string): Promise<void> {
  const { rows } = await sql`
    select from terminal_logins
    where code_hash = ${codeHash} and status = 'open' and expires_at > clock_timestamp() for update`.execute(
    tx.trx,
  )
  if (rows.length === 0)
    throw new DomainError(
      'conflict',
      'this login was decided already, or has ended: run `countersign login` again',
    )
}
