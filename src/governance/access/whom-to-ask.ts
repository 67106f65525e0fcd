import { sql } from 'kysely'
import type { Db } from '../../db/schema/index.ts'
import type { Role } from '../../policy/types.ts'
import { DomainError } from '../errors.ts'
import { roleIn } from './identity.ts'
import { covers, hasRole, roleOfScope, rolesFrom } from './scopes.ts'

/* A refusal because of the caller's role says who can help: with another key, the same person is refused again. */

/** Addresses are named if an organization has no more people of the role. */
const mostNamed = 3

const wordsOf: Readonly<Record<Role, string>> = {
  viewer: 'an owner',
  // Owners give roles.
  member: 'an owner',
  admin: 'an admin or owner',
  owner: 'an owner',
}

/** `an owner (ann@acme.com, bo@acme.com)` */
async function whomToAsk(db: Db, organizationId: string, needed: Role): Promise<string> {
  const { rows } = await sql<{ email: string }>`
    select u.email from memberships m join users u on u.id = m.user_id
    where m.organization_id = ${organizationId} and m.role = any(${rolesFrom(hasRole(needed, 'admin') ? needed : 'owner')}::text[])
    order by m.role = 'owner' desc, u.email limit ${mostNamed + 1}`.execute(db)
  const named = rows.length > mostNamed ? '' : ` (${rows.map(({ email }) => email).join(', ')})`
  return `${wordsOf[needed]}${named}`
}

/** The same refusal, and whom to ask, if `requireRole` has thrown it. */
export async function sayWhomToAsk(db: Db, organizationId: string, error: unknown): Promise<unknown> {
  if (!(error instanceof DomainError) || error.code !== 'insufficient_role') return error
  const needed = error.details[0]?.path ?? ''
  if (!Object.hasOwn(wordsOf, needed) || error.message.includes(': ask ')) return error
  const whom = await whomToAsk(db, organizationId, needed as Role)
  return new DomainError(error.code, `${error.message}: ask ${whom}`, error.details)
}

/** The refusal of a key that lacks a scope which the person's role cannot have; else the given one. */
export async function sayRoleOfScope(
  db: Db,
  person: { readonly userId: string; readonly organizationId: string; readonly scopes: readonly string[] },
  wanted: readonly string[],
  error: unknown,
): Promise<unknown> {
  if (!(error instanceof DomainError) || error.code !== 'missing_scope') return error
  const role = await roleIn(db, person.userId, person.organizationId)
  const scope = wanted.find(
    (each) => !covers(person.scopes, each) && role !== null && !hasRole(role, roleOfScope(each)),
  )
  if (scope === undefined) return error
  const needed = roleOfScope(scope)
  const whom = await whomToAsk(db, person.organizationId, needed)
  const message = `this needs the scope \`${scope}\`, which no key of a ${role} can have: ask ${whom}`
  return new DomainError('missing_scope', message, error.details)
}
