import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { startRun } from '../../console/runs-world.ts'
import { approvalsOf } from '../../console/support.ts'
import { plain, startPages, type PagesHome } from './pages-home.ts'

/* What the page of an approval says, over HTTP. */

let home: PagesHome
beforeAll(async () => {
  home = await startPages({ SMTP_URL: 'smtp://127.0.0.1:1' })
})
afterAll(() => home?.server.close())

const governance = (settings: object) => {
  const { users, organization_id: id } = home.server.identities
  return home.server.call(users.owner.api_key, 'PATCH', `/organizations/${id}/governance`, settings)
}
/** The text of the page of an approval, as this person reads it. */
const pageOf = async (id: string, who: 'approver' | 'member' | 'admin' = 'approver') =>
  plain(await (await home.get(`/console/approvals/${id}`, await home.cookieOf(who))).text())

describe('a whole run', () => {
  test('shows its steps, and its inputs to those who may decide', async () => {
    await governance({ approval_required_from: 'low' })
    const runId = await startRun(home.server, {
      inputs: { topic: 'a-secret-topic' },
      steps: [
        { id: 'look', tool: 'memory_get', params: { key: 'k' }, summary: 'Looks it up' },
        {
          id: 'tell',
          tool: 'mail_send',
          params: { to: 'a@b.test', subject: '{{input.topic}}', text: 'x' },
          depends_on: ['look'],
          summary: 'Tells the team',
        },
      ],
    })
    await governance({ approval_required_from: null })
    const [id = ''] = await approvalsOf(home.server, runId)
    const text = await pageOf(id)
    for (const words of ['look memory_get', 'Looks it up', 'tell mail_send', 'Tells the team', 'after look'])
      expect(text).toContain(words)
    expect(text).toContain('a-secret-topic')
    const members = await pageOf(id, 'member')
    expect(members).toContain('Tells the team')
    expect(members).toContain('topic')
    expect(members).not.toContain('a-secret-topic')
  })
})
