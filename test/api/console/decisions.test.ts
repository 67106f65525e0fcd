import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { Browser } from '../browser.ts'
import { expireDue } from '../../../src/governance/approvals/expire.ts'
import { approvalsOf, heldStep } from '../../console/support.ts'
import { plain, startPages, type PagesHome } from './pages-home.ts'

/* The pages that approvers read, and the effects of their forms, over HTTP. */

let home: PagesHome
beforeAll(async () => {
  home = await startPages()
})
afterAll(() => home?.server.close())

describe('a decision', () => {
  test('needs the token of its session and the origin of this service', async () => {
    const id = await home.held()
    const path = `/console/approvals/${id}`
    const token = await home.tokenOf(path)
    const fields = { token, decision: 'approve', comment: '' }
    const other = new Browser(home.server)
    const { email, password } = home.server.identities.users.admin
    await other.signIn(email, password)
    for (const refused of [
      await home.post(path, { ...fields, token: '' }),
      await home.post(path, { ...fields, token: `${token.slice(0, -1)}_` }),
      await home.post(path, fields, {}, other.cookie),
      await home.post(path, fields, { origin: 'https://evil.example' }),
      await home.post(path, fields, { 'sec-fetch-site': 'same-site' }),
    ])
      expect(refused.status).toBe(403)
    expect(await home.approvalOf(id)).toMatchObject({ status: 'pending', votes: [] })
    expect((await home.post(path, fields)).status).toBe(303)
    expect(await home.approvalOf(id)).toMatchObject({ status: 'approved' })
  })

  test('that comes too late changes nothing, and shows what has happened', async () => {
    const id = await home.held()
    const path = `/console/approvals/${id}`
    const token = await home.tokenOf(path)
    await home.server.call(home.server.identities.users.admin.api_key, 'POST', `/approvals/${id}/reject`, {
      comment: 'no',
    })
    const answer = await home.post(path, { token, decision: 'approve', comment: '' })
    const text = await answer.text()
    expect(answer.status).toBe(409)
    expect(text).toContain('already')
    expect(text).toContain('Rejected')
    expect(await home.approvalOf(id)).toMatchObject({ status: 'rejected' })
  })

  test('that is sent twice counts once', async () => {
    const id = await home.held()
    const path = `/console/approvals/${id}`
    const fields = {
      token: await home.tokenOf(path),
      decision: 'approve',
      comment: 'twice',
      once: 'abcdefgh-1',
    }
    const answers = [await home.post(path, fields), await home.post(path, fields)]
    expect(answers.map(({ status }) => status)).toEqual([303, 303])
    expect((await home.approvalOf(id)).votes).toHaveLength(1)
  })
})

describe('who may not decide', () => {
  test('sees no form, reads why, and sees no parameters', async () => {
    const id = await home.held({ command: 'git push origin secret-branch' })
    const texts: Record<string, string> = {}
    for (const who of ['viewer', 'member'] as const) {
      texts[who] = await (await home.get(`/console/approvals/${id}`, await home.cookieOf(who))).text()
      expect(texts[who]).not.toContain('secret-branch')
      expect(texts[who]).not.toContain('name="decision"')
    }
    expect(texts['member']).toContain('You cannot decide this')
    expect(plain(texts['member'])).toContain('You need the role admin to decide this approval.')
  })

  test('chooses nothing in the list, and reads who decides', async () => {
    const id = await home.held()
    const path = '/console/approvals'
    const member = await (await home.get(path, await home.cookieOf('member'))).text()
    expect(member).toContain(`/console/approvals/${id}"`)
    expect(member).toContain('an admin or owner decides')
    expect(member).not.toMatch(/type="checkbox"|Decide the chosen ones/)
    const others = await (await home.get(path)).text()
    expect(others).toContain(`id="choose-${id}"`)
    expect(others).not.toContain('an admin or owner decides')
  })

  test('is led to the first page of the role if it may not see the list', async () => {
    const answer = await home.get('/console/approvals', await home.cookieOf('viewer'))
    const main = (await answer.text()).split('<main')[1] ?? ''
    expect([answer.status, main.includes('Ask an admin or owner')]).toEqual([403, true])
    expect(main.match(/<a [^>]*>/g)).toEqual(['<a href="/console/">'])
  })
})

describe('a request for changes', () => {
  test('needs a comment, and is a rejection that the requester reads as such', async () => {
    const id = await home.held()
    const path = `/console/approvals/${id}`
    const token = await home.tokenOf(path)
    const empty = await home.post(path, { token, decision: 'request_changes', comment: ' ' })
    const form = (await empty.text()).split('class="decide"')[1] ?? ''
    expect([empty.status, form.includes('Say in the comment')]).toEqual([422, true])
    expect(form).toMatch(/<textarea[^>]* autofocus[^>]* aria-describedby="comment-problem"/)
    expect(
      (await home.post(path, { token, decision: 'request_changes', comment: 'use a branch' })).status,
    ).toBe(303)
    expect(await home.approvalOf(id)).toMatchObject({
      status: 'rejected',
      votes: [{ decision: 'reject', comment: 'use a branch', changes_requested: true }],
    })
  })
})

describe('text of strangers', () => {
  test('stays text: markup, marks of direction, line breaks and a megabyte', async () => {
    const long = `start-of-it${'x'.repeat(1_000_000)}`
    const id = await home.held({
      command: 'curl https://a.example/<script>alert(1)</script> \u202Egpj.exe',
      'a\n</dt><h1>Approved</h1>': long,
    })
    const answer = await home.get(`/console/approvals/${id}`)
    const text = await answer.text()
    expect(answer.status).toBe(200)
    expect(text).not.toContain('<script>alert')
    expect(text).not.toContain('<h1>Approved')
    expect(text).not.toContain('\u202e')
    expect(text).toContain('U+202E')
    expect(text).toContain(long)
  })
})

test('two approvers, the agent and the clock end an approval once, and its page shows that end', async () => {
  const { server } = home
  const words = { approved: 'Approved', rejected: 'Rejected', cancelled: 'Withdrawn', expired: 'Expired' }
  const admin = await home.cookieOf('admin')
  const tokenOf = async (cookie?: string): Promise<string> =>
    /name="token" value="([\w-]+)"/.exec(await (await home.get('/console/approvals', cookie)).text())?.[1] ?? ''
  const tokens = { approver: await tokenOf(), admin: await tokenOf(admin) }
  for (let round = 0; round < 8; round += 1) {
    const id = await home.held({ command: `git push origin race-${round}` })
    const path = `/console/approvals/${id}`
    const vote = (token: string, decision: string, cookie?: string) =>
      home.post(path, { token, decision, comment: 'c', once: `once-${decision}-${round}` }, {}, cookie)
    const due = async (): Promise<void> => {
      await server.context.db.updateTable('approvals').set({ expires_at: new Date() }).where('id', '=', id).execute()
      await expireDue(server.context)
    }
    const votes = await Promise.all([
      vote(tokens.approver, 'approve'),
      vote(tokens.approver, 'approve'),
      vote(tokens.admin, 'reject', admin),
      server.call(server.identities.agent_key, 'POST', `/authorize/approvals/${id}/cancel`, {}).then(() => null),
      ...(round % 2 === 0 ? [due().then(() => null)] : []),
    ])
    const statuses = votes.flatMap((answer) => (answer === null ? [] : [answer.status]))
    const ended = await home.approvalOf(id)
    expect(Object.keys(words)).toContain(ended.status)
    expect(ended.votes).toHaveLength(['approved', 'rejected'].includes(ended.status) ? 1 : 0)
    // The same form sent twice gets the same answer twice. A person who was too late reads what happened.
    const [first, second, other] = statuses
    expect(first).toBe(second)
    expect([first, other]).toEqual(
      ended.status === 'approved' ? [303, 409] : ended.status === 'rejected' ? [409, 303] : [409, 409],
    )
    const page = plain(await (await home.get(path)).text())
    expect(page).toContain(words[ended.status as keyof typeof words])
    expect(page).not.toContain('Request changes')
  }
}) // prettier-ignore

test('names and comments of strangers are text on every page', async () => {
  const { server } = home
  // Names must not contain invisible characters, but comments and parameters may.
  const name = '</bdi></p><script>alert(1)</script><img src=x onerror=alert(1)>`*_'
  const hostile = `${name}\u202Egpj.exe\u2066\u200B🏴󠁧󠁢󠁥󠁮󠁧󠁿`
  const { users, organization_id: id } = server.identities
  const rule = { name, verdict: 'require_approval', applies_to: ['workflows'], tools: ['memory_set'] }
  await server.call(users.admin.api_key, 'POST', `/organizations/${id}/rules`, rule)
  const step = { tool: 'memory_set', params: { key: 'k', value: hostile }, summary: name }
  const runId = await heldStep(server, step, { name })
  const [approval = ''] = await approvalsOf(server, runId)
  const agent = { agent: { name, kind: 'hook' }, session_id: name }
  const asked = { ...agent, tool_name: 'Bash', tool_input: { command: `git push ${hostile}` } }
  const held = (await server.call(server.identities.agent_key, 'POST', '/authorize', asked)).body.approval_id
  const { agent_session_id: session } = await home.approvalOf(held)
  await server.call(users.admin.api_key, 'POST', `/approvals/${held}/reject`, { comment: `${hostile}\nApproved` })
  for (const path of [
    'approvals',
    `approvals?rule_id=${encodeURIComponent('"><script>alert(1)</script>')}`,
    `approvals/${approval}`,
    `approvals/${held}`,
    'runs',
    `runs?workflow_name=${encodeURIComponent(name)}`,
    `runs/${runId}`,
    `runs/${runId}/steps/send`,
    'sessions',
    `sessions/${session}`,
  ]) {
    const answer = await home.get(`/console/${path}`)
    const text = await answer.text()
    expect([path, answer.status]).toEqual([path, 200])
    for (const forged of ['<script>alert', '<img', '\u202e', '\u2066', '\u200b'])
      expect([path, forged, text.includes(forged)]).toEqual([path, forged, false])
  }
}) // prettier-ignore

test('a page shows the beginning of parameters that are too long for it, says so, and has the short ones', async () => {
  const id = await home.held({ a: 'x'.repeat(2_000_000), command: 'git push --force' })
  const text = await (await home.get(`/console/approvals/${id}`)).text()
  expect(text.length).toBeLessThan(3_100_000)
  expect(text.includes('500,000 more characters are not on this page')).toBe(true)
  expect(text).toContain(`href="/console/approvals/${id}/parameters"`)
  expect(text).toMatch(/class="text code"[^>]*>git push --force</)
})
