import { until, type Client, type Person } from './client.ts'
import { mustHold } from './show.ts'

/** The people who may approve. */
const voters: readonly Person[] = ['approver', 'owner']

/**
 * Approves as one person after another, until the approval has enough votes. Returns the people who voted. Throws if
 * the votes of all these people are not enough.
 */
export async function voteUntilDecided(client: Client, approvalId: string): Promise<Person[]> {
  for (const [index, person] of voters.entries()) {
    const body = { comment: 'read it, fine' }
    const path = `/approvals/${approvalId}/approve`
    const { status } = await client.get<{ status: string }>(person, 'POST', path, body)
    if (status === 'approved') return voters.slice(0, index + 1)
  }
  throw new Error(`the organization asks for more approvals than ${voters.join(' and ')} can give`)
}

const hour = 3_600_000

/**
 * Waits until people have decided in a browser. Returns their mail addresses. Throws if the approval was not approved,
 * or after an hour without a decision.
 */
export async function decidedByPerson(client: Client, approvalId: string): Promise<string[]> {
  const { status, votes } = await until(
    'a decision in the browser',
    () =>
      client.get<{ status: string; votes: readonly { email: string }[] }>(
        'approver',
        'GET',
        `/approvals/${approvalId}`,
      ),
    (approval) => approval.status !== 'pending',
    hour,
  )
  mustHold(status === 'approved', `the call is approved (it is ${status}, so the mail does not leave)`)
  return votes.map(({ email }) => email)
}
