import { randomBytes, X509Certificate } from 'node:crypto'
import { sql, type Selectable } from 'kysely'
import { assertionPath, providerAnswerPath } from '../../contract/pages.ts'
import type { Db } from '../../db/schema/index.ts'
import type { SignInDomainsTable, SignInProvidersTable } from '../../db/schema/sign-in.ts'
import { whyLooserSignIn, type SignInBody } from '../../policy/strictness-access.ts'
import type { JsonObject, Role } from '../../policy/types.ts'
import { publicBase, type Config } from '../../shared/config.ts'
import { asciiDomain } from '../../shared/sign-up-setting.ts'
import { requireProvenCaller } from '../access/address-proof.ts'
import { actorOf, type Caller } from '../access/identity.ts'
import { runAs, type Acting } from '../access/recheck.ts'
import { plainJson, type HeldChange } from '../approvals/change.ts'
import type { ChainTx } from '../audit/chain-tx.ts'
import type { Actor } from '../audit/entry.ts'
import { changeAs, type Changer, type Governing, type Prepared } from '../changes/gate.ts'
import type { Context } from '../context.ts'
import { DomainError, errorAt, notFound } from '../errors.ts'
import { keepMade, type Once } from '../idempotency.ts'
import { storageOver } from '../limits/storage.ts'
import { requireShared } from '../people/invitations.ts'
import { newVersion, providerBinding } from '../sealing/bindings.ts'
import type { Seal } from '../sealing/sealer.ts'
import { refusalOfCertificate, type SamlClient } from './saml.ts'

/* The provider of an organization, as its owners set it, and the mail domains whose people it signs in. */

export interface ProviderInput {
  readonly kind: 'oidc' | 'saml'
  readonly issuer: string
  readonly client_id?: string | undefined
  readonly sso_url?: string | undefined
  readonly certificates?: readonly string[] | undefined
  /** Without it, the stored one stays, for the same issuer and client. */
  readonly client_secret?: string | undefined
  readonly domains: readonly string[]
  readonly groups_claim: string | null
  readonly role_map: Readonly<Record<string, Role>>
  readonly group_map: Readonly<Record<string, string>>
  readonly default_role: Exclude<Role, 'owner'> | null
  readonly checks_factor: boolean
}

export interface DomainView {
  readonly domain: string
  readonly proven_at: string | null
  readonly proven_by: 'dns' | 'operator' | null
  /** The TXT record that proves it. */
  readonly record: { readonly name: string; readonly value: string }
}

export interface ProviderView {
  readonly kind: 'oidc' | 'saml'
  readonly issuer: string
  readonly sso_url: string | null
  readonly certificates: readonly string[]
  readonly client_id: string
  readonly domains: readonly DomainView[]
  readonly groups_claim: string | null
  readonly role_map: Readonly<Record<string, Role>>
  readonly group_map: Readonly<Record<string, string>>
  readonly default_role: Role | null
  readonly checks_factor: boolean
  readonly updated_at: string
}

export type ProviderRow = Selectable<SignInProvidersTable>

/** One for each organization: no other provider can send the browser to it with a code of this one. */
export const redirectUri = (config: Config, organizationId: string): string =>
  `${publicBase(config)}${providerAnswerPath.replace(':id', organizationId)}`
export const scimUri = (config: Config): string => `${publicBase(config)}/scim/v2`
/** With SAML, our name for ourselves is the address of our metadata. */
export const entityId = (config: Config, organizationId: string): string =>
  `${publicBase(config)}/api/auth/saml/${organizationId}/metadata`
export const acsUrl = (config: Config, organizationId: string): string =>
  `${publicBase(config)}${assertionPath.replace(':id', organizationId)}`

export const samlClientOf = (
  config: Config,
  { organization_id: id, issuer, sso_url: ssoUrl, certificates }: ProviderRow,
): SamlClient => ({
  issuer,
  ssoUrl: ssoUrl ?? '',
  certificates: certificates ?? [],
  entityId: entityId(config, id),
  acsUrl: acsUrl(config, id),
})

export const logoutUri = (config: Config, organizationId: string): string =>
  `${publicBase(config)}/api/v1/organizations/${organizationId}/sign-in/logout`

export async function findProvider(db: Db, organizationId: string): Promise<ProviderRow | null> {
  const row = await db
    .selectFrom('sign_in_providers')
    .selectAll()
    .where('organization_id', '=', organizationId)
    .executeTakeFirst()
  return row ?? null
}

/** Throws `not_found`. */
export async function requireProvider(db: Db, organizationId: string): Promise<ProviderRow> {
  const row = await findProvider(db, organizationId)
  if (row === null) throw notFound('sign-in provider of', organizationId)
  return row
}

const domainsOf = (db: Db, organizationId: string): Promise<Selectable<SignInDomainsTable>[]> =>
  db
    .selectFrom('sign_in_domains')
    .selectAll()
    .where('organization_id', '=', organizationId)
    .orderBy('domain')
    .execute()

export async function provenDomains(tx: ChainTx): Promise<string[]> {
  const rows = await domainsOf(tx.trx, tx.organizationId)
  return rows.flatMap(({ domain, proven_at: at }) => (at === null ? [] : [domain]))
}

/** null if the organization has none. */
export async function readProvider(db: Db, organizationId: string): Promise<ProviderView | null> {
  const row = await findProvider(db, organizationId)
  return row === null ? null : viewOf(row, await domainsOf(db, organizationId))
}

function viewOf(row: ProviderRow, domains: readonly Selectable<SignInDomainsTable>[]): ProviderView {
  return {
    kind: row.kind,
    issuer: row.issuer,
    sso_url: row.sso_url,
    certificates: row.certificates ?? [],
    client_id: row.client_id,
    domains: domains.map(({ domain, proof, proven_at, proven_by }) => ({
      domain,
      proven_at: proven_at?.toISOString() ?? null,
      proven_by,
      record: { name: recordName(domain), value: recordValue(proof) },
    })),
    groups_claim: row.groups_claim,
    role_map: row.role_map,
    group_map: row.group_map,
    default_role: row.default_role,
    checks_factor: row.checks_factor,
    updated_at: row.updated_at.toISOString(),
  }
}

const recordName = (domain: string): string => `_countersign.${domain}`
const recordValue = (proof: string): string => `countersign-domain=${proof}`

/** What the audit log keeps, and what a second person reads: no secret. */
const shownOf = (
  provider: Named &
    Pick<ProviderView, 'groups_claim' | 'role_map' | 'group_map' | 'default_role' | 'checks_factor'>,
  domains: readonly string[],
): SignInBody => ({
  kind: provider.kind,
  issuer: provider.issuer,
  client_id: provider.client_id,
  sso_url: provider.sso_url,
  certificates: (provider.certificates ?? []).map((pem) => new X509Certificate(pem).fingerprint256),
  domains,
  groups_claim: provider.groups_claim,
  role_map: { ...provider.role_map },
  group_map: { ...provider.group_map },
  default_role: provider.default_role,
  checks_factor: provider.checks_factor,
})

const shownView = (view: ProviderView): SignInBody =>
  shownOf(
    { ...view, certificates: [...view.certificates] },
    view.domains.map(({ domain }) => domain),
  )

type Managing = Governing & Pick<Context, 'outgoing'>

/** What a request asks for, without its secret. */
export interface ProviderRequest extends Omit<ProviderInput, 'client_secret'> {
  /** The version of the secret that comes with it; undefined without one. */
  readonly secret_version?: string | undefined
}

/**
 * Another issuer or client needs its own secret, because the stored one must not be sent elsewhere. It ends the sessions
 * of the former one, and another issuer or kind forgets who its subjects were.
 *
 * Throws `validation_error`, `conflict` for an unconfirmed caller or a personal organization, and as `changeAs`.
 */
export async function saveProvider(
  context: Managing,
  caller: Caller,
  { client_secret: secret, ...input }: ProviderInput,
): Promise<ProviderView | HeldChange> {
  const version = secret === undefined ? undefined : newVersion()
  const seal = await context.sealer.sealing()
  return changeAs(context, caller, {
    action: 'update',
    async prepare(tx, changer, now) {
      await requireProvenCaller(tx, await now())
      const request = { ...input, ...(version === undefined ? {} : { secret_version: version }) }
      return prepareProvider(context, tx, changer, { request, secret: secret ?? null, seal })
    },
  })
}

interface AskedProvider {
  readonly request: ProviderRequest
  readonly secret: string | null
  readonly seal: Seal
}

/** Validates the change under the lock. */
export async function prepareProvider(
  context: Pick<Context, 'config' | 'outgoing'>,
  tx: ChainTx,
  changer: Changer,
  { request, secret, seal }: AskedProvider,
): Promise<Prepared<ProviderView>> {
  const named = requireKind(context, tx.organizationId, request, secret)
  const domains = readDomains(request.domains)
  await requireShared(tx)
  const row = await findProvider(tx.trx, tx.organizationId)
  const isSame = row?.kind === named.kind && row.issuer === named.issuer && row.client_id === named.client_id
  if (named.kind === 'oidc' && secret === null && !isSame)
    throw errorAt(
      'validation_error',
      'client_secret',
      '`client_secret` is missing: a new issuer or client needs its own',
    )
  const view = row === null ? null : viewOf(row, await domainsOf(tx.trx, tx.organizationId))
  const before = view === null ? null : shownView(view)
  const after = shownOf({ ...request, ...named }, domains)
  return {
    request: { operation: 'sign_in', given: plainJson(request) as JsonObject },
    title: before === null ? 'Set up the company sign-in' : 'Change the company sign-in',
    before,
    after,
    secret,
    over: () => Promise.resolve(storageOver(tx, JSON.stringify(request).length)),
    whyLooser: () => whyLooserSignIn(before, after),
    async save() {
      await write(tx, row, { request, named, secret, seal })
      await keepDomains(tx, domains)
      const ended = isSame ? 0 : await endSessions(tx)
      await forgetSubjects(tx, row?.kind === named.kind ? named.issuer : null)
      tx.append({
        eventType: 'sign_in.provider_saved',
        action: 'save',
        actor: actorOf(changer),
        metadata: {
          ...(before === null ? {} : { before: { ...before } }),
          after: { ...after },
          ended_sessions: ended,
          ...changer.cause,
        },
      })
      return (await readProvider(tx.trx, tx.organizationId)) as ProviderView
    },
  }
}

async function write(
  { trx, organizationId, now }: ChainTx,
  before: ProviderRow | null,
  { request, named, secret, seal }: AskedProvider & { readonly named: Named },
): Promise<void> {
  const version = request.secret_version ?? before?.secret_version ?? newVersion()
  const values = {
    ...named,
    client_secret_sealed:
      named.kind === 'saml'
        ? null
        : secret === null
          ? (before?.client_secret_sealed ?? null)
          : seal(providerBinding(organizationId, version), secret),
    secret_version: version,
    groups_claim: request.groups_claim,
    role_map: JSON.stringify(request.role_map),
    group_map: JSON.stringify(request.group_map),
    default_role: request.default_role,
    checks_factor: request.checks_factor,
    updated_at: now,
  }
  await trx
    .insertInto('sign_in_providers')
    .values({ ...values, organization_id: organizationId, created_at: now })
    .onConflict((conflict) => conflict.column('organization_id').doUpdateSet(values))
    .execute()
}

/** `issuer`: whose subjects stay who they are. Another kind names its people in another way. */
async function forgetSubjects({ trx, organizationId }: ChainTx, issuer: string | null): Promise<void> {
  await sql`delete from sign_in_identities
    where organization_id = ${organizationId} and issuer is distinct from ${issuer}`.execute(trx)
}

/** Ends the sessions that it opened. Throws `not_found`, and `conflict` while the organization requires it. */
export async function removeProvider(context: Acting, caller: Caller): Promise<void> {
  await runAs(context, caller, 'org.change', async (tx) => {
    const before = await readProvider(tx.trx, tx.organizationId)
    if (before === null) throw notFound('sign-in provider of', tx.organizationId)
    if (await requiresProviderNow(tx))
      throw errorAt(
        'conflict',
        'require_sso',
        'the organization requires it: set `require_sso` to false first',
      )
    const ended = await endSessions(tx)
    await tx.trx.deleteFrom('sign_in_providers').where('organization_id', '=', tx.organizationId).execute()
    tx.append({
      eventType: 'sign_in.provider_removed',
      action: 'remove',
      actor: actorOf(caller),
      metadata: { before: { ...shownView(before) }, ended_sessions: ended },
    })
  })
}

async function requiresProviderNow(tx: ChainTx): Promise<boolean> {
  const { rows } = await sql<{ required: boolean }>`
    select coalesce((settings->>'require_sso')::boolean, false) as required
    from organizations where id = ${tx.organizationId}`.execute(tx.trx)
  return rows[0]?.required === true
}

async function endSessions(tx: ChainTx): Promise<number> {
  const { numAffectedRows } = await sql`
    delete from auth_sessions where provider_organization = ${tx.organizationId}`.execute(tx.trx)
  return Number(numAffectedRows ?? 0n)
}

type Named = Pick<ProviderRow, 'kind' | 'issuer' | 'client_id' | 'sso_url' | 'certificates'>

/** What names the provider and us, by its kind. Throws `validation_error`. */
function requireKind(
  context: Pick<Context, 'config' | 'outgoing'>,
  organizationId: string,
  { kind, issuer, client_id: clientId, sso_url: ssoUrl, certificates = [] }: ProviderRequest,
  secret: string | null,
): Named {
  const wrong = (field: string, words: string): DomainError =>
    errorAt('validation_error', field, `\`${field}\` ${words}`)
  if (kind === 'oidc') {
    requireIssuer(context, issuer)
    if (clientId === undefined) throw wrong('client_id', 'is missing: the provider gives it')
    if (ssoUrl !== undefined) throw wrong('sso_url', 'is for `saml` alone: leave it out')
    if (certificates.length > 0) throw wrong('certificates', 'are for `saml` alone: leave them out')
    return { kind, issuer, client_id: clientId, sso_url: null, certificates: null }
  }
  if (clientId !== undefined || secret !== null)
    throw wrong(clientId === undefined ? 'client_secret' : 'client_id', 'is for `oidc` alone: leave it out')
  const why = ssoUrl === undefined ? 'it is missing' : context.outgoing.refusalOf(ssoUrl)
  if (ssoUrl === undefined || why !== null) throw wrong('sso_url', `cannot be used: ${why}`)
  if (certificates.length === 0) throw wrong('certificates', 'are missing: the provider shows them')
  certificates.forEach((pem, index) => {
    const refused = refusalOfCertificate(pem)
    if (refused !== null) throw errorAt('validation_error', `certificates.${index}`, refused)
  })
  const us = entityId(context.config, organizationId)
  return { kind, issuer, client_id: us, sso_url: ssoUrl, certificates: [...certificates] }
}

function requireIssuer({ outgoing }: Pick<Context, 'outgoing'>, issuer: string): void {
  const why = outgoing.refusalOf(issuer)
  if (why !== null) throw errorAt('validation_error', 'issuer', `\`issuer\` cannot be used: ${why}`)
  const { search, hash, username, password } = new URL(issuer)
  if (search + hash + username + password !== '')
    throw errorAt('validation_error', 'issuer', '`issuer` must have no user, query or fragment')
}

/** Sorted. Throws `validation_error` for one that is no mail domain. */
function readDomains(given: readonly string[]): string[] {
  const domains = given.map((text, index) => {
    const domain = asciiDomain(text.trim())
    if (domain !== null) return domain
    throw errorAt('validation_error', `domains.${index}`, 'is not a mail domain such as `acme.com`')
  })
  return [...new Set(domains)].sort()
}

/** A domain that stays keeps its proof. */
async function keepDomains(tx: ChainTx, domains: readonly string[]): Promise<void> {
  const { organizationId, trx } = tx
  await sql`delete from sign_in_domains
    where organization_id = ${organizationId} and domain <> all(${domains}::text[])`.execute(trx)
  if (domains.length === 0) return
  const proof = (): string => randomBytes(24).toString('base64url')
  await trx
    .insertInto('sign_in_domains')
    .values(domains.map((domain) => ({ organization_id: organizationId, domain, proof: proof() })))
    .onConflict((conflict) => conflict.doNothing())
    .execute()
}

/** The texts of a TXT record; empty if there is none. Throws if no name server answers. */
export type ResolveTxt = (name: string) => Promise<readonly string[]>

/** Throws `not_found`, `conflict` if the record is missing or the domain is another organization's, `unavailable`. */
export async function proveDomain(
  context: Acting & Pick<Context, 'db'>,
  caller: Caller,
  domain: string,
  resolveTxt: ResolveTxt,
  once: Once | null,
): Promise<ProviderView> {
  const row = await findDomain(context.db, caller.organizationId, domain)
  const [name, value] = [recordName(domain), recordValue(row.proof)]
  const found = await resolveTxt(name).catch(() => {
    throw new DomainError(
      'unavailable',
      `the name server did not answer for \`${name}\`: try again in a minute`,
    )
  })
  if (!found.includes(value))
    throw errorAt(
      'conflict',
      'domain',
      `the TXT record of \`${name}\` is not \`${value}\` yet: add it where you manage the domain. It can take an hour until it is seen`,
    )
  return runAs(context, caller, 'org.change', async (tx) =>
    keepMade(once, tx, await markProven(tx, row, 'dns', actorOf(caller))),
  )
}

/** For installations whose domains are in no DNS. Throws `not_found`, `conflict`. */
export async function proveDomainAsOperator(
  { combiner, db }: Pick<Context, 'combiner' | 'db'>,
  organizationId: string,
  given: string,
): Promise<string> {
  const domain = asciiDomain(given) ?? given
  const row = await findDomain(db, organizationId, domain)
  const actor = { type: 'system', id: 'prove-domain' } as const
  await combiner.run(organizationId, 'org.change', (tx) => markProven(tx, row, 'operator', actor))
  return `${domain} belongs to ${organizationId}`
}

async function findDomain(
  db: Db,
  organizationId: string,
  domain: string,
): Promise<Selectable<SignInDomainsTable>> {
  const row = await db
    .selectFrom('sign_in_domains')
    .selectAll()
    .where('organization_id', '=', organizationId)
    .where('domain', '=', domain)
    .executeTakeFirst()
  if (row === undefined) throw notFound('domain', domain)
  return row
}

async function markProven(
  tx: ChainTx,
  { domain, proof }: Selectable<SignInDomainsTable>,
  by: 'dns' | 'operator',
  actor: Actor,
): Promise<ProviderView> {
  // Chains of other organizations may prove it at the same moment. The second one waits here.
  await sql`select pg_advisory_xact_lock(hashtextextended(${`sign-in domain ${domain}`}, 0))`.execute(tx.trx)
  const other = await tx.trx
    .selectFrom('sign_in_domains')
    .select('organization_id')
    .where('domain', '=', domain)
    .where('organization_id', '<>', tx.organizationId)
    .where('proven_at', 'is not', null)
    .executeTakeFirst()
  if (other !== undefined)
    throw errorAt(
      'conflict',
      'domain',
      'another organization of this installation has proven this domain: ask the operator',
    )
  const { numUpdatedRows } = await tx.trx
    .updateTable('sign_in_domains')
    .set({ proven_at: tx.now, proven_by: by })
    .where('organization_id', '=', tx.organizationId)
    .where('domain', '=', domain)
    .where('proof', '=', proof)
    .where('proven_at', 'is', null)
    .executeTakeFirstOrThrow()
  if (numUpdatedRows > 0n)
    tx.append({
      eventType: 'sign_in.domain_proven',
      action: 'prove',
      actor,
      metadata: { domain, proven_by: by },
    })
  const view = await readProvider(tx.trx, tx.organizationId)
  if (view === null) throw notFound('domain', domain)
  return view
}
