import { sql, type Insertable } from 'kysely'
import { advisoryLocks } from '../../db/advisory-locks.ts'
import type { Db } from '../../db/schema/index.ts'
import type { Context } from '../context.ts'
import { newId } from '../../contract/ids.ts'
import type { Role } from '../../policy/types.ts'
import type { ChainTx } from '../audit/chain-tx.ts'
import { connectEverything } from '../tools/connections.ts'
import { hashApiKey, newApiKey } from '../access/identity.ts'
import { scopesOfRole } from '../access/scopes.ts'
import { DomainError } from '../errors.ts'
import { randomBytes, scrypt } from 'node:crypto'
import type { AuthAccountsTable } from '../../db/schema/identity.ts'

/** The five people of a new installation; `approver` is a second admin. */
export const bootstrapRoles = {
  owner: 'owner',
  admin: 'admin',
  approver: 'admin',
  member: 'member',
  viewer: 'viewer',
} as const satisfies Record<string, Role>
export type BootstrapName = keyof typeof bootstrapRoles

export interface BootstrapUser {
  readonly user_id: string
  readonly email: string
  readonly password: string
  readonly api_key: string
}

/** The new identities. Passwords and keys are shown only once, because the database stores only hashes. */
export interface BootstrapIdentities {
  readonly organization_id: string
  readonly users: Readonly<Record<BootstrapName, BootstrapUser>>
  readonly agent_key: string
}

interface Person extends BootstrapUser {
  readonly name: BootstrapName
  readonly passwordHash: string
}

/**
 * Creates the first organization (plan `enterprise`) with its five people, their keys and an agent key. Returns null if
 * an organization with members exists. `save` is called before the commit. After a crash between `save` and the commit,
 * the saved secrets are useless, and the next start makes new ones. In the reverse order, a crash would lose the
 * secrets.
 */
export async function bootstrapIdentities(
  context: Pick<Context, 'combiner' | 'db'>,
  save: (identities: BootstrapIdentities) => Promise<void> = async () => {},
): Promise<BootstrapIdentities | null> {
  const organizationId = await emptyOrganization(context.db)
  if (organizationId === null) return null
  const people = await Promise.all((Object.keys(bootstrapRoles) as BootstrapName[]).map(newPerson))
  return context.combiner.run(organizationId, 'org.change', async (tx) => {
    const taken = await tx.trx
      .selectFrom('memberships')
      .select('user_id')
      .where('organization_id', '=', organizationId)
      .executeTakeFirst()
    if (taken !== undefined) return null
    const { owner } = await insertPeople(tx, people)
    tx.append({
      eventType: 'organization.created',
      action: 'create',
      actor: { type: 'system', id: 'bootstrap' },
      metadata: { plan: 'enterprise', owner_id: owner, ...(await connectEverything(tx)) },
    })
    for (const person of people)
      await addKey(tx, person, 'bootstrap', scopesOfRole(bootstrapRoles[person.name]), person.api_key)
    const agent = newApiKey().secret
    await addKey(
      tx,
      people.find((person) => person.name === 'member') as Person,
      'agents',
      ['agents:authorize'],
      agent,
    )
    const identities = describe(organizationId, people, agent)
    await save(identities)
    return identities
  })
}

/**
 * Returns the id of the first organization if it has no members yet. An interrupted start may have left it behind. If
 * there is no organization, makes one with this name. Returns null if the first organization has members. Personal
 * organizations do not count.
 */
async function emptyOrganization(db: Db, name = 'Countersign'): Promise<string | null> {
  return db.transaction().execute(async (trx) => {
    await sql`select pg_advisory_xact_lock(${advisoryLocks.bootstrap})`.execute(trx)
    const { rows } = await sql<{ id: string; members: boolean }>`
      select id, exists (select 1 from memberships where organization_id = o.id) as members
      from organizations as o where not personal order by id limit 1`.execute(trx)
    const [first] = rows
    if (first !== undefined) return first.members ? null : first.id
    const id = newId('organization')
    await trx.insertInto('organizations').values({ id, name, plan: 'enterprise', settings: '{}' }).execute()
    await trx.insertInto('chain_head').values({ organization_id: id, frozen: null }).execute()
    return id
  })
}

async function newPerson(name: BootstrapName): Promise<Person> {
  const password = newPassword()
  return {
    name,
    user_id: newId('user'),
    email: `${name}@countersign.test`,
    password,
    passwordHash: await hashPassword(password),
    api_key: newApiKey().secret,
  }
}

async function insertPeople(tx: ChainTx, people: readonly Person[]): Promise<{ owner: string }> {
  await tx.trx
    .insertInto('users')
    .values(
      people.map((person) => ({
        id: person.user_id,
        email: person.email,
        name: person.name,
        email_verified: true,
      })),
    )
    .execute()
  await tx.trx
    .insertInto('auth_accounts')
    .values(people.map((person) => passwordAccount(person.user_id, person.passwordHash)))
    .execute()
  await tx.trx
    .insertInto('memberships')
    .values(
      people.map((person) => ({
        organization_id: tx.organizationId,
        user_id: person.user_id,
        role: bootstrapRoles[person.name],
      })),
    )
    .execute()
  return { owner: people.find((person) => person.name === 'owner')?.user_id ?? '' }
}

async function addKey(
  tx: ChainTx,
  person: { readonly user_id: string },
  name: string,
  scopes: readonly string[],
  secret: string,
): Promise<void> {
  const id = newId('key')
  await tx.trx
    .insertInto('api_keys')
    .values({
      id,
      organization_id: tx.organizationId,
      user_id: person.user_id,
      name,
      hash: hashApiKey(secret),
      last4: secret.slice(-4),
      scopes: [...scopes],
      created_by: null,
      expires_at: null,
      revoked_at: null,
      last_used_at: null,
    })
    .execute()
  tx.append({
    eventType: 'api_key.created',
    action: 'create',
    actor: { type: 'system', id: 'bootstrap' },
    metadata: { key_id: id, key_user_id: person.user_id, scopes: [...scopes] },
  })
}

function describe(organizationId: string, people: readonly Person[], agentKey: string): BootstrapIdentities {
  const users = Object.fromEntries(
    people.map(({ name, user_id, email, password, api_key }) => [
      name,
      { user_id, email, password, api_key },
    ]),
  ) as Record<BootstrapName, BootstrapUser>
  return { organization_id: organizationId, users, agent_key: agentKey }
}

export interface CreatedOwner {
  readonly organization_id: string
  readonly user_id: string
  readonly email: string
  /** The password and the key are shown only once, because the database stores only their hashes. */
  readonly password: string
  readonly api_key: string
}

/**
 * Creates the first organization with one owner. The owner gets a key with every scope of the role. This is for
 * installations without a `bootstrap.json`. Throws `conflict` if an organization has members, because its owners can
 * invite others.
 */
export async function createOwner(
  context: Pick<Context, 'combiner' | 'db'>,
  request: { readonly email: string; readonly organizationName: string },
): Promise<CreatedOwner> {
  const organizationId = await emptyOrganization(context.db, request.organizationName)
  const taken = new DomainError(
    'conflict',
    'an organization with members already exists: ask one of its owners to invite you',
  )
  if (organizationId === null) throw taken
  const password = newPassword()
  const passwordHash = await hashPassword(password)
  const owner = { user_id: newId('user'), email: request.email.toLowerCase(), api_key: newApiKey().secret }
  return context.combiner.run(organizationId, 'org.change', async (tx) => {
    const member = await tx.trx
      .selectFrom('memberships')
      .select('user_id')
      .where('organization_id', '=', organizationId)
      .limit(1)
      .executeTakeFirst()
    if (member !== undefined) throw taken
    await tx.trx
      .insertInto('users')
      .values({ id: owner.user_id, email: owner.email, email_verified: true })
      .execute()
    await tx.trx.insertInto('auth_accounts').values(passwordAccount(owner.user_id, passwordHash)).execute()
    await tx.trx
      .insertInto('memberships')
      .values({ organization_id: organizationId, user_id: owner.user_id, role: 'owner' })
      .execute()
    tx.append({
      eventType: 'organization.created',
      action: 'create',
      actor: { type: 'system', id: 'create-owner' },
      metadata: { plan: 'enterprise', owner_id: owner.user_id, ...(await connectEverything(tx)) },
    })
    await addKey(tx, owner, 'first owner', scopesOfRole('owner'), owner.api_key)
    return { organization_id: organizationId, password, ...owner }
  })
}

const cost = { N: 16_384, r: 16, p: 1 } as const
const keyLength = 64

/**
 * Returns `saltHex:keyHex`. The key is made by scrypt (N=16384, r=16, p=1) from the password in NFKC form. The salt for
 * scrypt is the hex text itself, not the bytes that it encodes, because the sign-in library expects this.
 */
export async function hashPassword(password: string): Promise<string> {
  const salt = randomBytes(16).toString('hex')
  const key = await new Promise<Buffer>((resolve, reject) => {
    scrypt(
      password.normalize('NFKC'),
      salt,
      keyLength,
      { ...cost, maxmem: 256 * cost.N * cost.r },
      (error, derived) => (error === null ? resolve(derived) : reject(error)),
    )
  })
  return `${salt}:${key.toString('hex')}`
}

/**
 * Returns an account row with the values that the sign-in library expects. `password` is the result of `hashPassword`.
 */
function passwordAccount(userId: string, password: string): Insertable<AuthAccountsTable> {
  return { id: userId, account_id: userId, provider_id: 'credential', user_id: userId, password }
}

/** Returns a new password: 24 characters that encode 144 random bits. */
export function newPassword(): string {
  return randomBytes(18).toString('base64url')
}
