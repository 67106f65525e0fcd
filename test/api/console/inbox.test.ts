import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { unknownRun } from '../../console/runs-world.ts'
import { plain, startPages, type PagesHome } from './pages-home.ts'

/* The list of approvals over HTTP: several decisions at once, filters, and calls whose outcome is unknown. */

let home: PagesHome
beforeAll(async () => {
  home = await startPages()
})
afterAll(() => home?.server.close())

describe('several at once', () => {
  const bulk = async (fields: [string, string][]) =>
    home.post('/console/approvals', [['token', await home.tokenOf('/console/approvals')], ...fields])

  test('are approved only if tool, rule and labels are the same, each with its own vote', async () => {
    const ids = [await home.held(), await home.held()]
    const chosen = ids.map((id): [string, string] => ['id', id])
    const answer = await bulk([['decision', 'approve'], ['comment', 'both'], ...chosen])
    expect(answer.status).toBe(303)
    const result = answer.headers.get('location') ?? ''
    expect(plain(await (await home.get(result)).text())).toContain('You approved 2 calls.')
    // The same address says nothing false to a person who decided nothing.
    const admins = plain(await (await home.get(result, await home.cookieOf('admin'))).text())
    expect(admins).toContain('You approved 0 calls.')
    expect(admins).toContain('The approval is already approved.')
    expect(await (await home.get(`/console/approvals/${ids[0] ?? ''}`)).text()).toMatch(
      /approver@[^<]*<\/bdi> approved\./,
    )
    for (const id of ids)
      expect(await home.approvalOf(id)).toMatchObject({ status: 'approved', votes: [{ comment: 'both' }] })
    const other = await home.held({ to: 'a@b.example' }, 'mcp__mail__send_mail')
    const third = await home.held()
    const refused = await bulk([
      ['decision', 'approve'],
      ['comment', 'keep me'],
      ['id', other],
      ['id', third],
    ])
    const page = await refused.text()
    expect(refused.status).toBe(422)
    expect(page).toMatch(/role="alert"><p>Nothing was decided. Only calls of one tool/)
    expect(plain(page)).toContain('Differs from the first one in tool.')
    for (const id of [other, third]) expect(page).toMatch(new RegExp(`<input[^>]*value="${id}"[^>]*checked`))
    expect(page).toMatch(/bulk"[^>]* open/)
    expect(page).toContain('>keep me</textarea>')
    for (const id of [other, third]) expect(await home.approvalOf(id)).toMatchObject({ status: 'pending' })
    await bulk([
      ['decision', 'reject'],
      ['id', other],
      ['id', third],
    ])
    for (const id of [other, third]) expect(await home.approvalOf(id)).toMatchObject({ status: 'rejected' })
  })

  test('that a second tap sends again count once, and the person reads that they count', async () => {
    const ids = [await home.held(), await home.held()]
    const fields: [string, string][] = [
      ['decision', 'approve'],
      ['once', 'abcdefgh-bulk'],
      ...ids.map((id): [string, string] => ['id', id]),
    ]
    expect(await (await home.get('/console/approvals')).text()).toMatch(/name="once" value="[\w-]{36}"/)
    for (const answer of [await bulk(fields), await bulk(fields)]) {
      expect(answer.status).toBe(303)
      const result = await home.get(answer.headers.get('location') ?? '')
      expect(plain(await result.text())).toContain('You approved 2 calls.')
    }
    for (const id of ids) expect((await home.approvalOf(id)).votes).toHaveLength(1)
  })

  test('show what an agent would run only to people who may decide', async () => {
    const id = await home.held({ command: `curl https://a.example/${'x'.repeat(300)}` })
    await home.held({ note: 'n', to: 'bo@b.example' }, 'mcp__mail__send_mail')
    const page = plain(await (await home.get('/console/approvals')).text())
    expect(page).toContain('Run “curl https://a.example/xxx')
    expect(page).toContain('more characters)')
    expect(page).toContain('Call mcp__mail__send_mail with to “bo@b.example”')
    expect((await home.approvalOf(id)).preview).toMatchObject({ fields: [{ name: 'command' }] })
    const member = await (await home.get('/console/approvals', await home.cookieOf('member'))).text()
    expect(member).not.toContain('https://a.example')
  })

  test('are listed by kind, rule, person and risk', async () => {
    const id = await home.held()
    const { rule_id, requested_by, risk } = await home.approvalOf(id)
    const shows = async (query: string) =>
      (await (await home.get(`/console/approvals?${query}`)).text()).includes(`/console/approvals/${id}"`)
    for (const query of [
      'kind=agent_call',
      `rule_id=${rule_id}`,
      `requested_by=${requested_by}`,
      `risk=${risk.level}`,
      'mine=true',
    ])
      expect([query, await shows(query)]).toEqual([query, true])
    for (const query of ['kind=run', 'rule_id=rule_1', 'requested_by=usr_1', 'risk=critical'])
      expect([query, await shows(query)]).toEqual([query, false])
    const members = await home.get('/console/approvals?mine=true', await home.cookieOf('member'))
    expect(await members.text()).not.toContain(`/console/approvals/${id}"`)
    // The choices cover everything that waits in the organization, even while a filter shows nothing.
    const page = plain(await (await home.get('/console/approvals?kind=run')).text())
    const { server } = home
    const path = `/organizations/${server.identities.organization_id}/approvals/summary`
    const { body } = await server.call(server.identities.users.member.api_key, 'GET', path)
    const [rule] = body.rules as { rule_name: string; count: number }[]
    expect(page).toContain(`${rule?.rule_name} (${rule?.count})`)
    expect(page).toContain(`Calls of agents (${body.total})`)
    expect(page).not.toContain('Steps of runs (')
    expect(page).toContain('Nothing that waits matches the filter.')
  })

  test('that could be decided only in part name the others and why, under the same filter', async () => {
    const [mine, late] = [await home.held(), await home.held()]
    const token = await home.tokenOf('/console/approvals')
    const { users } = home.server.identities
    await home.server.call(users.admin.api_key, 'POST', `/approvals/${late}/reject`, {})
    const fields: [string, string][] = [['token', token], ['decision', 'reject'], ['id', mine], ['id', late]] // prettier-ignore
    const answer = await home.post('/console/approvals?kind=agent_call', fields)
    expect([answer.status, answer.headers.get('location')]).toEqual([
      303,
      `/console/approvals?kind=agent_call&decision=reject&decided=${mine}+${late}`,
    ])
    const page = await (await home.get(answer.headers.get('location') ?? '')).text()
    expect(page).toContain('role="alert"')
    expect(plain(page)).toContain('You rejected 1 call.')
    expect(plain(page)).toContain('The approval is already rejected.')
    // Nothing counted, so the form is shown again with everything that was written.
    const again = await home.post('/console/approvals', [...fields, ['comment', 'kept words']])
    expect(again.status).toBe(422)
    expect(await again.text()).toContain('>kept words</textarea>')
  })

  test('name their agent, and say how many labels a row leaves out', async () => {
    const id = await home.held({ command: 'git push origin labels' })
    const labels = Array.from({ length: 7 }, (_, index) => `label-${index}`)
    await home.server.context.pool.query('update approvals set labels = $2 where id = $1', [id, labels])
    const page = plain(await (await home.get('/console/approvals')).text())
    expect(page).toContain('with Claude Code')
    expect(page).toContain('label-4and 2 more')
    expect(page).not.toContain('label-5')
  })
})

describe('calls whose outcome is unknown', () => {
  /** The links of the page to runs with such calls. */
  const listed = async (query: string) => {
    const text = await (await home.get(`/console/approvals?${query}`)).text()
    return { count: text.split('Outcome unknown').length - 1, text }
  }

  test('have pages of their own, and follow the filters that fit them', async () => {
    await unknownRun(home.server, 12)
    const first = await listed('')
    expect(first.count).toBe(10)
    const next = /href="\/console\/approvals\?(unknown=[^"]*)"/.exec(first.text)?.[1] ?? ''
    expect((await listed(next)).count).toBe(2)
    const { member, admin } = home.server.identities.users
    for (const [query, count] of [
      [`requested_by=${member.user_id}`, 10],
      ['kind=resolution', 10],
      [`requested_by=${admin.user_id}`, 0],
      ['kind=agent_call', 0],
      ['risk=low', 0],
      ['rule_id=rule_1', 0],
    ] as const)
      expect([query, (await listed(query)).count]).toEqual([query, count])
    const alone = await listed('kind=resolution')
    expect(alone.text).not.toContain('type="checkbox"')
  })
})
