import { publicBase } from '../../../src/shared/config.ts'
import type { Context } from '../../../src/governance/context.ts'
import { newApiKey } from '../../../src/governance/access/identity.ts'
import type { Scope } from '../../../src/governance/access/scopes.ts'
import type { Role } from '../../../src/policy/types.ts'
import {
  addKey,
  addPerson,
  enrolPeople,
  everyScope,
  factorCookie,
  sessionCookie,
  addOrganization,
} from '../fixtures.ts'
import type { Person, Place } from './place.ts'

/** The sender of requests, with the headers that identify the sender. */
export interface Caller {
  readonly name: string
  /** null: the service does not know the sender. */
  readonly person: Person | null
  readonly headers: Readonly<Record<string, string>>
  readonly scopes: readonly string[]
  /** The sender's role in each organization. */
  readonly roles: ReadonlyMap<string, Role>
  /** Whether the sender has signed in with a second factor. */
  readonly isSignedIn?: boolean
}

/** A person and their roles. */
export type Standing = Pick<Caller, 'name' | 'roles'> & { readonly person: Person }

const bearer = (secret: string) => ({ authorization: `Bearer ${secret}` })

/**
 * The callers as which this person can send requests to a route that needs these scopes. One has a session with every
 * scope of the role; `Origin` is the address of the service. The others have API keys: one has only the route's scopes,
 * and for each of these scopes, one lacks only this scope.
 */
export async function callersFor(
  context: Context,
  { organizationId }: Place,
  { name, person, roles }: Standing,
  needed: readonly Scope[],
): Promise<Caller[]> {
  const withKey = async (word: string, scopes: readonly string[]): Promise<Caller> => {
    const { secret } = await addKey(context, organizationId, person.userId, scopes)
    return { name: `${name}, a key with ${word}`, person, headers: bearer(secret), scopes, roles }
  }
  const lacking = needed.map((scope) =>
    withKey(
      `all but ${scope}`,
      everyScope.filter((each) => each !== scope),
    ),
  )
  const headers = { cookie: await factorCookie(context, person.userId), origin: publicBase(context.config) }
  return [
    await withKey(needed.length === 0 ? 'no scope' : `only ${needed.join(', ')}`, needed),
    ...(await Promise.all(lacking)),
    { name: `${name}, signed in`, person, headers, scopes: everyScope, roles, isSignedIn: true },
  ]
}

/**
 * One person of each role. In addition, one person who is an owner here and a viewer there, and one person who was an
 * owner and has left.
 */
export async function everyStanding(context: Context, ours: Place, theirs: Place): Promise<Standing[]> {
  const standing = async (role: Role): Promise<Standing> => ({
    name: role,
    person: await addPerson(context, ours.organizationId, role),
    roles: new Map([[ours.organizationId, role]]),
  })
  const [both, gone] = [await standing('owner'), await standing('owner')]
  const others = await Promise.all((['viewer', 'member', 'admin', 'owner'] as const).map(standing))
  const ids = [both, gone, ...others].map(({ person }) => person.userId)
  await enrolPeople(context, ids)
  await context.pool.query('delete from memberships where user_id = $1', [gone.person.userId])
  // The person who has left has another organization: the limits of somebody who has none are too low for this test.
  const elsewhere = (await addOrganization(context)).id
  await context.db
    .insertInto('memberships')
    .values([
      { organization_id: theirs.organizationId, user_id: both.person.userId, role: 'viewer' },
      { organization_id: elsewhere, user_id: gone.person.userId, role: 'owner' },
    ])
    .execute()
  const roles = new Map<string, Role>([...both.roles, [theirs.organizationId, 'viewer']])
  return [
    ...others,
    { ...both, name: 'owner here and viewer there', roles },
    { ...gone, name: 'one who has left', roles: new Map() },
  ]
}

/**
 * Callers that the service does not accept, for example without a key, with a key that never existed, or with an
 * expired key.
 */
export async function nobodies(context: Context, ours: Place): Promise<Caller[]> {
  const { userId } = ours.owner
  const over = async (extra: { expires_at?: Date; revoked_at?: Date }) =>
    bearer((await addKey(context, ours.organizationId, userId, everyScope, extra)).secret)
  // The service deletes an ended session at its first use. Delete it here, so that a refused request changes nothing.
  const ended = await sessionCookie(context, userId, new Date(0))
  await context.pool.query('delete from auth_sessions where expires_at < now()')
  const [cookie, origin] = [await sessionCookie(context, userId), publicBase(context.config)]
  const ways: Record<string, Record<string, string>> = {
    'no key': {},
    'no bearer key': { authorization: `Basic ${ours.owner.key}` },
    'an unknown key': bearer(newApiKey().secret),
    'a key of which a letter is wrong': bearer(ours.owner.key.slice(0, -1)),
    'a revoked key': await over({ revoked_at: new Date() }),
    'an expired key': await over({ expires_at: new Date(Date.now() - 1_000) }),
    'a session that is over': { cookie: ended, origin },
    'a session whose signature is wrong': { cookie: cookie.replace(/\.[^.]{8}/, '.AAAAAAAA'), origin },
    'a wrong key beside a session': { ...bearer(newApiKey().secret), cookie, origin },
  }
  const unknown = { person: null, scopes: [], roles: new Map<string, Role>() }
  return Object.entries(ways).map(([name, headers]) => ({ name, headers, ...unknown }))
}

/** The status of each refusal. */
export const statusOf: Record<string, number> = {
  unauthenticated: 401,
  missing_scope: 403,
  mfa_required: 403,
  not_found: 404,
  insufficient_role: 403,
}
