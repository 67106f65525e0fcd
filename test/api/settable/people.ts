import { connectSlack } from '../../governance/notifications/people.ts'
import { until } from '../../stack/until.ts'
import { nothing, proof, World, type Proofs } from './world.ts'

/* People, their keys, and how messages reach them. */

/** Creates a key of the member with this field, or changes the field of an existing key. Returns the key. */
async function keyWith(world: World, field: object, way: string): Promise<{ id: string; api_key: string }> {
  const usual = { name: 'k', scopes: ['workflows:read'], expires_at: null }
  const { active: _, ...made } = { ...usual, ...(way === 'POST' ? field : {}) } as Record<string, unknown>
  const key = await world.ok('member', 'POST', '/api-keys', made)
  if (way !== 'POST') await world.ok('member', 'PATCH', `/api-keys/${key.id}`, field)
  return key
}
const opens = async (world: World, key: string): Promise<number> =>
  (await world.send({ key }, 'GET', '/workflows')).status

export const keyProofs: Proofs = {
  name: proof(['one', 'two'], ['one', 'two'], async (world, name, way) => {
    const { id } = await keyWith(world, { name }, way)
    return (await world.listed('member', '/api-keys', id)).name
  }),
  'scopes[]': proof(['workflows:read', 'runs:read'], [200, 403], async (world, scope, way) =>
    opens(world, (await keyWith(world, { scopes: [scope] }, way)).api_key),
  ),
  'scopes.*': proof([true, false], [200, 403], async (world, wanted, way) => {
    const scopes = { 'runs:read': true, 'workflows:read': wanted }
    return opens(world, (await keyWith(world, { scopes }, way)).api_key)
  }),
  organization_id: proof(['own', 'other'], [201, 404], async (world, which) => {
    const body = {
      name: 'k',
      scopes: ['runs:read'],
      organization_id: which === 'own' ? world.id : 'org_none',
    }
    return (await world.send('member', 'POST', '/api-keys', body)).status
  }),
  expires_at: proof([null, 1_500], ['stays', 'ends'], async (world, milliseconds, way) => {
    const expires_at = milliseconds === null ? null : new Date(Date.now() + milliseconds).toISOString()
    const { api_key } = await keyWith(world, { expires_at }, way)
    if (milliseconds === null) return (await opens(world, api_key)) === 200 ? 'stays' : 'ends'
    await until('the key has ended', async () => (await opens(world, api_key)) === 401)
    return 'ends'
  }),
  service_account: proof(['of an account', 'own'], [false, true], async (world, whose) => {
    const account = await world.ok('owner', 'POST', `${world.path}/service-accounts`, { name: 'nightly' })
    const key = { name: 'k', scopes: ['runs:read'], organization_id: world.id }
    const made = await world.ok('owner', 'POST', '/api-keys', {
      ...key,
      ...(whose === 'own' ? {} : { service_account: account.id }),
    })
    return made.user_id === world.people.owner.userId
  }),
  default_agent_access: proof(['allow', 'deny'], ['allow', 'deny'], async (world, access, way) => {
    const usual = { scopes: ['agents:authorize'], organization_id: world.id }
    const { api_key: key } = await keyWith(
      world,
      { ...(way === 'POST' ? usual : { scopes: usual.scopes }), default_agent_access: access },
      way,
    )
    const asked = { agent: { name: 'a', kind: 'hook' }, session_id: key, tool_name: 'Read', tool_input: {} }
    return (await world.send({ key }, 'POST', '/authorize', asked)).body.decision
  }),
  active: proof([true, false], [200, 401], async (world, active, way) =>
    opens(world, (await keyWith(world, { active }, way)).api_key),
  ),
}

/** Makes or changes a service account with this field. */
async function accountWith(world: World, field: object, way: string): Promise<string> {
  const path = `${world.path}/service-accounts`
  const { id } = await world.ok('owner', 'POST', path, { name: 'usual', ...(way === 'POST' ? field : {}) })
  if (way !== 'POST') await world.ok('owner', 'PATCH', `${path}/${id}`, field)
  return id
}

export const serviceAccountProofs: Proofs = {
  name: proof(
    ['one', 'two'],
    ['one', 'two'],
    async (world, name, way) =>
      (
        await world.ok(
          'owner',
          'GET',
          `${world.path}/service-accounts/${await accountWith(world, { name }, way)}`,
        )
      ).name,
  ),
  role: proof(['member', 'viewer'], [201, 403], async (world, role, way) => {
    const key = { name: 'k', scopes: ['runs:write'], organization_id: world.id }
    const service_account = await accountWith(world, { role }, way)
    return (await world.send('owner', 'POST', '/api-keys', { ...key, service_account })).status
  }),
}

export const organizationProofs: Proofs = {
  name: proof(['one', 'two'], ['one', 'two'], async (world, name) => {
    const { id } = await world.ok('member', 'POST', '/organizations', { name })
    return (await world.listed('member', '/me', id, 'organizations')).name
  }),
}

export const memberProofs: Proofs = {
  role: proof(['member', 'viewer'], [200, 403], async (world, role) => {
    const id = await world.workflow(nothing)
    await world.ok('owner', 'PATCH', `${world.path}/members/${world.people.member.userId}`, { role })
    return (await world.execute(id)).status
  }),
}

/** Creates a group with this field, or changes the field of an existing group. Returns the group. */
async function groupWith(world: World, field: object, way: string) {
  const groups = `${world.path}/groups`
  const { id } = await world.ok('owner', 'POST', groups, { name: 'g', ...(way === 'POST' ? field : {}) })
  if (way !== 'POST') await world.ok('owner', 'PATCH', `${groups}/${id}`, field)
  return world.ok('admin', 'GET', `${groups}/${id}`)
}

export const groupProofs: Proofs = {
  name: proof(
    ['finance', 'legal'],
    ['finance', 'legal'],
    async (world, name, way) => (await groupWith(world, { name }, way)).name,
  ),
  description: proof(
    ['one', 'two'],
    ['one', 'two'],
    async (world, description, way) => (await groupWith(world, { description }, way)).description,
  ),
  default_agent_access: proof(['allow', 'deny'], ['allow', 'deny'], async (world, access, way) => {
    await groupWith(world, { members: [world.people.member.userId] }, 'POST').then(({ id }) =>
      world.ok('owner', way, `${world.path}/groups/${id}`, { default_agent_access: access }),
    )
    return (await world.ask('Read')).decision
  }),
  'members[]': proof<'member' | 'admin'>(
    ['member', 'admin'],
    ['member', 'admin'],
    async (world, who, way) => {
      const { members } = await groupWith(world, { members: [world.people[who].userId] }, way)
      return members[0].role
    },
  ),
}

/** Invites a person who is not a member, or another address. */
async function invite(world: World, more: object = {}) {
  const { member } = (await World.make(world.api)).people
  const email = `${member.userId}@elsewhere.test`
  const body = { email, send_mail: false, ...more }
  const { id, token } = await world.ok('owner', 'POST', `${world.path}/invitations`, body)
  const accept = () => world.send({ key: member.key }, 'POST', '/invitations/accept', { token })
  /** Whether the person can accept the invitation. */
  const isOpen = async () => (await accept()).status === 200
  return { id, email, accept, isOpen }
}

export const invitationsProofs: Proofs = {
  'emails[]': proof(['a@acme.test', 'b@acme.test'], ['a@acme.test', 'b@acme.test'], async (world, email) => {
    const made = await world.ok('owner', 'POST', `${world.path}/invite`, {
      emails: [email],
      send_mail: false,
    })
    return made.invitations[0].email
  }),
  role: proof(
    ['member', 'admin'],
    ['member', 'admin'],
    async (world, role) => (await several(world, { role })).role,
  ),
  expires_in_seconds: proof([60, 3_600], [60, 3_600], async (world, expires_in_seconds) => {
    const { created_at, expires_at } = await several(world, { expires_in_seconds })
    return (Date.parse(expires_at) - Date.parse(created_at)) / 1_000
  }),
  send_mail: proof([false, true], [0, 1], async (world, send_mail) => {
    const { email } = await several(world, { send_mail })
    return world.api.mailed.filter((to) => to === email).length
  }),
}

/** Invites an address of its own, and returns the invitation. */
async function several(world: World, more: object) {
  const emails = [`${world.people.member.userId.toLowerCase()}@several.test`]
  const made = await world.ok('owner', 'POST', `${world.path}/invite`, { emails, send_mail: false, ...more })
  return made.invitations[0]
}

export const invitationProofs: Proofs = {
  email: proof(['own', 'other'], [true, false], async (world, whose) => {
    const { isOpen } = await invite(world, whose === 'own' ? {} : { email: 'somebody@else.test' })
    return isOpen()
  }),
  role: proof(['member', 'admin'], ['member', 'admin'], async (world, role) => {
    const { accept } = await invite(world, { role })
    return (await accept()).body.role
  }),
  expires_in_seconds: proof([60, 3_600], [false, true], async (world, expires_in_seconds) => {
    const { id, isOpen } = await invite(world, { expires_in_seconds })
    // Simulates that two minutes pass.
    await world.api.stack.context.pool.query(
      `update invitations set expires_at = expires_at - interval '2 minutes' where id = $1`,
      [id],
    )
    return isOpen()
  }),
  send_mail: proof([false, true], [0, 1], async (world, send_mail) => {
    const { email } = await invite(world, { send_mail })
    return world.api.mailed.filter((to) => to === email.toLowerCase()).length
  }),
}

/** What became of the admin's mail about a held call, once the owner's mail has left without a delay. */
async function mailOfAdmin(world: World, preferences: object, isExpected: boolean): Promise<unknown> {
  await world.hold()
  await world.ok('owner', 'PUT', '/me/notifications', { mail: true, delay_seconds: 0 })
  await world.ok('admin', 'PUT', '/me/notifications', preferences)
  await world.ask('Write', { file_path: '/a' })
  const stateOf = async (who: 'owner' | 'admin'): Promise<string | null> => {
    const { data } = await world.ok('owner', 'GET', `${world.path}/notifications?channel=mail`)
    const found = data.find(
      ({ recipient, event }: { recipient: string; event: string }) =>
        recipient === world.people[who].userId && event === 'approval.created',
    )
    return found?.state ?? null
  }
  await until('the owner’s mail has left', async () => (await stateOf('owner')) === 'sent')
  if (isExpected) await until('the admin’s mail has left', async () => (await stateOf('admin')) === 'sent')
  return stateOf('admin')
}

/** What the admin says of their absence, for which the owner is the deputy by default. */
async function absence(world: World, over: object) {
  const [from, until] = [0, 1].map((days) => new Date(Date.now() + days * 86_400_000).toISOString())
  const body = { from, until, deputy: world.people.owner.userId, ...over }
  return (await world.ok('admin', 'PUT', '/me/absence', body)).absence
}
const inDays = (days: number): string =>
  new Date(Math.floor(Date.now() / 86_400_000 + days) * 86_400_000).toISOString()
const times = [inDays(-2), inDays(-1)] as const
const ends = [inDays(2), inDays(3)] as const

export const absenceProofs: Proofs = {
  from: proof(times, times, async (world, from) => (await absence(world, { from })).from),
  until: proof(ends, ends, async (world, until) => (await absence(world, { until })).until),
  deputy: proof(['owner', 'member'], [true, false], async (world, who) => {
    const { deputy } = await absence(world, { deputy: world.people[who as 'owner' | 'member'].userId })
    return deputy.user_id === world.people.owner.userId
  }),
}

export const mailPreferenceProofs: Proofs = {
  mail: proof([true, false], ['sent', null], (world, mail) =>
    mailOfAdmin(world, { mail, delay_seconds: 0 }, mail),
  ),
  time_zone: proof(['Europe/Berlin', null], ['Europe/Berlin', null], async (world, time_zone) => {
    await world.ok('admin', 'PUT', '/me/notifications', { mail: true, delay_seconds: 0, time_zone })
    return (await world.ok('admin', 'GET', '/me/notifications')).time_zone
  }),
  delay_seconds: proof([0, 1_800], ['sent', 'pending'], (world, delay_seconds) =>
    mailOfAdmin(world, { mail: true, delay_seconds }, delay_seconds === 0),
  ),
}

const accountPath = (world: World): string =>
  `${world.path}/members/${world.people.member.userId}/accounts/slack`
const linkedAccount = async (world: World): Promise<unknown> =>
  (await world.listed('member', '/me', world.id, 'organizations')).slack_account

export const slackAccountProofs: Proofs = {
  external_id: proof(['U012ABCD', 'U012ABCE'], ['U012ABCD', 'U012ABCE'], async (world, external_id) => {
    const { context } = world.api.stack
    await connectSlack({ context, organizationId: world.id, caller: () => world.people.owner })
    await world.ok('owner', 'PUT', accountPath(world), { external_id })
    return (await world.listed('member', '/me', world.id, 'organizations')).slack_claim.external_id
  }),
  code: proof(['right', 'wrong'], ['U012ABCDEF', null], async (world, which) => {
    const { context } = world.api.stack
    const caller = () => world.people.owner
    await connectSlack({ context, organizationId: world.id, caller })
    const body = { external_id: 'U012ABCDEF' }
    await world.ok('member', 'PUT', accountPath(world), body)
    const { userId } = world.people.member
    const { rows } = await context.pool.query('select code from slack_claims where user_id = $1', [userId])
    const [{ code }] = rows
    const wrong = code === '00000000' ? '00000001' : '00000000'
    await world.send('member', 'PUT', accountPath(world), { ...body, code: which === 'right' ? code : wrong })
    return linkedAccount(world)
  }),
}
