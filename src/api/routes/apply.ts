import { z } from 'zod'
import { applyObjects, mostShown } from '../../governance/declared/apply.ts'
import { declaredKinds, mostObjects } from '../../governance/declared/declared.ts'
import { listObjects } from '../../governance/declared/list.ts'
import { mostReleased, releaseObjects } from '../../governance/declared/release.ts'
import { actOnce } from '../../governance/idempotency.ts'
import { nameField } from '../../policy/text.ts'
import { mayBeHeld, unlessHeld, whenHeld } from '../held.ts'
import { inputsBodyLimit } from '../json-body.ts'
import { readDeclared } from '../object-kinds.ts'
import { ok, tagged } from '../route.ts'
import {
  anyJson,
  called,
  id,
  listOf,
  listQueryOfPath,
  managedBy,
  named,
  pageIn,
  verdict,
} from '../schemas/common.ts'
import { exampleCall } from './rule-questions.ts'

const { route } = tagged('Governance')

const kind = called('ObjectKind', z.enum(declaredKinds))

export const applyBody = named('ApplyRequest', {
  objects: z
    .array(z.record(z.string(), anyJson))
    .max(mostObjects)
    .describe(
      'Each with its `kind`, the `path` of its file, and the fields that the routes of its kind take. A workflow has a `slug`. The kind `organization` has settings.',
    ),
  dry_run: z.boolean().default(false).describe('changes nothing, and needs only the reading scopes'),
  repository: nameField(500)
    .optional()
    .describe(
      'where the files are; objects that came from it and are no longer named are deleted. Without it nothing is deleted, and any repository may take the objects over',
    ),
  commit: nameField(100).optional(),
  plan: z.string().max(100).optional().describe('of a dry run: 409 if something else would be done now'),
})

const terms = z.string().nullable()
const change = named('AppliedChange', {
  action: z
    .enum(['create', 'change', 'delete', 'adopt'])
    .describe(
      '`adopt`: it was made by hand or by files without a repository, and comes from this file from now on',
    ),
  kind,
  name: z.string(),
  id: id.nullable(),
  path: z.string().nullable(),
  lines: z.array(z.string()).describe('such as `verdict: allow → deny`; at most 20'),
  decided_otherwise: z
    .strictObject({
      call: exampleCall,
      before: verdict,
      after: verdict,
      terms: z
        .strictObject({ before: terms, after: terms })
        .describe('who must approve, in words; null for no approval'),
    })
    .nullable()
    .describe('of a rule: a call that would be decided otherwise; null if none was found in time'),
})
const count = z.int().min(0)
const applied = named('Applied', {
  dry_run: z.boolean(),
  plan: z.string().describe('a hash of all that is done'),
  created: count,
  changed: count,
  deleted: count,
  unchanged: count.describe('also those that are only adopted'),
  changes: z.array(change).describe(`at most ${mostShown}`),
  more: count.describe('so many changes are not in the list'),
})

export const releaseBody = named('ReleaseRequest', {
  objects: z.array(z.strictObject({ kind, name: z.string().min(1).max(400) })).max(mostReleased),
})

const declaredObject = z
  .looseObject({ kind, managed_by: managedBy })
  .meta({ id: 'DeclaredObject', description: 'in the form that `apply` takes' })

export const applyRoutes = [
  route({
    key: 'POST /organizations/{id}/apply',
    needs: { scope: null, role: 'member', subject: 'organization' },
    audit: ['organization.applied', whenHeld],
    summary: 'Make rules, policies, groups, settings and workflows as files declare them, all or nothing',
    description:
      'Needs the scopes and the role of each kind that occurs or is deleted. Objects are matched by name (workflows: by slug; policies: by tool and role) and keep their ids.',
    bodyLimit: inputsBodyLimit,
    bodyValues: 400_000,
    body: applyBody,
    responses: { 200: applied, ...mayBeHeld },
    async handle({ context, caller, body, once }) {
      const { objects, unread } = await readDeclared(body.objects)
      const { repository = null, commit = null, plan = null, dry_run: dryRun } = body
      const request = { objects, repository, commit }
      const made = await actOnce(once, () =>
        applyObjects(context, caller, { request, unread, dryRun, plan }, once),
      )
      return unlessHeld(made, ok)
    },
  }),
  route({
    key: 'GET /organizations/{id}/objects',
    needs: {
      scope: 'governance:read',
      further: ['rules:read', 'policies:read', 'organizations:read', 'workflows:read'],
      role: 'admin',
      subject: 'organization',
    },
    summary: 'All that files can declare, in the form that `apply` takes, by kind and name',
    description: 'Without workflows that have no slug, and groups of the directory.',
    query: listQueryOfPath,
    responses: { 200: listOf(declaredObject) },
    handle: async ({ context, caller, query }) =>
      ok(await listObjects(context, caller.organizationId, pageIn(query))),
  }),
  route({
    key: 'POST /organizations/{id}/release',
    needs: { scope: null, role: 'member', subject: 'organization' },
    audit: ['organization.released'],
    summary: 'Give objects that come from files back to people',
    description:
      'Needs the scopes and the role of each kind. The next application of their files takes them over again.',
    body: releaseBody,
    responses: { 200: named('Released', { released: count }) },
    handle: async ({ context, caller, body, once }) =>
      ok(await actOnce(once, () => releaseObjects(context, caller, body.objects, once))),
  }),
] as const
