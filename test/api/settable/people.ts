import { until } from '../../stack/until.ts'

import { proof, type Proofs, type World } from './world.ts'

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
    return (await world.ok('member', 'GET', '/api-keys')).data.find((each: { id: string }) => each.id === id)
      .name
  }),
  'scopes[]': proof(['workflows:read', 'runs:read'], [200, 403], async (world, scope, way) =>
    opens(world, (await keyWith(world, { scopes: [scope] }, way)).api_key),
  ),
  'scopes.*': proof([true, false], [200, 403], async (world, wanted, way) =>
    opens(
      world,
      (await keyWith(world, { scopes: { 'runs:read': true, 'workflows:read': wanted } }, way)).api_key,
    ),
  ),
  organization_id: proof(['own', 'other'], [201, 404], async (world, which) => {
    const organization_id = which === 'own' ? world.id : 'org_none'
    return (
      await world.send('member', 'POST', '/api-keys', { name: 'k', scopes: ['runs:read'], organization_id })
    ).status
  }),
  expires_at: proof([null, 1_500], ['stays', 'ends'], async (world, milliseconds, way) => {
    const expires_at = milliseconds === null ? null : new Date(Date.now() + milliseconds).toISOString()
    const { api_key } = await keyWith(world, { expires_at }, way)
    if (milliseconds === null) return (await opens(world, api_key)) === 200 ? 'stays' : 'ends'
    await until('the key has ended', async () => (await opens(world, api_key)) === 401)
    return 'ends'
  }),
  active: proof([true, false], [200, 401], async (world, active, way) =>
    opens(world, (await keyWith(world, { active }, way)).api_key),
  ),
}

export const organizationProofs: Proofs = {
  name: proof(['one', 'two'], ['one', 'two'], async (world, name) => {
    const { id } = await world.ok('member', 'POST', '/organizations', { name })
    return (await world.ok('member', 'GET', '/me')).organizations.find(
      (each: { id: string }) => each.id === id,
    ).name
  }),
}

const definition = { steps: [{ id: 's', tool: 'memory_get', params: { key: 'k' } }] }

export const memberProofs: Proofs = {
  role: proof(['member', 'viewer'], [200, 403], async (world, role) => {
    const id = await world.workflow(definition)
    await world.ok('owner', 'PATCH', `${world.path}/members/${world.people.member.userId}`, { role })
    return (await world.execute(id)).status
  }),
}

/** Adds a person who is not a member of this World's organization. */
async function stranger(world: World) {
  const { World: Worlds } = await import('./world.ts')
  const { people } = await Worlds.make(world.api)
  const { email } = await world.api.stack.context.db
    .selectFrom('users')
    .select('email')
    .where('id', '=', people.member.userId)
    .executeTakeFirstOrThrow()
  return { key: people.member.key, email }
}

async function invite(world: World, more: object = {}) {
  const who = await stranger(world)
  const made = await world.ok('owner', 'POST', `${world.path}/invitations`, {
    email: who.email,
    send_mail: false,
    ...more,
  })
  const accept = () => world.send({ key: who.key }, 'POST', '/invitations/accept', { token: made.token })
  return { ...who, made, accept }
}

export const invitationProofs: Proofs = {
  email: proof(['own', 'other'], [200, false], async (world, whose) => {
    const { accept } = await invite(world, whose === 'own' ? {} : { email: 'somebody@else.test' })
    const { status } = await accept()
    return status === 200 ? status : false
  }),
  role: proof(
    ['member', 'admin'],
    ['member', 'admin'],
    async (world, role) => (await (await invite(world, { role })).accept()).body.role,
  ),
  expires_in_seconds: proof([60, 3_600], [false, 200], async (world, expires_in_seconds) => {
    const { made, accept } = await invite(world, { expires_in_seconds })
    // Simulates that two minutes pass.
    await world.api.stack.context.pool.query(
      `update invitations set expires_at = expires_at - interval '2 minutes' where id = $1`,
      [made.id],
    )
    const { status } = await accept()
    return status === 200 ? status : false
  }),
  send_mail: proof([false, true], [0, 1], async (world, send_mail) => {
    const { email } = await invite(world, { send_mail })
    return world.api.mailed.filter((to) => to === email.toLowerCase()).length
  }),
}
