import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import type { Caller } from '../../../src/governance/access/identity.ts'
import { archiveTemplate } from '../../../src/governance/workflows/registry-lifecycle.ts'
import { useTemplate } from '../../../src/governance/workflows/registry-use.ts'
import { listVersions } from '../../../src/governance/workflows/versions.ts'
import { changeWorkflow, readWorkflow } from '../../../src/governance/workflows/workflows.ts'
import { auditOf, testContext, withPeople, type TestContext } from '../support.ts'
import { aTemplate, aWorkflow, outcome, reading } from './registry-fixture.ts'

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

const use = (id: string, input: Parameters<typeof useTemplate>[3] = {}, context = running.context) =>
  useTemplate(context, member, id, input)

describe('using a template', () => {
  test('makes an independent workflow', async () => {
    const id = await aTemplate(running.context, owner)
    const { template_id: from, template_version: version, ...made } = await use(id)
    expect([from, version]).toEqual([id, 1])
    expect(made).toMatchObject({ name: 'Reports', description: 'for everyone', created_by: member.userId, definition: reading('a.md') }) // prettier-ignore
    expect(made.id).not.toBe(id)
    expect(await readWorkflow(running.context.db, made.id)).toEqual(made)
    expect(await listVersions(running.context.db, made.id)).toMatchObject([{ version: 1, message: `from the template \`${id}\`, version 1` }]) // prettier-ignore
    const entries = await auditOf(running.context, member.organizationId, 2)
    expect(entries).toMatchObject([
      { event_type: 'workflow.deployed', workflow_id: made.id },
      { event_type: 'template.used', workflow_id: id, user_id: member.userId },
    ])
    expect(entries[1]?.metadata).toMatchObject({ made_workflow_id: made.id, version: 1 })
    await changeWorkflow(running.context, member, made.id, { definition: reading('z.md') })
    expect((await use(id)).definition).toEqual(reading('a.md'))
  })

  test('takes a given name and description', async () => {
    const id = await aTemplate(running.context, owner)
    expect(await use(id, { name: 'Mine', description: '' })).toMatchObject({ name: 'Mine', description: '' })
  })

  test('warns for a deprecated template and names its replacement; an active one has no warning', async () => {
    const replacement = await aTemplate(running.context, owner)
    const id = await aTemplate(running.context, owner, 'deprecated', replacement)
    expect(await use(id)).toMatchObject({
      replacement_id: replacement,
      warning: `the template is deprecated (old): use \`${replacement}\` instead`,
    })
    const alone = await use(await aTemplate(running.context, owner, 'deprecated'))
    expect(alone).toMatchObject({ replacement_id: null, warning: 'the template is deprecated (old)' })
    const active = await use(replacement)
    expect([active, 'warning' in active, 'replacement_id' in active]).toEqual([active, false, false])
  })

  test('is refused for an archived template and for an ordinary workflow', async () => {
    const id = await aTemplate(running.context, owner, 'deprecated')
    await archiveTemplate(running.context, owner, id)
    await expect(use(id)).rejects.toMatchObject({ code: 'conflict' })
    await expect(use(await aWorkflow(running.context, owner))).rejects.toMatchObject({ code: 'not_found' })
    const elsewhere = { ...member, organizationId: 'org_elsewhere' }
    await expect(useTemplate(running.context, elsewhere, id, {})).rejects.toMatchObject({ code: 'not_found' })
  })

  test('while it is archived: every use comes before the archiving in the chain', async () => {
    const id = await aTemplate(running.context, owner, 'deprecated')
    const contexts = [running.context, running.another(), running.another()]
    const uses = Array.from({ length: 24 }, (_, n) => outcome(use(id, {}, contexts[n % 3])))
    const archive = archiveTemplate(running.another(), owner, id)
    const answers = await Promise.all(uses)
    await archive
    const made = answers.filter((answer) => typeof answer !== 'string')
    expect(answers.filter((answer) => answer === 'conflict')).toHaveLength(24 - made.length)
    const chain = await running.context.db
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
