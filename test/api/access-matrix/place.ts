import { addPerson } from '../fixtures.ts'
import type { TestServer } from '../server.ts'

/** Settings with which people can authorize Google connections in the browser. */
export const withGoogle = { GOOGLE_CLIENT_ID: 'id', GOOGLE_CLIENT_SECRET: 'secret' }

export interface Person {
  readonly userId: string
  /** A key with every scope. */
  readonly key: string
}

/** An organization in which every run waits for approval, with people who create the objects of requests. */
export interface Place {
  readonly organizationId: string
  readonly owner: Person
  /** A member. Other people decide about this member's runs and calls. */
  readonly requester: Person
}

export async function addPlace(server: TestServer, organizationId: string, owner: Person): Promise<Place> {
  const requester = await addPerson(server.context, organizationId, 'member')
  // The plan with the highest limits, since these tests send thousands of requests.
  await server.context.db
    .updateTable('organizations')
    .set({ plan: 'enterprise' })
    .where('id', '=', organizationId)
    .execute()
  const settings = { approvals_enabled: true, approval_required_from: 'low', run_values: 'everyone' }
  const path = `/organizations/${organizationId}/governance`
  const answer = await server.call(owner.key, 'PATCH', path, settings)
  if (answer.status !== 200) throw new Error(answer.text)
  return { organizationId, owner, requester }
}

let turns = 0
/** Returns another number each time, for a change that must not repeat the present value. */
export const another = (): number => (turns += 1)
