import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { plain, startPages, type PagesHome } from './pages-home.ts'

/* An approval says how many people can still vote, and its page says so if they are too few. */

let home: PagesHome
beforeAll(async () => {
  home = await startPages()
})
afterAll(() => home?.server.close())

const governance = (settings: object) => {
  const { users, organization_id: id } = home.server.identities
  return home.server.call(users.owner.api_key, 'PATCH', `/organizations/${id}/governance`, settings)
}
const voters = async (id: string): Promise<[number, number]> => {
  const { detail } = await home.approvalOf(id)
  return [detail.votes_missing, detail.voters_left]
}
const pageOf = async (id: string) => plain(await (await home.get(`/console/approvals/${id}`)).text())
const vote = (id: string) =>
  home.server.call(home.server.identities.users.admin.api_key, 'POST', `/approvals/${id}/approve`, {})

test('each vote leaves one person less, and the page says when they are too few', async () => {
  await governance({ approval_threshold: 3 })
  const id = await home.held()
  expect(await voters(id)).toEqual([3, 3])
  expect(await pageOf(id)).not.toContain('can still vote')
  await vote(id)
  expect(await voters(id)).toEqual([2, 2])
  await governance({ approval_threshold: 4 })
  expect(await voters(id)).toEqual([3, 2])
  expect(await pageOf(id)).toContain('Only 2 people can still vote, so it cannot be approved now.')
  await governance({ approval_threshold: 1 })
})

test('only owners count if an owner must decide, and the person who asked counts only if the setting says so', async () => {
  const { organization_id: organization, users } = home.server.identities
  const rule = { name: 'owners', verdict: 'require_approval', tools: ['Write'], approver: 'owner', approvals_needed: 2 } // prettier-ignore
  await home.server.call(users.admin.api_key, 'POST', `/organizations/${organization}/rules`, rule)
  const body = { agent: { name: 'A', kind: 'hook' }, session_id: 'own', tool_name: 'Write', tool_input: { file_path: 'x' } } // prettier-ignore
  const id = (await home.server.call(users.owner.api_key, 'POST', '/authorize', body)).body
    .approval_id as string
  expect(await voters(id)).toEqual([2, 0])
  expect(await pageOf(id)).toContain('Nobody can still vote')
  await governance({ allow_self_approval: true })
  expect(await voters(id)).toEqual([2, 1])
  expect(await pageOf(id)).toContain('Only 1 person can still vote')
  await home.server.call(users.owner.api_key, 'POST', `/approvals/${id}/reject`, {})
  expect((await voters(id))[1]).toBe(0)
  expect(await pageOf(id)).not.toContain('can still vote')
})
