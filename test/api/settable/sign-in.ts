import { startLyingProvider, type LyingProvider } from '../../support/company-provider.ts'
import { answerTo, certificates, samlAddress, samlIssuer } from '../../support/saml-provider.ts'
import { proof, type Proofs, type World } from './world.ts'

/* The provider with which people sign in. */

const client = { id: 'c', secret: 's' }

/** Runs `work` beside a provider that signs `ana` in. */
async function beside<T>(work: (provider: LyingProvider) => Promise<T>): Promise<T> {
  const provider = await startLyingProvider(client, { sub: 'ana', email_verified: true })
  try {
    return await work(provider)
  } finally {
    await provider.close()
  }
}

interface Entered {
  readonly status: number
  readonly role: string | null
  readonly openedWith: string | null
}

const domainOf = ({ id }: World): string => `${id.replace('_', '-').toLowerCase()}.example`

async function save(world: World, provider: LyingProvider, more: object): Promise<void> {
  const usual = { client_id: client.id, client_secret: client.secret, default_role: 'member' }
  const body = { issuer: provider.url, domains: [domainOf(world)], ...usual, ...more }
  await world.ok('owner', 'PUT', `${world.path}/sign-in`, body)
  await world.api.stack.context.pool.query(
    `update sign_in_domains set proven_at = now(), proven_by = 'operator' where organization_id = $1`,
    [world.id],
  )
}

/** The answer to a person with an address of this domain who begins to sign in. */
async function begin({ api }: World, email: string): Promise<Response> {
  await api.stack.context.pool.query('delete from auth_rate_limits')
  return fetch(`${api.base}/api/auth/sign-in/provider`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', origin: api.base },
    body: JSON.stringify({ email }),
  })
}

/** Signs `ana` in, with these settings of the provider and claims. */
async function entered(
  world: World,
  provider: LyingProvider,
  more: object,
  claims: object = {},
): Promise<Entered> {
  await save(world, provider, more)
  const email = `ana@${domainOf(world)}`
  provider.claims = { email, ...claims }
  const begun = await begin(world, email)
  const { url } = (await begun.json()) as { url: string }
  const cookie = begun.headers
    .getSetCookie()
    .map((each) => each.split(';', 1)[0])
    .join('; ')
  const { searchParams: brought } = provider.answerTo(url)
  brought.set('organization', world.id)
  const { status } = await fetch(`${world.api.base}/api/auth/sign-in/provider/answer?${brought.toString()}`, {
    headers: { cookie },
  })
  const { rows } = await world.api.stack.context.pool.query(
    `select m.role, s.opened_with from users u join memberships m on m.user_id = u.id
     left join auth_sessions s on s.user_id = u.id where u.email = $1`,
    [email],
  )
  return { status, role: rows[0]?.role ?? null, openedWith: rows[0]?.opened_with ?? null }
}

/** Somebody has signed in with the organization’s provider. */
export const withUsedProvider = (world: World): Promise<Entered> =>
  beside((provider) => entered(world, provider, {}))

const inGroup = { groups: ['finance'], teams: ['sales'] }
const roles = { groups_claim: 'groups', default_role: null }

async function beginSaml(world: World, more: object): Promise<Response> {
  const usual = { kind: 'saml', issuer: samlIssuer, sso_url: samlAddress, certificates: [certificates.own] }
  const body = { ...usual, domains: [domainOf(world)], default_role: 'member', ...more }
  await world.ok('owner', 'PUT', `${world.path}/sign-in`, body)
  await world.api.stack.context.pool.query(
    `update sign_in_domains set proven_at = now(), proven_by = 'operator' where organization_id = $1`,
    [world.id],
  )
  return begin(world, `ana@${domainOf(world)}`)
}
const urlOf = async (begun: Response): Promise<URL> => new URL(((await begun.json()) as { url: string }).url)

export const providerProofs: Proofs = {
  kind: proof(['oidc', 'saml'], [false, true], (world, kind) =>
    beside(async (provider) => {
      if (kind === 'saml') return (await urlOf(await beginSaml(world, {}))).searchParams.has('SAMLRequest')
      await save(world, provider, { kind })
      return (await urlOf(await begin(world, `ana@${domainOf(world)}`))).searchParams.has('SAMLRequest')
    }),
  ),
  sso_url: proof(
    ['https://a.example/sso', 'https://b.example/sso'],
    ['a.example', 'b.example'],
    async (world, sso_url) => (await urlOf(await beginSaml(world, { sso_url }))).host,
  ),
  'certificates[]': proof(['own', 'other'] as const, [200, 403], async (world, which) => {
    const begun = await beginSaml(world, { certificates: [certificates[which]] })
    const cookie = begun.headers
      .getSetCookie()
      .map((each) => each.split(';', 1)[0])
      .join('; ')
    const url = await urlOf(begun)
    const xml = await answerTo(url.href, { id: 'ana', attributes: { email: `ana@${domainOf(world)}` } })
    const state = url.searchParams.get('RelayState')
    const body = { organization: world.id, state, response: Buffer.from(xml).toString('base64') }
    const headers = { cookie, origin: world.api.base, 'content-type': 'application/json' }
    const address = `${world.api.base}/api/auth/sign-in/provider/assertion`
    return (await fetch(address, { method: 'POST', headers, body: JSON.stringify(body) })).status
  }),
  issuer: proof(['up', 'down'], [true, false], (world, which) =>
    beside(async (provider) => {
      await save(world, provider, which === 'up' ? {} : { issuer: 'http://127.0.0.1:1' })
      return (await world.ok('owner', 'POST', `${world.path}/sign-in/test`)).ok
    }),
  ),
  client_id: proof(['c', 'd'], ['c', 'd'], (world, client_id) =>
    beside(async (provider) => {
      await save(world, provider, { client_id })
      const { url } = (await (await begin(world, `ana@${domainOf(world)}`)).json()) as { url: string }
      return new URL(url).searchParams.get('client_id')
    }),
  ),
  client_secret: proof(['one', 'two'], ['one', 'two'], (world, client_secret) =>
    beside(async (provider) => {
      await entered(world, provider, { client_secret })
      return provider.secrets[0]
    }),
  ),
  'domains[]': proof(['own', 'other'], [200, 404], (world, which) =>
    beside(async (provider) => {
      const domain = which === 'own' ? domainOf(world) : `other-${domainOf(world)}`
      await save(world, provider, { domains: [domain] })
      return (await begin(world, `ana@${domainOf(world)}`)).status
    }),
  ),
  groups_claim: proof(['groups', 'teams'], ['member', 'admin'], (world, groups_claim) =>
    beside(async (provider) => {
      const role_map = { finance: 'member', sales: 'admin' }
      return (await entered(world, provider, { ...roles, groups_claim, role_map }, inGroup)).role
    }),
  ),
  'role_map.*': proof(['viewer', 'admin'], ['viewer', 'admin'], (world, role) =>
    beside(
      async (provider) =>
        (await entered(world, provider, { ...roles, role_map: { finance: role } }, inGroup)).role,
    ),
  ),
  'group_map.*': proof(['one', 'two'], [['one'], ['two']], async (world, name) => {
    for (const each of ['one', 'two']) await world.ok('owner', 'POST', `${world.path}/groups`, { name: each })
    const more = { groups_claim: 'groups', group_map: { finance: name } }
    await beside((provider) => entered(world, provider, more, inGroup))
    const { rows } = await world.api.stack.context.pool.query(
      'select g.name from groups g join group_members m on m.group_id = g.id where g.organization_id = $1',
      [world.id],
    )
    return rows.map((row) => row.name)
  }),
  default_role: proof(['viewer', null], ['viewer', null], (world, default_role) =>
    beside(async (provider) => (await entered(world, provider, { default_role })).role),
  ),
  checks_factor: proof([false, true], ['provider', 'provider+factor'], (world, checks_factor) =>
    beside(async (provider) => (await entered(world, provider, { checks_factor })).openedWith),
  ),
}

async function scimToken(world: World, field: object) {
  await beside((provider) => save(world, provider, {}))
  return world.ok('owner', 'POST', `${world.path}/scim-tokens`, { name: 'Okta', ...field })
}

export const scimTokenProofs: Proofs = {
  name: proof(['one', 'two'], ['one', 'two'], async (world, name) => {
    const { id } = await scimToken(world, { name })
    return (await world.listed('owner', `${world.path}/scim-tokens`, id)).name
  }),
  days: proof([1, 2], [401, 200], async (world, days) => {
    const { id, token } = await scimToken(world, { days })
    // Simulates that a day has passed.
    await world.api.stack.context.pool.query(
      `update scim_tokens set expires_at = expires_at - interval '1 day' where id = $1`,
      [id],
    )
    return (await world.send({ key: token }, 'GET', '/scim/v2/Users')).status
  }),
}
