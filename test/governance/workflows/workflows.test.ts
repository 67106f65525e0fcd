import { describe, expect, test } from '@jest/globals'
import { workflowDefinition, type WorkflowDefinition } from '../../../src/contract/definition.ts'
import { hashOf } from '../../../src/shared/canonical-json.ts'
import type { Caller } from '../../../src/governance/access/identity.ts'
import { listWorkflows } from '../../../src/governance/workflows/list.ts'
import { inspectVersion, listVersions, rollBack } from '../../../src/governance/workflows/versions.ts'
import {
  changeWorkflow,
  createWorkflow,
  deleteWorkflow,
  readWorkflow,
} from '../../../src/governance/workflows/workflows.ts'
import { auditOf } from '../support.ts'
import { useEngine, type Engine } from '../runs/engine-fixture.ts'
import type { Context } from '../../../src/governance/context.ts'
import {
  approveTemplate,
  deprecateTemplate,
  archiveTemplate,
  useTemplate,
} from '../../../src/governance/workflows/registry-lifecycle.ts'
import { listTemplates } from '../../../src/governance/workflows/registry-entry.ts'
import { addOrganization } from '../../api/fixtures.ts'

let engine: Engine
let context: Context
let owner: Caller
let member: Caller
useEngine((started) => {
  engine = started
  context = started.context
  ;[owner, member] = [started.caller('owner'), started.caller('member')]
})

const reading = (path: string): WorkflowDefinition =>
  workflowDefinition.parse({ steps: [{ id: 'read', tool: 'file_read', params: { path } }] })

const create = (caller = member) =>
  createWorkflow(context, caller, {
    name: 'Report',
    description: 'of a quarter',
    definition: reading('a.md'),
  })
const list = async () =>
  (await listWorkflows(context, member, {}, { limit: 200, cursor: null })).data.map(({ id }) => id)
const deploy = (id: string, path: string) =>
  changeWorkflow(context, member, id, { definition: reading(path) })
const missing = { code: 'not_found' }

describe('workflows', () => {
  test('a new one has version 1, frozen and audited by its hash', async () => {
    const workflow = await create()
    expect(workflow).toMatchObject({ version: 1, definition: reading('a.md'), created_by: member.userId })
    expect(await readWorkflow(context.db, workflow.id)).toMatchObject(workflow)
    const [entry] = await auditOf(context, member.organizationId, 1)
    expect(entry).toMatchObject({ event_type: 'workflow.deployed', workflow_id: workflow.id })
    expect(entry?.metadata).toMatchObject({ version: 1, definition_hash: hashOf(reading('a.md')) })
  })

  test('a definition deploys a new version, a name alone does not', async () => {
    const { id } = await create()
    const renamed = await changeWorkflow(context, member, id, { name: 'Other' })
    expect(renamed).toMatchObject({ name: 'Other', version: 1 })
    const changed = await changeWorkflow(context, member, id, {
      definition: reading('b.md'),
      message: 'b',
    })
    expect(changed).toMatchObject({ name: 'Other', version: 2, definition: reading('b.md') })
    expect(await listVersions(context.db, id, { limit: 200 })).toMatchObject([
      { version: 2, message: 'b', deployed_by: member.userId },
      { version: 1, message: '' },
    ])
    expect(await inspectVersion(context.db, member, id, '1')).toMatchObject({ definition: reading('a.md') })
  })

  test('what is saved again unchanged makes no version and no audit entry', async () => {
    const { id } = await create()
    const before = await auditOf(context, member.organizationId, 1)
    const same = { name: 'Report', definition: reading('a.md'), readers: undefined }
    expect(await changeWorkflow(context, member, id, same)).toMatchObject({
      version: 1,
      definition: reading('a.md'),
    })
    expect(await auditOf(context, member.organizationId, 1)).toEqual(before)
    const renamed = await changeWorkflow(context, member, id, { ...same, name: 'Other' })
    expect(renamed).toMatchObject({ version: 1, name: 'Other' })
  })

  test.each(['0', '2', '3', '-1', '1.5', 'x', '99999999999', '1 '])(
    'there is no version `%s`, and no rolling back to it',
    async (version) => {
      const { id } = await create()
      await expect(inspectVersion(context.db, member, id, version)).rejects.toMatchObject(missing)
      await expect(rollBack(context, member, id, { version, message: '' })).rejects.toMatchObject(missing)
      expect(await listVersions(context.db, id, { limit: 200 })).toHaveLength(1)
    },
  )

  test('rolling back deploys the old definition as a new version and overwrites nothing', async () => {
    const { id } = await create()
    await deploy(id, 'b.md')
    const answer = await rollBack(context, member, id, { version: '1', message: 'b was wrong' })
    expect(answer).toEqual({ new_version: 3, rolled_back_from: 2, deployed_at: expect.any(String) })
    expect(await readWorkflow(context.db, id)).toMatchObject({
      version: 3,
      definition: reading('a.md'),
    })
    const versions = await listVersions(context.db, id, { limit: 200 })
    expect(versions.map(({ version }) => version)).toEqual([3, 2, 1])
    expect(versions).toMatchObject([
      { message: 'b was wrong', rolled_back_from: 2, rolled_back_to: 1 },
      { rolled_back_from: null, rolled_back_to: null },
      { rolled_back_from: null, rolled_back_to: null },
    ])
    expect(await inspectVersion(context.db, member, id, '3')).toMatchObject({
      version: 3,
      message: versions[0]?.message,
    })
    const [entry] = await auditOf(context, member.organizationId, 1)
    expect(entry?.metadata).toMatchObject({ version: 3, rolled_back_from: 2, rolled_back_to: 1 })
  })

  test('members read and roll back the versions of workflows that they have written, and no others', async () => {
    const refused = { code: 'insufficient_role' }
    const { id } = await create(owner)
    await expect(inspectVersion(context.db, member, id, '1')).rejects.toMatchObject(refused)
    await expect(rollBack(context, member, id, { version: '1', message: '' })).rejects.toMatchObject(refused)
    await deploy(id, 'b.md')
    expect(await inspectVersion(context.db, member, id, '1')).toMatchObject({ version: 1 })
    expect(await rollBack(context, member, id, { version: '1', message: '' })).toMatchObject({
      new_version: 3,
    })
    const { id: own } = await create()
    await changeWorkflow(context, owner, own, { definition: reading('theirs.md') })
    expect(await inspectVersion(context.db, member, own, '1')).toMatchObject({ version: 1 })
  })

  test('rolling back to the current version, or to a rollback, is a version like any other', async () => {
    const { id } = await create()
    await rollBack(context, member, id, { version: '1', message: '' })
    const again = await rollBack(context, member, id, { version: '2', message: '' })
    expect(again).toMatchObject({ new_version: 3, rolled_back_from: 2 })
    expect(await readWorkflow(context.db, id)).toMatchObject({
      version: 3,
      definition: reading('a.md'),
    })
  })

  test('each of several concurrent rollbacks names the version that was current then', async () => {
    const { id } = await create()
    const answers = await Promise.all(
      [1, 2, 3, 4].map(() => rollBack(engine.another(), member, id, { version: '1', message: '' })),
    )
    const steps = answers.map((each) => `${each.rolled_back_from}-${each.new_version}`)
    expect(new Set(steps)).toEqual(new Set(['1-2', '2-3', '3-4', '4-5']))
  })

  test('concurrent deployments get different versions, and each answer shows its own', async () => {
    const { id } = await create()
    const contexts = [context, engine.another(), engine.another()]
    const answers = await Promise.all(
      Array.from({ length: 21 }, (_, n) =>
        changeWorkflow(contexts[n % 3] as Context, member, id, { definition: reading(`${n}.md`) }),
      ),
    )
    const versions = await listVersions(context.db, id, { limit: 200 })
    expect(versions.map(({ version }) => version)).toEqual(Array.from({ length: 22 }, (_, n) => 22 - n))
    expect(new Set(answers.map(({ version }) => version)).size).toBe(21)
    for (const { version, definition } of answers)
      expect(await inspectVersion(context.db, member, id, String(version))).toMatchObject({ definition })
  })

  test('a definition that cannot run is refused, with its step named', async () => {
    const definition = workflowDefinition.parse({ steps: [{ id: 'one', tool: 'no_such_tool' }] })
    const made = createWorkflow(context, member, { name: 'x', description: '', definition })
    await expect(made).rejects.toMatchObject({
      code: 'validation_error',
      details: [{ path: 'definition.steps.0.tool', message: expect.stringContaining('`one`') }],
    })
  })

  test('a deleted one is not found anywhere, its versions stay as evidence', async () => {
    const { id } = await create()
    await deleteWorkflow(context, member, id)
    await expect(readWorkflow(context.db, id)).rejects.toMatchObject(missing)
    await expect(deleteWorkflow(context, member, id)).rejects.toMatchObject(missing)
    await expect(changeWorkflow(context, member, id, { name: 'x' })).rejects.toMatchObject(missing)
    expect(await list()).not.toContain(id)
    expect(await listVersions(context.db, id, { limit: 200 })).toHaveLength(1)
  })
})

const asTemplate = { templateName: 'Reports', description: 'for everyone', tags: ['finance'] }

/** The answer, or the error code if the request is refused. */
const outcome = <T>(work: Promise<T>): Promise<T | string> =>
  work.catch((error: { code?: string }) => error.code ?? String(error))

const moves = {
  approve: (id: string) => approveTemplate(context, owner, id, asTemplate),
  deprecate: (id: string) => deprecateTemplate(context, owner, id, { reason: 'old', replacementId: null }),
  archive: (id: string) => archiveTemplate(context, owner, id),
}
type Move = keyof typeof moves
const states = {
  draft: async () => (await create(owner)).id,
  active: async () => {
    const id = await states.draft()
    await moves.approve(id)
    return id
  },
  deprecated: async (replacementId: string | null = null): Promise<string> => {
    const id = await states.active()
    await deprecateTemplate(context, owner, id, { reason: 'old', replacementId })
    return id
  },
  archived: async () => {
    const id = await states.deprecated()
    await moves.archive(id)
    return id
  },
}
type State = keyof typeof states
const entryOf = (id: string) =>
  context.db.selectFrom('registry_entries').selectAll().where('workflow_id', '=', id).executeTakeFirst()
const lengthOfChain = async () => (await auditOf(context, owner.organizationId, 1))[0]?.seq

describe('the lifecycle of a template', () => {
  test('is draft, active, deprecated, archived; each move records who, when and why, and is audited', async () => {
    const [id, other] = [await states.draft(), await states.active()]
    const active = await moves.approve(id)
    const approved = {
      id,
      state: 'active',
      template_name: 'Reports',
      description: 'for everyone',
      tags: ['finance'],
    }
    expect(active).toMatchObject({ ...approved, version: 1, approved_by: owner.userId, deprecated_at: null })
    const [first] = await auditOf(context, owner.organizationId, 1)
    expect(first).toMatchObject({ event_type: 'template.approved', workflow_id: id, user_id: owner.userId })
    expect(first?.metadata).toMatchObject({ version: 1, template_name: 'Reports' })

    const why = { reason: 'the layout changed', replacementId: other }
    const deprecated = await deprecateTemplate(context, owner, id, why)
    expect(deprecated).toMatchObject({ ...approved, state: 'deprecated', reason: 'the layout changed', replacement_id: other, deprecated_by: owner.userId }) // prettier-ignore
    const [second] = await auditOf(context, owner.organizationId, 1)
    expect(second).toMatchObject({ event_type: 'template.deprecated', workflow_id: id })
    expect(second?.metadata).toMatchObject({ replacement_id: other })

    const archived = await moves.archive(id)
    expect(archived).toMatchObject({ ...deprecated, state: 'archived', archived_by: owner.userId, archived_at: expect.any(String) }) // prettier-ignore
    expect((await auditOf(context, owner.organizationId, 1))[0]).toMatchObject({ event_type: 'template.archived' }) // prettier-ignore
  })

  const allowed: Record<State, Move | null> = { draft: 'approve', active: 'deprecate', deprecated: 'archive', archived: null } // prettier-ignore
  const refused = (Object.keys(states) as State[]).flatMap((state) =>
    (Object.keys(moves) as Move[])
      .filter((move) => allowed[state] !== move)
      .map((move) => [state, move] as const),
  )
  test.each(refused)('%s: to %s it is a bad transition, and changes nothing', async (state, move) => {
    const id = await states[state]()
    const [entry, length] = [await entryOf(id), await lengthOfChain()]
    await expect(moves[move](id)).rejects.toMatchObject({ code: 'bad_transition' })
    expect([await entryOf(id), await lengthOfChain()]).toEqual([entry, length])
  })

  test('needs the role owner under the lock: a person who was just demoted changes nothing', async () => {
    const id = await states.draft()
    await expect(approveTemplate(context, member, id, asTemplate)).rejects.toMatchObject({ code: 'insufficient_role' }) // prettier-ignore
    expect(await entryOf(id)).toBeUndefined()
  })

  test('if two owners approve concurrently, in two processes, only one succeeds', async () => {
    const id = await states.draft()
    const answers = await Promise.all(
      ['one', 'two', 'three', 'four'].map((templateName) =>
        outcome(approveTemplate(engine.another(), owner, id, { ...asTemplate, templateName })),
      ),
    )
    const done = answers.filter((answer) => typeof answer !== 'string')
    expect(done).toHaveLength(1)
    expect(answers.filter((answer) => answer === 'bad_transition')).toHaveLength(3)
    expect(await entryOf(id)).toMatchObject({ template_name: done[0]?.template_name })
  })
})

describe('the approved version', () => {
  test('is the current one, frozen: later versions do not change it', async () => {
    const id = await states.draft()
    await deploy(id, 'b.md')
    expect(await moves.approve(id)).toMatchObject({ version: 2 })
    await changeWorkflow(context, member, id, { name: 'Other', definition: reading('c.md') })
    expect(await entryOf(id)).toMatchObject({ version: 2, template_name: 'Reports' })
    const used = await useTemplate(context, member, id, {})
    expect(used).toMatchObject({ definition: reading('b.md'), template_version: 2, version: 1 })
  })

  test('is the one that the owner names, not a version deployed meanwhile', async () => {
    const id = await states.draft()
    await deploy(id, 'secret.md')
    const approve = (version: number) => approveTemplate(context, owner, id, { ...asTemplate, version })
    await expect(approve(3)).rejects.toMatchObject({
      code: 'validation_error',
      details: [{ path: 'version' }],
    })
    expect(await approve(1)).toMatchObject({ version: 1 })
    expect(await useTemplate(context, member, id, {})).toMatchObject({ definition: reading('a.md') })
  })

  test('is never a personal workflow', async () => {
    const elsewhere = await addOrganization(context)
    const personal = { ...owner, ...elsewhere.owner, organizationId: elsewhere.id }
    const { id } = await create(personal)
    await context.db
      .updateTable('organizations')
      .set({ personal: true })
      .where('id', '=', elsewhere.id)
      .execute()
    const refused = approveTemplate(context, personal, id, asTemplate)
    await expect(refused).rejects.toMatchObject({ code: 'personal_workflow' })
    expect(await entryOf(id)).toBeUndefined()
  })

  test('cannot be deleted as a workflow until it is archived, and its entry stays', async () => {
    for (const state of ['active', 'deprecated'] as const) {
      const id = await states[state]()
      await expect(deleteWorkflow(context, owner, id)).rejects.toMatchObject({ code: 'conflict' })
      expect(await readWorkflow(context.db, id)).toMatchObject({ id })
    }
    const id = await states.archived()
    await deleteWorkflow(context, member, id)
    const { data } = await listTemplates(context.db, owner.organizationId, true, {
      limit: 1,
      cursor: null,
    })
    expect(data).toMatchObject([{ id, state: 'archived' }])
  })

  test('cannot be a workflow that is deleted at the same moment', async () => {
    for (let round = 0; round < 5; round += 1) {
      const id = await states.draft()
      const [approved, deleted] = await Promise.all([
        outcome(moves.approve(id)),
        outcome(deleteWorkflow(engine.another(), member, id)),
      ])
      expect([[expect.objectContaining({ id }), 'conflict'], ['not_found', undefined]]).toContainEqual([approved, deleted]) // prettier-ignore
    }
  })
})

describe('a replacement', () => {
  const deprecate = (id: string, replacementId: string) =>
    deprecateTemplate(context, owner, id, { reason: 'old', replacementId })
  const refusedAs = (message: RegExp) => ({
    code: 'validation_error',
    details: [{ path: 'replacement_id', message: expect.stringMatching(message) }],
  })

  test('may be a workflow that is not a template (yet), or a deprecated template', async () => {
    for (const state of ['draft', 'active', 'deprecated'] as const) {
      const replacement = await states[state]()
      expect(await deprecate(await states.active(), replacement)).toMatchObject({
        replacement_id: replacement,
      })
    }
  })

  test('is refused if archived, deleted, unknown or the template itself', async () => {
    const id = await states.active()
    await expect(deprecate(id, await states.archived())).rejects.toMatchObject(refusedAs(/archived/))
    const deleted = await states.draft()
    await deleteWorkflow(context, owner, deleted)
    for (const none of [deleted, 'wf_x', ''])
      await expect(deprecate(id, none)).rejects.toMatchObject(refusedAs(/^no workflow/))
    await expect(deprecate(id, id)).rejects.toMatchObject(refusedAs(/itself/))
    expect(await entryOf(id)).toMatchObject({ state: 'active', reason: null })
  })

  test('of another organization is refused like an unknown one', async () => {
    const elsewhere = await addOrganization(context)
    const theirs = { ...owner, ...elsewhere.owner, organizationId: elsewhere.id }
    const { id: foreign } = await create(theirs)
    const id = await states.active()
    const messageOf = (replacement: string) =>
      deprecate(id, replacement).then(
        () => 'accepted',
        (error: Error) => error.message.replace(replacement, 'X'),
      )
    expect(await messageOf(foreign)).toBe(await messageOf('wf_x'))
    expect(await messageOf(foreign)).toContain('no workflow `X`')
  })

  test('never leads back to the replaced template, over any number of others', async () => {
    const [one, two, three] = [await states.active(), await states.active(), await states.active()]
    await deprecate(one, two)
    await deprecate(two, three)
    await expect(deprecate(three, one)).rejects.toMatchObject(refusedAs(/replaced by this template/))
    expect(await deprecate(three, await states.draft())).toMatchObject({ state: 'deprecated' })
  })
})

const use = (id: string, input: Parameters<typeof useTemplate>[3] = {}, of = context) =>
  useTemplate(of, member, id, input)

describe('using a template', () => {
  test('makes an independent workflow', async () => {
    const id = await states.active()
    const { template_id: from, template_version: version, ...made } = await use(id)
    expect([from, version]).toEqual([id, 1])
    expect(made).toMatchObject({ name: 'Reports', description: 'for everyone', created_by: member.userId, definition: reading('a.md') }) // prettier-ignore
    expect(made.id).not.toBe(id)
    expect(await readWorkflow(context.db, made.id)).toMatchObject(made)
    expect(await listVersions(context.db, made.id, { limit: 200 })).toMatchObject([{ version: 1, message: `from the template \`${id}\`, version 1` }]) // prettier-ignore
    const entries = await auditOf(context, member.organizationId, 2)
    expect(entries).toMatchObject([
      { event_type: 'workflow.deployed', workflow_id: made.id },
      { event_type: 'template.used', workflow_id: id, user_id: member.userId },
    ])
    expect(entries[1]?.metadata).toMatchObject({ made_workflow_id: made.id, version: 1 })
    await deploy(made.id, 'z.md')
    const own = await use(id, { name: 'Mine', description: '' })
    expect(own).toMatchObject({ name: 'Mine', description: '', definition: reading('a.md') })
  })

  test('warns for a deprecated template and names its replacement; an active one has no warning', async () => {
    const replacement = await states.active()
    const id = await states.deprecated(replacement)
    expect(await use(id)).toMatchObject({
      replacement_id: replacement,
      warning: `the template is deprecated (old): use \`${replacement}\` instead`,
    })
    const alone = await use(await states.deprecated())
    expect(alone).toMatchObject({ replacement_id: null, warning: 'the template is deprecated (old)' })
    const active = await use(replacement)
    expect([active, 'warning' in active, 'replacement_id' in active]).toEqual([active, false, false])
  })

  test('is refused for an archived template and for an ordinary workflow', async () => {
    const id = await states.deprecated()
    await archiveTemplate(context, owner, id)
    await expect(use(id)).rejects.toMatchObject({ code: 'conflict' })
    await expect(use(await states.draft())).rejects.toMatchObject(missing)
    const elsewhere = { ...member, organizationId: 'org_elsewhere' }
    await expect(useTemplate(context, elsewhere, id, {})).rejects.toMatchObject(missing)
  })

  test('while it is archived: every use comes before the archiving in the chain', async () => {
    const id = await states.deprecated()
    const contexts = [context, engine.another(), engine.another()]
    const uses = Array.from({ length: 24 }, (_, n) => outcome(use(id, {}, contexts[n % 3])))
    const archive = archiveTemplate(engine.another(), owner, id)
    const answers = await Promise.all(uses)
    await archive
    const made = answers.filter((answer) => typeof answer !== 'string')
    expect(answers.filter((answer) => answer === 'conflict')).toHaveLength(24 - made.length)
    const chain = await context.db
      .selectFrom('audit_events')
      .select('event_type')
      .where('organization_id', '=', owner.organizationId)
      .where('workflow_id', '=', id)
      .orderBy('seq')
      .execute()
    const types = chain.map((entry) => entry.event_type)
    expect(types.filter((type) => type === 'template.used')).toHaveLength(made.length)
    expect(types.at(-1)).toBe('template.archived')
    await expect(use(id)).rejects.toMatchObject({ code: 'conflict' })
  })
})
