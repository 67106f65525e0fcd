import { createHash, createHmac, randomBytes } from 'node:crypto'
import { sql } from 'kysely'
import { z } from 'zod'
import { inOneLine } from '../../policy/text.ts'
import type { Role } from '../../policy/types.ts'
import { asciiDomain, isOfDomain } from '../../shared/sign-up-setting.ts'
import type { Actor } from '../audit/entry.ts'
import type { ChainTx } from '../audit/chain-tx.ts'
import { hasRole } from '../access/scopes.ts'
import { roleUnderLock } from '../access/recheck.ts'
import type { OpenedWith } from '../access/second-factor.ts'
import type { Context } from '../context.ts'
import { DomainError } from '../errors.ts'
import { mostGroupMembers, putIntoGroup, takeOutOfGroup } from '../people/groups.ts'
import { endMembership, giveRole, isLastOwner, joinWithoutInvitation, wasRemoved } from '../people/members.ts'
import { addConfirmedPerson } from '../people/sign-up.ts'
import { providerBinding } from '../sealing/bindings.ts'
import { authorizationUrl, claimsOf, discover, ProviderTrouble, SignInDenied, type Claims } from './oidc.ts'
import { findProvider, provenDomains, redirectUri, samlClientOf, type ProviderRow } from './provider.ts'
import { claimsOfSaml, samlRequestUrl } from './saml.ts'

/*
 * A sign-in with the provider of an organization. The domain of the address names the organization; who the person is,
 * says the subject of the provider.
 */

type Entering = Pick<Context, 'combiner' | 'config' | 'db' | 'outgoing' | 'sealer'>

export interface Begun {
  readonly url: string
  /** The browser keeps it in a cookie: only the browser that began can end the sign-in. */
  readonly state: string
}

/** Throws `not_found` for a domain without a provider, `unavailable`, and `conflict` if the provider is set up wrongly. */
export async function beginProviderSignIn(
  context: Entering,
  { email, place }: { readonly email: string; readonly place: string },
): Promise<Begun> {
  const provider = await providerOfAddress(context, email)
  if (provider === null) throw noProvider()
  const client = { issuer: provider.issuer, clientId: provider.client_id }
  const state = randomBytes(32).toString('base64url')
  const url = await asDomainErrors(async () => {
    if (provider.kind === 'saml')
      return samlRequestUrl(samlClientOf(context.config, provider), requestIdOf(context, state), state)
    const server = await discover(context.outgoing, provider.issuer)
    return authorizationUrl(server, client, secretsOf(context, provider, state), email)
  })
  await context.db
    .insertInto('sign_in_attempts')
    .values({
      state_hash: hashOf(state),
      organization_id: provider.organization_id,
      issuer: client.issuer,
      client_id: client.clientId,
      return_to: place,
      expires_at: sql<Date>`clock_timestamp() + interval '10 minutes'`,
    })
    .execute()
  return { url, state }
}

const noProvider = (): DomainError =>
  new DomainError(
    'not_found',
    'no company sign-in is set up for the domain of this address: use the password, or ask an owner of your organization',
  )

async function providerOfAddress({ db }: Entering, email: string): Promise<ProviderRow | null> {
  const domain = asciiDomain(email.slice(email.lastIndexOf('@') + 1).trim())
  if (domain === null || !email.includes('@')) return null
  const found = await db
    .selectFrom('sign_in_domains')
    .select('organization_id')
    .where('domain', '=', domain)
    .where('proven_at', 'is not', null)
    .executeTakeFirst()
  return found === undefined ? null : findProvider(db, found.organization_id)
}

const hashOf = (state: string): string => createHash('sha256').update(state).digest('hex')

/** Nobody without the state and the key of the service can make them, so they need not be stored. */
function secretsOf({ config }: Entering, { organization_id: organizationId }: ProviderRow, state: string) {
  const made = (what: string): string =>
    createHmac('sha256', config.sessionSecret)
      .update(JSON.stringify(['sign-in', what, state]))
      .digest('base64url')
  return {
    state,
    nonce: made('nonce'),
    verifier: made('verifier'),
    redirectUri: redirectUri(config, organizationId),
  }
}

/** The id of a SAML request, which its answer names. */
const requestIdOf = ({ config }: Entering, state: string): string =>
  `_${createHmac('sha256', config.sessionSecret)
    .update(JSON.stringify(['sign-in', 'request', state]))
    .digest('hex')}`

/** Whoever is signed in by password in the same browser. */
export interface ProvenPerson {
  readonly userId: string
  readonly email: string
}

/** What a browser brings back from a provider. */
export interface Brought {
  /** Whose address it was sent to. */
  readonly organizationId: string
  readonly answer: URLSearchParams
  /** The state that it keeps. */
  readonly cookie: string | null
  readonly person: ProvenPerson | null
}

export interface Entered {
  readonly userId: string
  readonly organizationId: string
  readonly place: string
  readonly openedWith: Extract<OpenedWith, 'provider' | 'provider+factor'>
  readonly subject: string
  /** The provider’s name of its session, which a logout there names. */
  readonly session: string | null
  readonly issuer: string
  readonly clientId: string
}

/**
 * Takes the answer that a browser brings. Each state is accepted once, because its row is deleted first, only with the
 * cookie of the browser that began, and only at the address of its organization: another provider that sends the browser
 * to this one would otherwise get the code of this one. Then, under the lock of the organization’s chain: finds or links the person,
 * and sets the role that the provider’s groups give. Throws `not_found`, `insufficient_role`, `conflict`, `unavailable`.
 */
export async function finishProviderSignIn(
  context: Entering,
  { organizationId, answer, cookie, person }: Brought,
): Promise<Entered> {
  const state = answer.get('state') ?? ''
  const attempt = state === '' || cookie !== state ? null : await takeAttempt(context, state)
  const provider = attempt === null ? null : await findProvider(context.db, attempt.organization_id)
  if (attempt === null || provider === null || attempt.organization_id !== organizationId) throw ended()
  // The owner has changed the provider meanwhile. A code must not go to another one.
  if (provider.issuer !== attempt.issuer || provider.client_id !== attempt.client_id) throw ended()
  const { issuer } = provider
  const claims = await asDomainErrors(() => claimsIn(context, provider, { answer, state }))
  const { sub: subject } = claims
  if (!isName(subject)) throw refused('your provider sent no usable name for you (`sub`)')
  const session = claims['sid'] ?? null
  if (session !== null && !isName(session))
    throw refused('your provider sent no usable name for its session (`sid`): ask whoever runs it')
  const given = { subject, email: emailOf(claims), name: nameOf(claims), groups: groupsOf(claims, provider) }
  const outcome = await context.combiner.run(organizationId, 'org.change', (tx) =>
    enter(context, tx, provider, given, person),
  )
  // After the commit, because the person may have lost the role.
  if ('refusal' in outcome) throw outcome.refusal
  const hasFactor = provider.checks_factor || amrOf(claims).some((each) => factorMethods.has(each))
  return {
    userId: outcome.userId,
    organizationId,
    place: attempt.return_to,
    openedWith: hasFactor ? 'provider+factor' : 'provider',
    subject,
    session,
    issuer,
    clientId: provider.client_id,
  }
}

async function claimsIn(
  context: Entering,
  provider: ProviderRow,
  { answer, state }: { readonly answer: URLSearchParams; readonly state: string },
): Promise<Claims> {
  if (provider.kind === 'saml')
    return claimsOfSaml(
      samlClientOf(context.config, provider),
      requestIdOf(context, state),
      answer.get('SAMLResponse') ?? '',
    )
  if (provider.client_secret_sealed === null) throw ended()
  const binding = providerBinding(provider.organization_id, provider.secret_version)
  const secret = await context.sealer.open(binding, provider.client_secret_sealed)
  const client = { issuer: provider.issuer, clientId: provider.client_id, secret }
  return claimsOf(context.outgoing, client, { answer, ...secretsOf(context, provider, state) })
}

/**
 * Whether it still holds, now that its session exists. Whoever has ended it meanwhile could not end this session: it did
 * not exist. Later changes find it.
 */
export async function stillHolds(
  { combiner }: Pick<Context, 'combiner'>,
  { userId, organizationId, subject, issuer, clientId }: Entered,
): Promise<boolean> {
  return combiner.run(organizationId, 'org.change', async ({ trx }) => {
    const { rows } = await sql`select from memberships m
      join sign_in_providers p on p.organization_id = m.organization_id
      join sign_in_identities i on i.organization_id = m.organization_id and i.user_id = m.user_id
      where m.organization_id = ${organizationId} and m.user_id = ${userId}
        and p.issuer = ${issuer} and p.client_id = ${clientId} and i.subject = ${subject}`.execute(trx)
    return rows.length > 0
  })
}

/** OpenID Connect allows no longer subject. */
const isName = (value: unknown): value is string =>
  typeof value === 'string' && value !== '' && value.length <= 255 && !value.includes('\u0000')

async function takeAttempt({ db }: Entering, state: string) {
  const row = await db
    .deleteFrom('sign_in_attempts')
    .where('state_hash', '=', hashOf(state))
    .returningAll()
    .returning(sql<boolean>`expires_at > clock_timestamp()`.as('is_live'))
    .executeTakeFirst()
  return row?.is_live === true ? row : null
}

/** The same for every reason, so that nobody learns about other sign-ins. */
export const ended = (): DomainError =>
  new DomainError('not_found', 'this sign-in has ended, was used, or began in another browser: begin again')

const refused = (message: string): DomainError => new DomainError('insufficient_role', message)

/** Methods of RFC 8176 that say that a second factor was asked for. */
const factorMethods: ReadonlySet<unknown> = new Set(['mfa', 'otp', 'hwk', 'sc', 'fpt'])

const amrOf = (claims: Claims): readonly unknown[] => (Array.isArray(claims['amr']) ? claims['amr'] : [])

/** In lower case. An owner has proven the domain, so an address counts unless the provider says that it does not. */
function emailOf(claims: Claims): string {
  const { email, email_verified: isVerified } = claims
  const read = z.email().max(254).safeParse(email)
  if (!read.success)
    throw refused(
      'your provider sent no e-mail address: ask whoever runs it to send the claim `email` to Countersign',
    )
  if (isVerified !== undefined && isVerified !== true)
    throw refused('your provider says that your e-mail address is not confirmed: confirm it there first')
  return read.data.toLowerCase()
}

function nameOf(claims: Claims): string {
  const name = typeof claims['name'] === 'string' ? inOneLine(claims['name']).trim() : ''
  return name.isWellFormed() ? name.replaceAll('\u0000', '').slice(0, 200) : ''
}

/** So many groups of one person are read. Providers with more send a link in place of them. */
export const mostGroups = 1_000
const groupList = z.array(z.string().max(500)).max(mostGroups)

/** null if neither roles nor groups depend on them. A missing or strange list is refused: it may be that of everybody. */
function groupsOf(
  claims: Claims,
  { groups_claim: claim, role_map: roles, group_map: groups }: ProviderRow,
): readonly string[] | null {
  if (claim === null || Object.keys(roles).length + Object.keys(groups).length === 0) return null
  const read = groupList.safeParse(Object.hasOwn(claims, claim) ? claims[claim] : undefined)
  if (read.success) return read.data
  throw refused(
    `your provider sent no usable list of your groups (\`${claim}\`), and they give the role here: ask whoever runs it to send at most ${mostGroups} names`,
  )
}

interface Given {
  readonly subject: string
  readonly email: string
  readonly name: string
  readonly groups: readonly string[] | null
}

type Outcome = { readonly userId: string } | { readonly refusal: DomainError }

const actor: Actor = { type: 'system', id: 'sign-in provider' }

async function enter(
  context: Entering,
  tx: ChainTx,
  asked: ProviderRow,
  given: Given,
  person: ProvenPerson | null,
): Promise<Outcome> {
  const provider = await findProvider(tx.trx, tx.organizationId)
  // Before the lock, its owner could have changed it.
  if (provider?.updated_at.getTime() !== asked.updated_at.getTime()) throw ended()
  if (!isOfDomain(given.email, await provenDomains(tx)))
    throw refused(
      'the domain of your address there is not proven for this organization: ask an owner to add it to the sign-in',
    )
  const known = await findIdentity(tx, provider, given.subject)
  const userId = known ?? (await findPerson(tx, provider, given, person))
  const before = userId === null ? null : await roleUnderLock(tx, userId)
  if (userId !== null && before === null && (await wasRemoved(tx, userId))) throw removed()
  // An organization without an owner could never be changed again.
  const isKept = userId !== null && before === 'owner' && (await isLastOwner(tx, userId))
  const role = isKept ? 'owner' : roleOf(provider, given.groups, before)
  if (role === null) {
    if (userId !== null && before !== null) await endMembership(tx, userId, 'without_role', actor)
    return { refusal: noRole() }
  }
  const id = userId ?? (await addConfirmedPerson(tx, context.config.people, given))
  if (before === null) await joinWithoutInvitation(tx, id, role, actor)
  else if (before !== role) await giveRole(tx, { userId: id, before, role }, actor)
  if (known === null) await link(tx, provider, given.subject, id)
  await setGroups(tx, provider, given.groups, id)
  return { userId: id }
}

const removed = (): DomainError =>
  refused(
    'an owner or the directory of this organization has removed you, and a sign-in brings nobody back: ask an owner for an invitation',
  )

async function findIdentity(tx: ChainTx, { issuer }: ProviderRow, subject: string): Promise<string | null> {
  const row = await tx.trx
    .selectFrom('sign_in_identities')
    .select('user_id')
    .where('organization_id', '=', tx.organizationId)
    .where('issuer', '=', issuer)
    .where('subject', '=', subject)
    .executeTakeFirst()
  return row?.user_id ?? null
}

/** The highest role of the groups; without a map, the present one stays. null: none. */
function roleOf(
  { role_map: roles, default_role: otherwise }: ProviderRow,
  groups: readonly string[] | null,
  before: Role | null,
): Role | null {
  if (groups === null || Object.keys(roles).length === 0) return before ?? otherwise
  const mapped = groups.flatMap((group) => (Object.hasOwn(roles, group) ? [roles[group] as Role] : []))
  return mapped.reduce<Role | null>(
    (best, role) => (best === null || hasRole(role, best) ? role : best),
    otherwise,
  )
}

const noRole = (): DomainError =>
  refused('your groups at the provider give you no role here: ask an owner of your organization')

/**
 * The account with this address, for a subject that signs in for the first time; null if there is none. An account is
 * linked only to its own person: a member of this organization whose confirmed address is of a proven domain, or
 * whoever is signed in to it in the same browser. Throws `conflict`.
 */
async function findPerson(
  tx: ChainTx,
  provider: ProviderRow,
  { email }: Given,
  person: ProvenPerson | null,
): Promise<string | null> {
  const user = await tx.trx
    .selectFrom('users')
    .select(['id', 'email_verified'])
    .where((eb) => eb(eb.fn<string>('lower', ['email']), '=', email))
    .executeTakeFirst()
  if (user === undefined) return null
  if (!user.email_verified)
    throw new DomainError(
      'conflict',
      'an account with this address exists and is not confirmed: set a new password by mail, sign in with it, and then begin the company sign-in in the same browser',
    )
  const isMember = (await roleUnderLock(tx, user.id)) !== null
  if (!isMember && person?.userId !== user.id)
    throw new DomainError(
      'conflict',
      'an account with this address exists: sign in to it with the password, and then begin the company sign-in in the same browser',
    )
  const other = await tx.trx
    .selectFrom('sign_in_identities')
    .select('subject')
    .where('organization_id', '=', tx.organizationId)
    .where('user_id', '=', user.id)
    .where('issuer', '=', provider.issuer)
    .executeTakeFirst()
  if (other === undefined) return user.id
  throw new DomainError(
    'conflict',
    'this address belongs to another person of your provider (another `sub`): ask an owner to unlink that sign-in, if it is yours',
  )
}

/** Only groups that the map names change. One that is full or gone gets nobody, and in one of a file, the file says who is. */
async function setGroups(
  tx: ChainTx,
  { group_map: map }: ProviderRow,
  groups: readonly string[] | null,
  userId: string,
): Promise<void> {
  const named = [...new Set(Object.values(map))]
  if (groups === null || named.length === 0) return
  const wanted = new Set(groups.flatMap((group) => (Object.hasOwn(map, group) ? [map[group]] : [])))
  const { rows } = await sql<{ id: string; name: string; inside: boolean; members: number }>`
    select g.id, g.name, coalesce(bool_or(m.user_id = ${userId}), false) as inside, count(m.user_id)::int as members
    from groups g left join group_members m on m.group_id = g.id
    where g.organization_id = ${tx.organizationId} and g.name = any(${named}::text[]) and g.managed_by is null group by g.id`.execute(
    tx.trx,
  )
  for (const { id, name, inside, members } of rows) {
    if (wanted.has(name) === inside || (!inside && members >= mostGroupMembers)) continue
    if (inside) await takeOutOfGroup(tx, { id, name }, userId, actor)
    else await putIntoGroup(tx, { id, name }, userId, { by: userId, actor })
  }
}

async function link(tx: ChainTx, { issuer }: ProviderRow, subject: string, userId: string): Promise<void> {
  await tx.trx
    .insertInto('sign_in_identities')
    .values({ organization_id: tx.organizationId, issuer, subject, user_id: userId, linked_at: tx.now })
    .execute()
  tx.append({
    eventType: 'member.identity_linked',
    action: 'link',
    actor,
    metadata: { member_id: userId, issuer },
  })
}

/** A refusal of the provider, or trouble with it, as callers see it. */
export async function asDomainErrors<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (error instanceof SignInDenied)
      throw refused(`your provider did not sign you in (${error.code}): try again`)
    if (!(error instanceof ProviderTrouble)) throw error
    const help = error.isAway
      ? 'Try again. If it stays, an owner can sign in with the password and a second factor'
      : 'Tell an owner of your organization'
    throw new DomainError(error.isAway ? 'unavailable' : 'conflict', `${error.message}. ${help}.`)
  }
}
