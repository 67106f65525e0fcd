import { createHmac, randomBytes, randomUUID } from 'node:crypto'
import type { Context } from '../../src/governance/context.ts'
import { newId } from '../../src/contract/ids.ts'
import { newApiKey } from '../../src/governance/access/identity.ts'
import type { OpenedWith } from '../../src/governance/access/second-factor.ts'
import { scopes } from '../../src/governance/access/scopes.ts'
import type { Role } from '../../src/policy/types.ts'

/** Rows that tests need and no route creates. */

export const everyScope: readonly string[] = Object.keys(scopes)

/** A key for this user with these scopes, whatever their role. */
export async function addKey(
  context: Context,
  organizationId: string,
  userId: string,
  keyScopes: readonly string[],
  extra: { expires_at?: Date; revoked_at?: Date; factor_confirmed_at?: Date } = {},
): Promise<{ id: string; secret: string }> {
  const { secret, hash, last4 } = newApiKey()
  const id = newId('key')
  await context.db
    .insertInto('api_keys')
    .values({
      id,
      organization_id: organizationId,
      user_id: userId,
      name: 'test',
      hash,
      last4,
      scopes: [...keyScopes],
      created_by: null,
      expires_at: null,
      revoked_at: null,
      last_used_at: null,
      ...extra,
    })
    .execute()
  return { id, secret }
}

/**
 * Gives these people a second factor, with the effects of enrolling: their sessions end, and their keys are
 * confirmed.
 */
export async function enrolPeople({ pool }: Context, userIds: readonly string[]): Promise<void> {
  await pool.query('update users set two_factor_enabled = true where id = any($1)', [userIds])
  await pool.query('update api_keys set factor_confirmed_at = now() where user_id = any($1)', [userIds])
}

/** Makes an organization require a second factor. */
export async function requireFactors({ pool }: Context, organizationId: string): Promise<void> {
  await pool.query(`update organizations set settings = settings || '{"require_mfa": true}' where id = $1`, [
    organizationId,
  ])
}

/** The cookie of a session of this user, as sign-in would set it. */
export async function sessionCookie(
  context: Context,
  userId: string,
  expires = new Date(Date.now() + 3_600_000),
  openedWith: OpenedWith = 'password',
): Promise<string> {
  const token = randomBytes(24).toString('base64url')
  await context.pool.query(
    'insert into auth_sessions (id, token, user_id, expires_at, opened_with) values ($1, $2, $3, $4, $5)',
    [randomUUID(), token, userId, expires, openedWith],
  )
  const signature = createHmac('sha256', context.config.sessionSecret).update(token).digest('base64')
  return `countersign.session_token=${encodeURIComponent(`${token}.${signature}`)}`
}

/** The cookie of a session opened with a second factor. */
export const factorCookie = (context: Context, userId: string): Promise<string> =>
  sessionCookie(context, userId, undefined, 'password+totp')

/** A person with a role in an organization and a key with every scope. */
export async function addPerson(
  context: Context,
  organizationId: string,
  role: Role,
): Promise<{ userId: string; key: string; keyId: string }> {
  const userId = newId('user')
  await context.db
    .insertInto('users')
    .values({ id: userId, email: `${userId}@elsewhere.test`, email_verified: true })
    .execute()
  await context.db
    .insertInto('memberships')
    .values({ organization_id: organizationId, user_id: userId, role })
    .execute()
  const { id: keyId, secret: key } = await addKey(context, organizationId, userId, everyScope)
  return { userId, key, keyId }
}

/** A test sends more requests in a minute than people do in a day. */
export const unthrottled = JSON.stringify({ requests_per_minute: 100_000, requests_per_day: 100_000_000 })

/** Another organization with an owner. */
export async function addOrganization(
  context: Context,
): Promise<{ id: string; owner: { userId: string; key: string; keyId: string } }> {
  const id = newId('organization')
  await context.db
    .insertInto('organizations')
    .values({ id, name: 'Elsewhere', plan: 'enterprise', settings: '{}' })
    .execute()
  await context.db.insertInto('chain_head').values({ organization_id: id, frozen: null }).execute()
  return { id, owner: await addPerson(context, id, 'owner') }
}

export const aDefinition = {
  inputs: { to: { type: 'string', required: true } },
  steps: [
    { id: 'read', tool: 'file_read', params: { path: 'reports/q3-summary.md' } },
    {
      id: 'send',
      tool: 'mail_send',
      params: { to: '{{input.to}}', subject: 'Q3', text: '{{read.output.text}}' },
    },
  ],
}

export const aRule = { name: 'No mail', verdict: 'deny', tools: ['mail_send'] }
export const aLabelRule = { name: 'Salaries', tools: ['file_read'], add_labels: ['confidential'] }

/** A connection without a credential, of a person or of the organization. Returns its id. */
export async function addConnection(
  { db }: Pick<Context, 'db'>,
  organizationId: string,
  userId: string,
  integration = 'search',
  scope: 'personal' | 'organization' = 'personal',
): Promise<string> {
  const id = newId('connection')
  await db
    .insertInto('connections')
    .values({
      id,
      organization_id: organizationId,
      owner_id: scope === 'personal' ? userId : null,
      integration,
      name: 'c',
      account: null,
      destination: 'api.service.example',
      own_host: true,
      backend: 'db',
      credential_sealed: null,
      created_by: userId,
    })
    .execute()
  return id
}

/** The form that uploads a file. */
export function formOf(name: string, content: string | Buffer, ...labels: readonly string[]): FormData {
  const form = new FormData()
  form.append('file', new Blob([typeof content === 'string' ? content : new Uint8Array(content)]), name)
  for (const label of labels) form.append('labels', label)
  return form
}
