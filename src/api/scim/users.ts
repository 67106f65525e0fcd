import { z } from 'zod'
import type { Context } from '../../governance/context.ts'
import {
  addScimUser,
  changeScimUser,
  listScimUsers,
  readScimUser,
  removeScimUser,
  type ScimUser,
} from '../../governance/signin/scim.ts'
import { scimUri } from '../../governance/signin/provider.ts'
import { nameField } from '../../policy/text.ts'
import { ApiError, validate } from '../errors.ts'
import {
  asked,
  bodyOf,
  filterOf,
  idOf,
  listOf,
  named,
  nameOfPath,
  opOf,
  patch,
  urn,
  type On,
  type Operation,
} from './kit.ts'

const schema = `${urn}:schemas:core:2.0:User`

const person = z.looseObject({
  userName: z.email().max(254),
  externalId: z.string().max(500).nullish(),
  active: z.boolean().optional(),
  displayName: nameField(200).nullish(),
  name: z
    .looseObject({
      formatted: z.string().max(200).nullish(),
      givenName: z.string().max(100).nullish(),
      familyName: z.string().max(100).nullish(),
    })
    .nullish(),
})

/** Entra ID writes truth values as text. */
const truth = z.union([
  z.boolean(),
  z.enum(['true', 'false', 'True', 'False']).transform((text) => text.toLowerCase() === 'true'),
])
const changes = z.looseObject({ active: truth.optional(), externalId: z.string().max(500).nullish() })

export function scimUsers(on: On, context: Context): void {
  const { db } = context
  const shown = (user: ScimUser, status = 200) => ({ status, body: viewOf(context, user) })
  on('get', '/Users', async (request, { organizationId }) => {
    const { start, limit, filter: text } = asked(request)
    const filter = filterOf(text, ['userName', 'externalId', 'id'])
    const { total, users } = await listScimUsers(db, organizationId, { filter, offset: start - 1, limit })
    const views = users.map((user) => viewOf(context, user))
    return { status: 200, body: listOf(views, total, start) }
  })
  on('post', '/Users', async (request, directory) => {
    const given = await bodyOf(request, person)
    const { active = true, externalId = null } = given
    const input = { ...given, name: nameOf(given), active, externalId: externalId ?? null }
    return shown(await addScimUser(context, directory, input), 201)
  })
  on('get', '/Users/:id', async (request, { organizationId }) =>
    shown(await readScimUser(db, organizationId, idOf(request))),
  )
  on('put', '/Users/:id', async (request, directory) => {
    const { userName, active, externalId = null } = await bodyOf(request, person)
    const before = await readScimUser(db, directory.organizationId, idOf(request))
    if (userName.toLowerCase() !== before.userName.toLowerCase())
      throw new ApiError('bad_request', 'the address of an account belongs to its person, and stays')
    const state = active === undefined ? {} : { active }
    return shown(await changeScimUser(context, directory, before.id, { ...state, externalId }))
  })
  on('patch', '/Users/:id', async (request, directory) => {
    const { Operations: operations } = await bodyOf(request, patch)
    return shown(await changeScimUser(context, directory, idOf(request), changesOf(operations)))
  })
  on('delete', '/Users/:id', async (request, directory) => {
    await removeScimUser(context, directory, idOf(request))
    return { status: 204 }
  })
}

function nameOf({ displayName, name, userName }: z.output<typeof person>): string {
  const whole = [name?.givenName, name?.familyName].filter(Boolean).join(' ')
  const given = displayName ?? name?.formatted ?? whole
  const read = nameField(200).safeParse(given)
  return read.success ? read.data : (userName.split('@', 1)[0] as string)
}

const changeable = ['active', 'externalId'] as const

/** Only these attributes change here. Others, such as the name, belong to the person, and are left as they are. */
function changesOf(operations: readonly Operation[]): { active?: boolean; externalId?: string | null } {
  const found: { active?: boolean; externalId?: string | null } = {}
  for (const operation of operations) {
    const { path, value } = operation
    const name = path === undefined ? null : nameOfPath(path, schema, changeable)
    if (opOf(operation) === 'remove') {
      if (name === 'active') throw new ApiError('bad_request', '`active` cannot be removed: set it to false')
      if (name === 'externalId') found.externalId = null
      continue
    }
    const { active, externalId } = validate(
      changes,
      name === null ? named(value, schema, changeable) : { [name]: value },
      'the operation',
    )
    if (active !== undefined) found.active = active
    if (externalId !== undefined) found.externalId = externalId
  }
  return found
}

function viewOf({ config }: Pick<Context, 'config'>, user: ScimUser): object {
  return {
    schemas: [schema],
    id: user.id,
    ...(user.externalId === null ? {} : { externalId: user.externalId }),
    userName: user.userName,
    displayName: user.name,
    active: user.active,
    emails: [{ value: user.userName, primary: true, type: 'work' }],
    meta: {
      resourceType: 'User',
      created: user.createdAt.toISOString(),
      location: `${scimUri(config)}/Users/${user.id}`,
    },
  }
}
