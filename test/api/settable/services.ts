import { until } from '../../stack/until.ts'
import { startScriptedServer, type ScriptedServer } from '../../support/scripted-server.ts'
import { formOf } from '../fixtures.ts'
import { proof, type Proofs, type Reply, type World } from './world.ts'

/* Fields of what reaches services outside, and of files. */

/** A proof in which a server plays a service during each observation. */
const served = <V>(
  values: readonly [V, V],
  seen: readonly [unknown, unknown],
  observe: (service: ScriptedServer, world: World, value: V, way: string) => Promise<unknown>,
) =>
  proof(values, seen, async (world, value, way) => {
    const service = await startScriptedServer()
    service.answer = ({ path }) =>
      path.startsWith('/hook') ? { status: 204 } : { status: 200, body: { login: 'octo' } }
    try {
      return await observe(service, world, value, way)
    } finally {
      await service.close()
    }
  })

/** Creates a webhook with these fields, or changes the fields of an existing one. Returns its path. */
async function hookWith(world: World, service: ScriptedServer, fields: object, way = 'POST') {
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

const events = ['run.completed', 'approval.created'] as const

export const webhookProofs: Proofs = {
  url: served(['/hook/one', '/hook/two'], ['/hook/one', '/hook/two'], async (service, world, path, way) => {
    const webhook = await hookWith(world, service, { url: `${service.url}${path}` }, way)
    await world.ok('owner', 'POST', `${webhook}/test`, {})
    return (await message(service))?.path
  }),
  'events[]': served(events, events, async (service, world, event, way) => {
    await world.hold()
    await hookWith(world, service, { events: [event] }, way)
    await world.completed()
    await world.ask('Write', { file_path: '/a' })
    return JSON.parse((await message(service))?.body ?? '').type
  }),
  active: served([true, false], [200, 409], async (service, world, active, way) => {
    const webhook = await hookWith(world, service, { active }, way)
    const { status } = await world.send('owner', 'POST', `${webhook}/test`, {})
    return status < 300 ? 200 : status
  }),
}

export const rotationProofs: Proofs = {
  former_valid_seconds: served([0, 3_600], [1, 2], async (service, world, former_valid_seconds) => {
    const webhook = await hookWith(world, service, {})
    await world.ok('owner', 'POST', `${webhook}/rotate-secret`, { former_valid_seconds })
    await world.ok('owner', 'POST', `${webhook}/test`, {})
    // Each secret that is still valid signs the message.
    return String((await message(service))?.headers['webhook-signature']).split(' ').length
  }),
}

/** Connects GitHub with these fields, or renames an existing connection. */
async function connectWith(world: World, service: ScriptedServer, fields: object, way = 'POST') {
  const credential = { token: 'ghp_usual', base_url: service.url }
  const created = { credential, scope: 'personal', ...(way === 'POST' ? fields : {}) }
  const { id } = await world.ok('owner', 'POST', '/tools/github_get_issue/connect', created)
  if (way !== 'POST') await world.ok('owner', 'PATCH', `/connections/${id}`, fields)
}

export const connectionProofs: Proofs = {
  name: served(['one', 'two'], ['one', 'two'], async (service, world, name, way) => {
    await connectWith(world, service, { name }, way)
    return (await world.ok('owner', 'GET', '/connections')).data[0].name
  }),
  scope: served(['personal', 'organization'], [0, 1], async (service, world, scope) => {
    await connectWith(world, service, { scope })
    return (await world.ok('member', 'GET', '/connections')).data.length
  }),
  'credential.*': served(['one', 'two'], ['Bearer one', 'Bearer two'], async (service, world, token) => {
    await connectWith(world, service, { credential: { token, base_url: service.url } })
    return service.arrived[0]?.headers.authorization
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
  'labels[]': proof(['pii', 'finance'], ['internal,pii', 'finance,internal'], async (world, label) =>
    (await upload(world, 'text', label)).labels.join(),
  ),
}
