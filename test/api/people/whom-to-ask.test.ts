import { beforeEach, expect, test } from '@jest/globals'
import { addKey, addOrganization, addPerson } from '../fixtures.ts'
import { useServer } from '../use-server.ts'
import type { Person } from '../access-matrix/place.ts'
import type { TestServer } from '../server.ts'

/* A refusal because of the role says who can help, and not to use another key: no key of the person could do it. */

let server: TestServer
let id: string
let owner: Person
let member: Person
useServer((started) => {
  server = started
})
beforeEach(async () => {
  ;({ id, owner } = await addOrganization(server.context))
  member = await addPerson(server.context, id, 'member')
})

const emailOf = async ({ userId }: Person): Promise<string> =>
  (
    await server.context.db
      .selectFrom('users')
      .select('email')
      .where('id', '=', userId)
      .executeTakeFirstOrThrow()
  ).email
const messageOf = async (key: string, method: string, path: string, body?: unknown): Promise<string> =>
  (await server.call(key, method, `/organizations/${id}${path}`, body)).body.error.message
const rule = { name: 'No mail', verdict: 'deny', tools: ['mail_send'] }

test('a key whose person has the role needs the scope; of a person without it, no key could have it', async () => {
  const reads = await addKey(server.context, id, member.userId, ['runs:read'])
  expect(await messageOf(reads.secret, 'GET', '/rules')).toMatch(
    /lacks the scope `rules:read`: use a key that has it$/,
  )
  expect(await messageOf(reads.secret, 'POST', '/rules', rule)).toBe(
    `this needs the scope \`rules:write\`, which no key of a member can have: ask an admin or owner (${await emailOf(owner)})`,
  )
})

test('a refusal of the role names the people who have it, if they are few', async () => {
  const refusal = 'this needs the role `admin` in the organization, yours is `member`: ask an admin or owner'
  expect(await messageOf(member.key, 'POST', '/rules', rule)).toBe(`${refusal} (${await emailOf(owner)})`)
  const owners = [
    owner,
    await addPerson(server.context, id, 'owner'),
    await addPerson(server.context, id, 'owner'),
  ]
  const emails = (await Promise.all(owners.map(emailOf))).sort()
  expect(await messageOf(member.key, 'GET', '/members')).toBe(
    `this needs the role \`owner\` in the organization, yours is \`member\`: ask an owner (${emails.join(', ')})`,
  )
  await addPerson(server.context, id, 'admin')
  expect(await messageOf(member.key, 'POST', '/rules', rule)).toBe(refusal)
})

test('a role that only owners give is asked of an owner', async () => {
  const viewer = await addPerson(server.context, id, 'viewer')
  await addPerson(server.context, id, 'admin')
  expect(await messageOf(viewer.key, 'GET', '/rules')).toBe(
    `this needs the role \`member\` in the organization, yours is \`viewer\`: ask an owner (${await emailOf(owner)})`,
  )
})

test('a refusal below the lock says it too', async () => {
  const path = `/organizations/${id}/members/${member.userId}`
  const admin = await addPerson(server.context, id, 'admin')
  const refused = await server.call(admin.key, 'DELETE', path)
  expect(refused.body.error.message).toContain(`ask an owner (${await emailOf(owner)})`)
})
