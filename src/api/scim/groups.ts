import { z } from 'zod'
import type { Context } from '../../governance/context.ts'
import { mostGroupMembers } from '../../governance/people/groups.ts'
import {
  addScimGroup,
  changeScimGroup,
  listScimGroups,
  readScimGroup,
  removeScimGroup,
  type ScimGroup,
  type ScimGroupChange,
} from '../../governance/signin/scim-groups.ts'
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

const schema = `${urn}:schemas:core:2.0:Group`

const reference = z.looseObject({ value: z.string().max(100) }).transform(({ value }) => value)
const references = z.array(reference).max(mostGroupMembers)
const externalId = z.string().max(500).nullish()
const group = z.looseObject({ displayName: nameField(200), externalId, members: references.nullish() })
const changes = z.looseObject({
  displayName: nameField(200).optional(),
  externalId,
  members: z.union([references, reference.transform((one) => [one])]).optional(),
})

export function scimGroups(on: On, context: Context): void {
  const { db } = context
  const shown = (found: ScimGroup, status = 200) => ({ status, body: viewOf(context, found, true) })

  on('get', '/Groups', async (request, { organizationId }) => {
    const { start, limit, filter: text, withMembers } = asked(request)
    const filter = filterOf(text, ['displayName', 'externalId', 'id'])
    const list = { filter, offset: start - 1, limit, withMembers }
    const { total, groups } = await listScimGroups(db, organizationId, list)
    const views = groups.map((each) => viewOf(context, each, withMembers))
    return { status: 200, body: listOf(views, total, start) }
  })
  on('post', '/Groups', async (request, directory) => {
    const given = await bodyOf(request, group)
    const input = { ...given, externalId: given.externalId ?? null, members: given.members ?? [] }
    return shown(await addScimGroup(context, directory, input), 201)
  })
  on('get', '/Groups/:id', async (request, { organizationId }) => {
    const { withMembers } = asked(request)
    const found = await readScimGroup(db, organizationId, idOf(request), withMembers)
    return { status: 200, body: viewOf(context, found, withMembers) }
  })
  on('put', '/Groups/:id', async (request, directory) => {
    const { displayName, ...given } = await bodyOf(request, group)
    // Members that are not named are taken out: the standard allows it, and it gives nobody a right.
    const members = new Set(given.members ?? [])
    const change = { displayName, externalId: given.externalId ?? null, members: () => members }
    return shown(await changeScimGroup(context, directory, idOf(request), change))
  })
  on('patch', '/Groups/:id', async (request, directory) => {
    const { Operations: operations } = await bodyOf(request, patch)
    return shown(await changeScimGroup(context, directory, idOf(request), changeOf(operations)))
  })
  on('delete', '/Groups/:id', async (request, directory) => {
    await removeScimGroup(context, directory, idOf(request))
    return { status: 204 }
  })
}

const changeable = ['displayName', 'externalId', 'members'] as const
type Members = ReadonlySet<string>

/** In the order of the operations. Attributes that a group does not have here are left out. */
function changeOf(operations: readonly Operation[]): ScimGroupChange {
  const steps: ((present: Members) => Members)[] = []
  const found: { displayName?: string; externalId?: string | null } = {}
  for (const operation of operations) {
    const op = opOf(operation)
    const { attribute, member } = pathOf(operation)
    if (op === 'remove' && attribute === null)
      throw new ApiError('bad_request', 'say in `path` what is removed')
    const given = member === null ? valuesOf(operation, attribute) : { members: [member] }
    if (member !== null && op !== 'remove')
      throw new ApiError('bad_request', 'with `members[value eq "…"]`, members can only be removed')
    if (op === 'remove' && attribute === 'displayName')
      throw new ApiError('bad_request', '`displayName` cannot be removed: replace it')
    if (op === 'remove' && attribute === 'externalId') found.externalId = null
    else if (given.externalId !== undefined) found.externalId = given.externalId
    if (given.displayName !== undefined) found.displayName = given.displayName
    const { members } = given
    if (op === 'remove' && attribute === 'members')
      steps.push((present) => (members === undefined ? new Set() : without(present, members)))
    else if (members !== undefined)
      steps.push((present) => new Set(op === 'add' ? [...present, ...members] : members))
  }
  const change = (present: Members): Members => steps.reduce((members, step) => step(members), present)
  return steps.length === 0 ? found : { ...found, members: change }
}

const without = (present: Members, members: readonly string[]): Members =>
  new Set([...present].filter((each) => !members.includes(each)))

/** `attribute` is null without a path. Throws `bad_request` for a part of the members that is not understood. */
function pathOf({ path }: Operation) {
  if (path === undefined) return { attribute: null, member: null }
  const [, list, member] = /^\s*([\w:.]+)\s*\[\s*value\s+eq\s+"([^"]{1,100})"\s*\]\s*$/i.exec(path) ?? []
  const attribute = nameOfPath(list ?? path.trim(), schema, changeable)
  if (member !== undefined && attribute === 'members') return { attribute, member }
  if (member !== undefined || (attribute === 'other' && /members/i.test(path)))
    throw new ApiError('bad_request', 'this path is not supported: use `members[value eq "…"]`')
  return { attribute, member: null }
}

function valuesOf({ op, value }: Operation, attribute: string | null): z.output<typeof changes> {
  if (op.toLowerCase() === 'remove' && attribute !== 'members') return {}
  if (value === undefined && op.toLowerCase() === 'remove') return {}
  return validate(
    changes,
    attribute === null ? named(value, schema, changeable) : { [attribute]: value },
    'the operation',
  )
}

function viewOf({ config }: Pick<Context, 'config'>, found: ScimGroup, withMembers: boolean): object {
  const base = scimUri(config)
  const members = found.members.map(({ id, email }) => ({
    value: id,
    display: email,
    type: 'User',
    $ref: `${base}/Users/${id}`,
  }))
  return {
    schemas: [schema],
    id: found.id,
    ...(found.externalId === null ? {} : { externalId: found.externalId }),
    displayName: found.displayName,
    ...(withMembers ? { members } : {}),
    meta: {
      resourceType: 'Group',
      created: found.createdAt.toISOString(),
      location: `${base}/Groups/${found.id}`,
    },
  }
}
