import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import type { Caller } from '../../../src/governance/access/identity.ts'
import {
  approveTemplate,
  archiveTemplate,
  deprecateTemplate,
} from '../../../src/governance/workflows/registry-lifecycle.ts'
import { listTemplates } from '../../../src/governance/workflows/registry-list.ts'
import { useTemplate } from '../../../src/governance/workflows/registry-use.ts'
import { changeWorkflow, deleteWorkflow, readWorkflow } from '../../../src/governance/workflows/workflows.ts'
import { addOrganization } from '../../api/fixtures.ts'
import { auditOf, testContext, withPeople, type TestContext } from '../support.ts'
import { asTemplate, aTemplate, aWorkflow, outcome, reading } from './registry-fixture.ts'

let running: TestContext
let owner: Caller
let member: Caller
beforeAll(async () => {
  running = await testContext()
  const { caller } = await withPeople(running.context)
  owner = caller('owner')
  member = caller('member')
})
afterAll(() => running.close())

const moves = {
  approve: (id: string) => approveTemplate(running.context, owner, id, asTemplate),
  deprecate: (id: string) =>
    deprecateTemplate(running.context, owner, id, { reason: 'old', replacementId: null }),
  archive: (id: string) => archiveTemplate(running.context, owner, id),
}
type Move = keyof typeof moves
const states = {
  draft: () => aWorkflow(running.context, owner),
  active: () => aTemplate(running.context, owner),
  deprecated: () => aTemplate(running.context, owner, 'deprecated'),
  archived: async () => {
    const id = await aTemplate(running.context, owner, 'deprecated')
    await moves.archive(id)
    return id
  },
}
type State = keyof typeof states
const entryOf = (id: string) =>
  running.context.db
    .selectFrom('registry_entries')
    .selectAll()
    .where('workflow_id', '=', id)
    .executeTakeFirst()
const lengthOfChain = async () => (await auditOf(running.context, owner.organizationId, 1))[0]?.seq

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
    const [first] = await auditOf(running.context, owner.organizationId, 1)
    expect(first).toMatchObject({ event_type: 'template.approved', workflow_id: id, user_id: owner.userId })
    expect(first?.metadata).toMatchObject({ version: 1, template_name: 'Reports' })

    const why = { reason: 'the layout changed', replacementId: other }
    const deprecated = await deprecateTemplate(running.context, owner, id, why)
    expect(deprecated).toMatchObject({ ...approved, state: 'deprecated', reason: 'the layout changed', replacement_id: other, deprecated_by: owner.userId }) // prettier-ignore
    const [second] = await auditOf(running.context, owner.organizationId, 1)
    expect(second).toMatchObject({ event_type: 'template.deprecated', workflow_id: id })
    expect(second?.metadata).toMatchObject({ replacement_id: other })

    const archived = await moves.archive(id)
    expect(archived).toMatchObject({ ...deprecated, state: 'archived', archived_by: owner.userId, archived_at: expect.any(String) }) // prettier-ignore
    expect((await auditOf(running.context, owner.organizationId, 1))[0]).toMatchObject({ event_type: 'template.archived' }) // prettier-ignore
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
    await expect(approveTemplate(running.context, member, id, asTemplate)).rejects.toMatchObject({ code: 'insufficient_role' }) // prettier-ignore
    expect(await entryOf(id)).toBeUndefined()
  })

  test('if two owners approve concurrently, in two processes, only one succeeds', async () => {
    const id = await states.draft()
    const answers = await Promise.all(
      ['one', 'two', 'three', 'four'].map((templateName) =>
        outcome(approveTemplate(running.another(), owner, id, { ...asTemplate, templateName })),
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
    await changeWorkflow(running.context, member, id, { definition: reading('b.md') })
    expect(await moves.approve(id)).toMatchObject({ version: 2 })
    await changeWorkflow(running.context, member, id, { name: 'Other', definition: reading('c.md') })
    expect(await entryOf(id)).toMatchObject({ version: 2, template_name: 'Reports' })
    const used = await useTemplate(running.context, member, id, {})
    expect(used).toMatchObject({ definition: reading('b.md'), template_version: 2, version: 1 })
  })

  test('is the one that the owner names, not a version deployed meanwhile', async () => {
    const id = await states.draft()
    await changeWorkflow(running.context, member, id, { definition: reading('secret.md') })
    const approve = (version: number) =>
      approveTemplate(running.context, owner, id, { ...asTemplate, version })
    await expect(approve(3)).rejects.toMatchObject({
      code: 'validation_error',
      details: [{ path: 'version' }],
    })
    expect(await approve(1)).toMatchObject({ version: 1 })
    expect(await useTemplate(running.context, member, id, {})).toMatchObject({ definition: reading('a.md') })
  })

  test('is never a personal workflow', async () => {
    const elsewhere = await addOrganization(running.context)
    const personal = { ...owner, ...elsewhere.owner, organizationId: elsewhere.id }
    const id = await aWorkflow(running.context, personal)
    await running.context.db
      .updateTable('organizations')
      .set({ personal: true })
      .where('id', '=', elsewhere.id)
      .execute()
    const refused = approveTemplate(running.context, personal, id, asTemplate)
    await expect(refused).rejects.toMatchObject({ code: 'personal_workflow' })
    expect(await entryOf(id)).toBeUndefined()
  })

  test('cannot be deleted as a workflow until it is archived, and its entry stays', async () => {
    for (const state of ['active', 'deprecated'] as const) {
      const id = await states[state]()
      await expect(deleteWorkflow(running.context, owner, id)).rejects.toMatchObject({ code: 'conflict' })
      expect(await readWorkflow(running.context.db, id)).toMatchObject({ id })
    }
    const id = await states.archived()
    await deleteWorkflow(running.context, member, id)
    const { data } = await listTemplates(running.context.db, owner.organizationId, true, {
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
        outcome(deleteWorkflow(running.another(), member, id)),
      ])
      expect([[expect.objectContaining({ id }), 'conflict'], ['not_found', undefined]]).toContainEqual([approved, deleted]) // prettier-ignore
    }
  })
})

describe('a replacement', () => {
  const deprecate = (id: string, replacementId: string) =>
    deprecateTemplate(running.context, owner, id, { reason: 'old', replacementId })
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
    await deleteWorkflow(running.context, owner, deleted)
    for (const none of [deleted, 'wf_x', ''])
      await expect(deprecate(id, none)).rejects.toMatchObject(refusedAs(/^no workflow/))
    await expect(deprecate(id, id)).rejects.toMatchObject(refusedAs(/itself/))
    expect(await entryOf(id)).toMatchObject({ state: 'active', reason: null })
  })

  test('of another organization is refused like an unknown one', async () => {
    const elsewhere = await addOrganization(running.context)
    const theirs = { ...owner, ...elsewhere.owner, organizationId: elsewhere.id }
    const foreign = await aWorkflow(running.context, theirs)
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
