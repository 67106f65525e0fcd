import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { agentSession } from '../../console/runs-world.ts'
import { plain, startPages, type PagesHome } from './pages-home.ts'

/* The list of agents' sessions and the page of a session, over HTTP. */

let home: PagesHome
beforeAll(async () => {
  home = await startPages()
})
afterAll(() => home?.server.close())

/** The main part of a page, without the page's header. */
const main = async (path: string): Promise<string> =>
  (await (await home.get(path)).text()).split('<main')[1] ?? ''
const api = async (path: string) =>
  (await home.server.call(home.server.identities.users.admin.api_key, 'GET', path)).body

test('the list says what a person can do while it is empty', async () => {
  const text = plain(await main('/console/sessions'))
  expect(text).toContain('No agent has asked yet.')
  expect(text).not.toContain('/api/v1')
})

describe('the list of sessions', () => {
  const ask = (session_id: string, name: string) =>
    home.server.call(home.server.identities.agent_key, 'POST', '/authorize', {
      agent: { name, kind: 'coding_agent' },
      session_id,
      tool_name: 'Glob',
      tool_input: {},
    })
  /** The text of the row of each session of an agent, without the times that pass. */
  const rowsOf = async (name: string): Promise<string[]> =>
    (await main('/console/sessions'))
      .split('<li class="item')
      .map(plain)
      .filter((row) => row.includes(name))

  test('tells two sessions of one agent apart, also by the ends of long ids', async () => {
    const same = '7f3c51d2-1111-4000-8000'
    for (const end of ['aaaaaaaa', 'bbbbbbbb']) await ask(`${same}-${end}`, 'Two of one')
    const rows = await rowsOf('Two of one')
    expect(rows).toHaveLength(2)
    expect(rows[0]).toContain('Session 7f3c51d2…bbbbbbbb of member@')
    expect(rows[1]).toContain('Session 7f3c51d2…aaaaaaaa of member@')
    for (const row of rows) expect(row).toMatch(/Started \d+ seconds? ago \(\d+ \w+ \d{4}, \d\d:\d\d UTC\)/)
  })

  test('marks the checks of doctor, and no other session', async () => {
    for (const [id, name] of [
      ['doctor-4711-1764111730', 'doctor'],
      ['no-check', 'doctor'],
      ['doctor-4711-1764111731', 'Impostor'],
    ] as const)
      await ask(id, name)
    const marked = async (name: string) =>
      (await rowsOf(name)).filter((row) => row.includes('Calls itself a check by doctor')).length
    expect(await marked('doctor')).toBe(1)
    expect(await marked('Impostor')).toBe(0)
    const [check] = (await api('/agent-sessions?session_id=doctor-4711-1764111730')).data
    expect(plain(await main(`/console/sessions/${check.id}`))).toContain('Calls itself a check by doctor')
  })
})

describe('a session’s page', () => {
  test('shows decisions, labels, what waits, and calls without a decision; and revokes', async () => {
    const path = `/console/sessions/${await agentSession(home.server)}`
    const text = await main(path)
    for (const words of [
      'member@',
      'internal',
      '1 call ran without a decision',
      // The sentence of the list of approvals.
      'Run “git push”',
      'Held for approval',
      'Live',
    ])
      expect(text).toContain(words)
    expect(plain(text)).toContain('internal from tool Read')
    // No call was denied, and that is no alarm.
    expect(text).toMatch(/class="badge off"><svg[^>]*><path[^>]*><\/path><\/svg>Denied/)
    const decided = text.slice(text.indexOf('What was decided'))
    expect(decided.indexOf('<bdi class="words">Bash')).toBeLessThan(
      decided.indexOf('<bdi class="words">Read</bdi></code>'),
    )
    const { session_run_id: record } = await api(path.replace('/console/', '/agent-'))
    const [{ approval_id: held }] = (await api(`/runs/${record}`)).waiting_for
    expect(await main(`/console/approvals/${held}`)).toContain(`${path}"`)
    expect(await main('/console/sessions?status=live')).toContain(`${path}"`)
    expect(await main('/console/sessions?status=revoked')).not.toContain(`${path}"`)
    const fields = { token: await home.tokenOf(path), action: 'revoke', reason: 'a stolen laptop' }
    expect((await home.post(path, fields)).status).toBe(303)
    const revoked = await main(path)
    expect(revoked).toMatch(/Revoked by .*approver@.*a stolen laptop/)
    expect(revoked).not.toContain('Revoke the session')
  })
})
