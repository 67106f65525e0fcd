import { sql, type Insertable } from 'kysely'
import { advisoryLocks } from '../../db/advisory-locks.ts'
import type { Db } from '../../db/schema/index.ts'
import type { Changing } from '../context.ts'
import { newId } from '../../contract/ids.ts'
import type { Role } from '../../policy/types.ts'
import type { ChainTx } from '../audit/chain-tx.ts'
import { connectEverything } from '../tools/connections.ts'
import { hashApiKey, newApiKey } from '../access/identity.ts'
import { scopesOfRole } from '../access/scopes.ts'
import { DomainError } from '../errors.ts'
import { randomBytes, scrypt } from 'node:crypto'
import type { AuthAccountsTable } from '../../db/schema/identity.ts'

/** `approver` is a second admin. */
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

/** The database has only hashes, so passwords and keys are shown once. */
export interface BootstrapIdentities {
  readonly organization_id: string
  readonly users: Readonly<Record<BootstrapName, BootstrapUser>>
  readonly agent_key: string
}

interface NewPerson {
  readonly user_id: string
  readonly email: string
  readonly name?: string
  readonly role: Role
  readonly passwordHash: string
}
type Person = BootstrapUser & NewPerson & { readonly name: BootstrapName }

/**
 * The first organization (plan `enterprise`) with its five people, their keys and an agent key; null if one with
 * members exists. `save` is called before the commit: after a crash in between, the saved secrets are useless and the
 * next start makes new ones. In the reverse order, they would be lost.
 */
export async function bootstrapIdentities(
  context: Changing,
  save: (identities: BootstrapIdentities) => Promise<void> = async () => {},
): Promise<BootstrapIdentities | null> {
  const organizationId = await emptyOrganization(context.db)
  if (organizationId === null) return null
  const people = await Promise.all((Object.keys(bootstrapRoles) as BootstrapName[]).map(newPerson))
  return context.combiner.run(organizationId, 'org.change', async (tx) => {
    if (await hasMembers(tx)) return null
    const named = (name: BootstrapName) => people.find((person) => person.name === name) as Person
    await addPeople(tx, 'bootstrap', people, named('owner'))
    for (const person of people)
      await addKey(tx, person, 'bootstrap', scopesOfRole(person.role), person.api_key)
    const agent = newApiKey().secret
    await addKey(tx, named('member'), 'agents', ['agents:authorize'], agent)
    const identities = describe(organizationId, people, agent)
    await save(identities)
    return identities
  })
}

/** One that an interrupted start left, or a new one. null if the first has members. Personal ones do not count. */
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
    role: bootstrapRoles[name],
    password,
    passwordHash: await hashPassword(password),
    api_key: newApiKey().secret,
  }
}

async function hasMembers(tx: ChainTx): Promise<boolean> {
  const member = await tx.trx
    .selectFrom('memberships')
    .select('user_id')
    .where('organization_id', '=', tx.organizationId)
    .limit(1)
    .executeTakeFirst()
  return member !== undefined
}

/** Inserts the first people of the organization, with its first audit entry. */
async function addPeople(
  tx: ChainTx,
  program: string,
  people: readonly NewPerson[],
  owner: NewPerson,
): Promise<void> {
  const users = people.map(({ user_id: id, email, name }) => ({
    id,
    email,
    ...(name === undefined ? {} : { name }),
    email_verified: true,
  }))
  const accounts = people.map((person) => passwordAccount(person.user_id, person.passwordHash))
  const memberships = people.map(({ user_id, role }) => ({
    organization_id: tx.organizationId,
    user_id,
    role,
  }))
  await tx.trx.insertInto('users').values(users).execute()
  await tx.trx.insertInto('auth_accounts').values(accounts).execute()
  await tx.trx.insertInto('memberships').values(memberships).execute()
  tx.append({
    eventType: 'organization.created',
    action: 'create',
    actor: { type: 'system', id: program },
    metadata: { plan: 'enterprise', owner_id: owner.user_id, ...(await connectEverything(tx)) },
  })
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

export type CreatedOwner = BootstrapUser & { readonly organization_id: string }

/** For installations without a `bootstrap.json`. Throws `conflict` if one has members: its owners can invite. */
export async function createOwner(
  context: Changing,
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
    if (await hasMembers(tx)) throw taken
    const person = { ...owner, role: 'owner', passwordHash } as const
    await addPeople(tx, 'create-owner', [person], person)
    await addKey(tx, owner, 'first owner', scopesOfRole('owner'), owner.api_key)
    return { organization_id: organizationId, password, ...owner }
  })
}

const cost = { N: 16_384, r: 16, p: 1 } as const

/** `saltHex:keyHex` by scrypt of the NFKC form. The salt is the hex text itself, as the sign-in library expects. */
export async function hashPassword(password: string): Promise<string> {
  const salt = randomBytes(16).toString('hex')
  const key = await new Promise<Buffer>((resolve, reject) => {
    scrypt(
      password.normalize('NFKC'),
      salt,
      64,
      { ...cost, maxmem: 256 * cost.N * cost.r },
      (error, derived) => (error === null ? resolve(derived) : reject(error)),
    )
  })
  return `${salt}:${key.toString('hex')}`
}

/** As the sign-in library expects it. */
function passwordAccount(userId: string, password: string): Insertable<AuthAccountsTable> {
  return { id: userId, account_id: userId, provider_id: 'credential', user_id: userId, password }
}

/** 24 characters, 144 random bits. */
export function newPassword(): string {
  return randomBytes(18).toString('base64url')
}
