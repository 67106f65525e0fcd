import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { approvalsOf, heldStep, holdSteps } from '../../console/support.ts'
import { plain, startPages, type PagesHome } from './pages-home.ts'

/* What approvers read about the held calls of a run, over HTTP: the order of items, and what a rejection ends. */

let home: PagesHome
beforeAll(async () => {
  home = await startPages({ SMTP_URL: 'smtp://127.0.0.1:1' })
  await holdSteps(home.server, ['mail_send'])
})
afterAll(() => home?.server.close())

/** The text of the page of an approval, as this person reads it. */
const pageOf = async (id: string, who: 'approver' | 'member' = 'approver') =>
  plain(await (await home.get(`/console/approvals/${id}`, await home.cookieOf(who))).text())

test('calls of one step stand in the list in the order of its items', async () => {
  const params = { to: '{{item}}', subject: 's', text: 't' }
  const items = ['a@a.example', 'b@a.example', 'c@a.example']
  const ids = await approvalsOf(
    home.server,
    await heldStep(home.server, { tool: 'mail_send', params }, { items }),
  )
  const page = await (await home.get('/console/approvals')).text()
  expect(
    [...page.matchAll(/id="choose-(\w+)"/g)].map(([, id]) => id).filter((id) => ids.includes(id ?? '')),
  ).toEqual(ids)
  expect(plain(page)).toMatch(
    /step send, item 1 · Rule .*step send, item 2 · Rule .*step send, item 3 · Rule /s,
  )
  expect(plain(page)).toMatch(/Organization: .* wait/)
  const differ = await home.post('/console/approvals', [
    ['token', await home.tokenOf('/console/approvals')],
    ['decision', 'approve'],
    ['id', ids[0] ?? ''],
    ['id', await home.held()],
  ])
  expect(plain(await differ.text())).toContain('Differs from the first one in tool and rule.')
})

describe('a rejection', () => {
  const warning = 'Reject and Request changes also end the run'

  test('of a call of a run is announced with what it ends, to people who may reject', async () => {
    const params = { to: 'ana@a.example', subject: 's', text: 't' }
    const [id = ''] = await approvalsOf(
      home.server,
      await heldStep(home.server, { tool: 'mail_send', params }),
    )
    expect(await pageOf(id)).toContain(
      `${warning}, and its other held calls are withdrawn, unless the step has on_error: continue.`,
    )
    expect(await pageOf(id, 'member')).not.toContain(warning)
    expect(plain(await (await home.get('/console/approvals')).text())).toContain(
      'To reject a call of a run also ends the run',
    )
  })

  test('of an agent’s call ends that call alone', async () => {
    expect(await pageOf(await home.held())).not.toContain(warning)
  })
})
