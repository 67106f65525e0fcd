import { connectSlack } from '../../governance/notifications/people.ts'
import { until } from '../../stack/until.ts'
import { startScriptedServer, type ScriptedServer } from '../../support/scripted-server.ts'
import { formOf } from '../fixtures.ts'
import { proof, type Proofs, type Reply, type World } from './world.ts'

/* Fields of what reaches services outside: webhooks, connections, mails, Slack accounts and files. */

/** A server that plays a service during one observation. */
async function withService<T>(work: (service: ScriptedServer) => Promise<T>): Promise<T> {
  const service = await startScriptedServer()
  service.answer = ({ path }) =>
    path.startsWith('/hook') ? { status: 204 } : { status: 200, body: { login: 'octo' } }
  try {
    return await work(service)
  } finally {
    await service.close()
  }
}

const completed = (world: World): Promise<Reply['body']> =>
  world.run({ steps: [{ id: 's', tool: 'memory_get', params: { key: 'k' } }] })

/** Creates a webhook with these fields, or changes the fields of an existing one. Returns its path. */
async function hookWith(
  world: World,
  service: ScriptedServer,
  fields: object,
  way = 'POST',
): Promise<string> {
  const usual = { url: `${service.url}/hook`, events: ['run.failed'] }
  const created = way === 'POST' ? { ...usual, ...fields } : usual
  const { id } = await world.ok('owner', 'POST', `${world.path}/webhooks`, created)
  const path = `${world.path}/webhooks/${id}`
  if (way !== 'POST') await world.ok('owner', 'PATCH', path, fields)
  return path
}
const message = async (service: ScriptedServer) => {
  await until('a message arrives', () => service.arrived.length > 0)
  return service.arrived[0]
}

export const webhookProofs: Proofs = {
  url: proof(['/hook/one', '/hook/two'], ['/hook/one', '/hook/two'], (world, path, way) =>
    withService(async (service) => {
      const webhook = await hookWith(world, service, { url: `${service.url}${path}` }, way)
      await world.ok('owner', 'POST', `${webhook}/test`, {})
      return (await message(service))?.path
    }),
  ),
  'events[]': proof(
    ['run.completed', 'approval.created'],
    ['run.completed', 'approval.created'],
    (world, event, way) =>
      withService(async (service) => {
        await world.settings({ approvals_enabled: true })
        const rule = { name: 'hold', verdict: 'require_approval', tools: ['Write'] }
        await world.ok('owner', 'POST', `${world.path}/rules`, rule)
        await hookWith(world, service, { events: [event] }, way)
        await completed(world)
        await world.ask('Write', { file_path: '/a' })
        return JSON.parse((await message(service))?.body ?? '').type
      }),
  ),
  active: proof([true, false], [200, 409], (world, active, way) =>
    withService(async (service) => {
      const webhook = await hookWith(world, service, { active }, way)
      const { status } = await world.send('owner', 'POST', `${webhook}/test`, {})
      return status < 300 ? 200 : status
    }),
  ),
}

export const rotationProofs: Proofs = {
  former_valid_seconds: proof([0, 3_600], [1, 2], (world, former_valid_seconds) =>
    withService(async (service) => {
      const webhook = await hookWith(world, service, {})
      await world.ok('owner', 'POST', `${webhook}/rotate-secret`, { former_valid_seconds })
      await world.ok('owner', 'POST', `${webhook}/test`, {})
      // Each secret that is still valid signs the message.
      return String((await message(service))?.headers['webhook-signature']).split(' ').length
    }),
  ),
}

/** Connects GitHub with these fields, or renames an existing connection. */
async function connectWith(
  world: World,
  service: ScriptedServer,
  fields: object,
  way = 'POST',
): Promise<void> {
  const credential = { token: 'ghp_usual', base_url: service.url }
  const created = { credential, scope: 'personal', ...(way === 'POST' ? fields : {}) }
  const { id } = await world.ok('owner', 'POST', '/tools/github_get_issue/connect', created)
  if (way !== 'POST') await world.ok('owner', 'PATCH', `/connections/${id}`, fields)
}

export const connectionProofs: Proofs = {
  name: proof(['one', 'two'], ['one', 'two'], (world, name, way) =>
    withService(async (service) => {
      await connectWith(world, service, { name }, way)
      return (await world.ok('owner', 'GET', '/connections')).data[0].name
    }),
  ),
  scope: proof(['personal', 'organization'], [0, 1], (world, scope) =>
    withService(async (service) => {
      await connectWith(world, service, { scope })
      return (await world.ok('member', 'GET', '/connections')).data.length
    }),
  ),
  'credential.*': proof(['ghp_one', 'ghp_two'], ['Bearer ghp_one', 'Bearer ghp_two'], (world, token) =>
    withService(async (service) => {
      await connectWith(world, service, { credential: { token, base_url: service.url } })
      return service.arrived[0]?.headers.authorization
    }),
  ),
}

/** What became of the admin's mail about a held call, once the owner's mail has left without a delay. */
async function mailOfAdmin(world: World, preferences: object, isExpected: boolean): Promise<unknown> {
  await world.settings({ approvals_enabled: true })
  const rule = { name: 'hold', verdict: 'require_approval', tools: ['Write'] }
  await world.ok('owner', 'POST', `${world.path}/rules`, rule)
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

export const mailPreferenceProofs: Proofs = {
  mail: proof([true, false], ['sent', null], (world, mail) =>
    mailOfAdmin(world, { mail, delay_seconds: 0 }, mail),
  ),
  delay_seconds: proof([0, 1_800], ['sent', 'pending'], (world, delay_seconds) =>
    mailOfAdmin(world, { mail: true, delay_seconds }, delay_seconds === 0),
  ),
}

const accountPath = (world: World): string =>
  `${world.path}/members/${world.people.member.userId}/accounts/slack`
const linkedAccount = async (world: World): Promise<unknown> =>
  (await world.ok('member', 'GET', '/me')).organizations.find((each: { id: string }) => each.id === world.id)
    .slack_account

export const slackAccountProofs: Proofs = {
  external_id: proof(
    ['U012ABCDEF', 'U012ABCDEG'],
    ['U012ABCDEF', 'U012ABCDEG'],
    async (world, external_id) => {
      await world.ok('owner', 'PUT', accountPath(world), { external_id })
      return linkedAccount(world)
    },
  ),
  code: proof(['right', 'wrong'], ['U012ABCDEF', null], async (world, which) => {
    const { context } = world.api.stack
    const caller = () => world.people.owner
    await connectSlack({ context, organizationId: world.id, caller })
    const body = { external_id: 'U012ABCDEF' }
    await world.ok('member', 'PUT', accountPath(world), body)
    const { code } = await context.db
      .selectFrom('slack_claims')
      .select('code')
      .where('user_id', '=', world.people.member.userId)
      .executeTakeFirstOrThrow()
    const wrong = code === '00000000' ? '00000001' : '00000000'
    await world.send('member', 'PUT', accountPath(world), { ...body, code: which === 'right' ? code : wrong })
    return linkedAccount(world)
  }),
}

async function upload(world: World, content: string, ...labels: string[]): Promise<Reply['body']> {
  const answer = await fetch(`${world.api.base}/files`, {
    method: 'POST',
    headers: { authorization: `Bearer ${world.people.member.key}` },
    body: formOf('notes.txt', content, ...labels),
  })
  const { id } = (await answer.json()) as { id: string }
  return world.ok('member', 'GET', `/files/${id}`)
}

export const fileProofs: Proofs = {
  file: proof(['one', 'three'], [3, 5], async (world, content) => (await upload(world, content)).size),
  'labels[]': proof(
    ['pii', 'finance'],
    [
      ['internal', 'pii'],
      ['finance', 'internal'],
    ],
    async (world, label) => (await upload(world, 'text', label)).labels,
  ),
}
