import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { workflowDefinition, type WorkflowDefinition } from '../../../src/contract/definition.ts'
import { hashOf } from '../../../src/shared/canonical-json.ts'
import type { Caller } from '../../../src/governance/access/identity.ts'
import { inspectVersion, listVersions, rollBack } from '../../../src/governance/workflows/versions.ts'
import {
  changeWorkflow,
  createWorkflow,
  deleteWorkflow,
  listWorkflows,
  readWorkflow,
} from '../../../src/governance/workflows/workflows.ts'
import { auditOf, testContext, withPeople, type TestContext } from '../support.ts'

let running: TestContext
let member: Caller
beforeAll(async () => {
  running = await testContext()
  member = (await withPeople(running.context)).caller('member')
})
afterAll(() => running.close())

const reading = (path: string): WorkflowDefinition =>
  workflowDefinition.parse({ steps: [{ id: 'read', tool: 'file_read', params: { path } }] })

const create = () =>
  createWorkflow(running.context, member, { name: 'Report', description: '', definition: reading('a.md') })

describe('workflows', () => {
  test('a new one has version 1, frozen and audited by its hash', async () => {
    const workflow = await create()
    expect(workflow).toMatchObject({ version: 1, definition: reading('a.md'), created_by: member.userId })
    expect(await readWorkflow(running.context.db, workflow.id)).toEqual(workflow)
    const [entry] = await auditOf(running.context, member.organizationId, 1)
    expect(entry).toMatchObject({ event_type: 'workflow.deployed', workflow_id: workflow.id })
    expect(entry?.metadata).toMatchObject({ version: 1, definition_hash: hashOf(reading('a.md')) })
  })

  test('a definition deploys a new version, a name alone does not', async () => {
    const { id } = await create()
    const renamed = await changeWorkflow(running.context, member, id, { name: 'Other' })
    expect(renamed).toMatchObject({ name: 'Other', version: 1 })
    const changed = await changeWorkflow(running.context, member, id, {
      definition: reading('b.md'),
      message: 'b',
    })
    expect(changed).toMatchObject({ name: 'Other', version: 2, definition: reading('b.md') })
    expect(await listVersions(running.context.db, id)).toMatchObject([
      { version: 2, message: 'b', deployed_by: member.userId },
      { version: 1, message: '' },
    ])
    expect(await inspectVersion(running.context.db, id, '1')).toMatchObject({ definition: reading('a.md') })
  })

  test.each(['0', '3', '-1', '1.5', 'x', '99999999999', '1 '])(
    'there is no version `%s`',
    async (version) => {
      const { id } = await create()
      await expect(inspectVersion(running.context.db, id, version)).rejects.toMatchObject({
        code: 'not_found',
      })
    },
  )

  test('rolling back deploys the old definition as a new version and overwrites nothing', async () => {
    const { id } = await create()
    await changeWorkflow(running.context, member, id, { definition: reading('b.md') })
    const answer = await rollBack(running.context, member, id, { version: '1', message: 'b was wrong' })
    expect(answer).toEqual({ new_version: 3, rolled_back_from: 2, deployed_at: expect.any(String) })
    expect(await readWorkflow(running.context.db, id)).toMatchObject({
      version: 3,
      definition: reading('a.md'),
    })
    const versions = await listVersions(running.context.db, id)
    expect(versions.map(({ version }) => version)).toEqual([3, 2, 1])
    expect(versions).toMatchObject([
      { message: 'b was wrong', rolled_back_from: 2, rolled_back_to: 1 },
      { rolled_back_from: null, rolled_back_to: null },
      { rolled_back_from: null, rolled_back_to: null },
    ])
    expect(await inspectVersion(running.context.db, id, '3')).toMatchObject(versions[0] as object)
    const [entry] = await auditOf(running.context, member.organizationId, 1)
    expect(entry?.metadata).toMatchObject({ version: 3, rolled_back_from: 2, rolled_back_to: 1 })
  })

  test('rolling back to the current version, or to a rollback, is a version like any other', async () => {
    const { id } = await create()
    await rollBack(running.context, member, id, { version: '1', message: '' })
    const again = await rollBack(running.context, member, id, { version: '2', message: '' })
    expect(again).toMatchObject({ new_version: 3, rolled_back_from: 2 })
    expect(await readWorkflow(running.context.db, id)).toMatchObject({
      version: 3,
      definition: reading('a.md'),
    })
  })

  test.each(['0', '2', 'x'])(
    'there is no rolling back to version `%s`, and nothing changes',
    async (version) => {
      const { id } = await create()
      await expect(rollBack(running.context, member, id, { version, message: '' })).rejects.toMatchObject({
        code: 'not_found',
      })
      expect(await listVersions(running.context.db, id)).toHaveLength(1)
    },
  )

  test('each of several concurrent rollbacks names the version that was current then', async () => {
    const { id } = await create()
    const answers = await Promise.all(
      [1, 2, 3, 4].map(() => rollBack(running.another(), member, id, { version: '1', message: '' })),
    )
    const steps = answers.map((each) => `${each.rolled_back_from}-${each.new_version}`)
    expect(new Set(steps)).toEqual(new Set(['1-2', '2-3', '3-4', '4-5']))
  })

  test('concurrent deployments get different versions', async () => {
    const { id } = await create()
    const paths = ['b', 'c', 'd', 'e', 'f']
    await Promise.all(
      paths.map((path) => changeWorkflow(running.another(), member, id, { definition: reading(path) })),
    )
    const versions = await listVersions(running.context.db, id)
    expect(versions.map(({ version }) => version)).toEqual([6, 5, 4, 3, 2, 1])
  })

  test('the answer to a deployment shows its own version, also while others are deployed', async () => {
    const { id } = await create()
    const paths = Array.from({ length: 20 }, (_, index) => `${index}.md`)
    const answers = await Promise.all(
      paths.map((path) => changeWorkflow(running.context, member, id, { definition: reading(path) })),
    )
    expect(new Set(answers.map(({ version }) => version)).size).toBe(paths.length)
    for (const { version, definition } of answers)
      expect(await inspectVersion(running.context.db, id, String(version))).toMatchObject({ definition })
  })

  test('a definition that cannot run is refused, with its step named', async () => {
    const definition = workflowDefinition.parse({ steps: [{ id: 'one', tool: 'no_such_tool' }] })
    const made = createWorkflow(running.context, member, { name: 'x', description: '', definition })
    await expect(made).rejects.toMatchObject({
      code: 'validation_error',
      details: [{ path: 'definition.steps.0.tool', message: expect.stringContaining('`one`') }],
    })
  })

  test('a deleted one is not found anywhere, its versions stay as evidence', async () => {
    const { id } = await create()
    await deleteWorkflow(running.context, member, id)
    const missing = { code: 'not_found' }
    await expect(readWorkflow(running.context.db, id)).rejects.toMatchObject(missing)
    await expect(deleteWorkflow(running.context, member, id)).rejects.toMatchObject(missing)
    await expect(changeWorkflow(running.context, member, id, { name: 'x' })).rejects.toMatchObject(missing)
    const { data } = await listWorkflows(running.context.db, member.organizationId, {
      limit: 200,
      cursor: null,
    })
    expect(data.map((workflow) => workflow.id)).not.toContain(id)
    expect(await listVersions(running.context.db, id)).toHaveLength(1)
  })
})
