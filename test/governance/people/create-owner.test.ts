import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { bootstrapIdentities } from '../../../src/governance/people/bootstrap.ts'
import { createOwner } from '../../../src/governance/people/create-owner.ts'
import { authenticate } from '../../../src/governance/access/identity.ts'
import { testContext } from '../support.ts'

let made: Awaited<ReturnType<typeof testContext>>
beforeAll(async () => {
  made = await testContext()
})
afterAll(() => made.close())

describe('createOwner', () => {
  const request = { email: 'ada@acme.test', organizationName: 'Acme' }

  test('makes the first organization with a working key, and only one of two concurrent calls succeeds', async () => {
    const { context } = made
    const both = await Promise.allSettled([createOwner(context, request), createOwner(context, request)])
    const owners = both.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []))
    expect(owners).toHaveLength(1)
    const [owner] = owners
    const identity = await authenticate(context.keys, `Bearer ${owner?.api_key}`)
    expect(identity).toMatchObject({ organizationId: owner?.organization_id, user: { email: request.email } })
    const [organization] = await context.db.selectFrom('organizations').select('name').execute()
    expect(organization?.name).toBe('Acme')
  })

  test('is refused once there are members, and so is a bootstrap', async () => {
    await expect(createOwner(made.context, request)).rejects.toMatchObject({ code: 'conflict' })
    expect(await bootstrapIdentities(made.context)).toBeNull()
  })
})
