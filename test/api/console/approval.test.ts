import { sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { expireDue } from '../../../src/governance/approvals/expire.ts'
import { supersedeApproval, writeAtOnce } from '../../../src/governance/approvals/moves.ts'
import { loadApproval } from '../../../src/governance/approvals/records.ts'
import { sha256 } from '../../../src/shared/canonical-json.ts'
import { approvalsOf, heldStep, holdSteps, startRun } from '../../console/support.ts'
import { addOrganization } from '../fixtures.ts'
import { plain, startPages, type PagesHome } from './pages-home.ts'

/* What the page of an approval says, and the effects of its form, over HTTP. */

let home: PagesHome
beforeAll(async () => {
  home = await startPages({ SMTP_URL: 'smtp://127.0.0.1:1' })
  await holdSteps(home.server, ['mail_send'])
})
afterAll(() => home?.server.close())

/** Asks about a call of an agent, or reports that it has finished. */
const asAgent = async (path: string, body: object) =>
  (await home.server.call(home.server.identities.agent_key, 'POST', path, body)).body
const agent = { name: 'A', kind: 'hook' }
const ask = (body: object) => asAgent('/authorize', { agent, ...body })
const approve = (id: string) => home.call('admin', 'POST', `/approvals/${id}/approve`, {})
const expireNow = (id: string) =>
  home.server.context.pool.query('update approvals set expires_at = now() where id = $1', [id])
/** Sends the form of an approval. */
const decide = async (id: string, decision: string, more: Record<string, string> = {}) =>
  home.post(...(await home.formOf(id, decision, more)))
const mail = { tool: 'mail_send', params: { to: 'ana@a.example', subject: 's', text: 't' } }
const has = (text: string, ...words: readonly string[]) => {
  for (const each of words) expect(text).toContain(each)
}

describe('a whole run', () => {
  /** The only approval of a run that waits as a whole. */
  async function heldRun(run: Parameters<typeof startRun>[1]): Promise<[id: string, runId: string]> {
    await home.settings({ approval_required_from: 'low' })
    const runId = await startRun(home.server, run)
    await home.settings({ approval_required_from: null })
    return [(await approvalsOf(home.server, runId))[0] ?? '', runId]
  }

  test('shows its steps, and its inputs and parameters to those who may decide', async () => {
    const params = { to: 'a@b.test', subject: '{{input.topic}}', text: 'x' }
    const [id] = await heldRun({
      inputs: { topic: 'a-secret-topic' },
      steps: [
        { id: 'look', tool: 'memory_get', params: { key: 'k' }, summary: 'Looks it up' },
        { id: 'tell', tool: 'mail_send', params, depends_on: ['look'], summary: 'Tells the team' },
      ],
    })
    const text = await home.pageOf(id)
    has(text, 'look memory_get', 'Looks it up', 'tell mail_send', 'Tells the team', 'after look')
    expect(text).toContain('a-secret-topic')
    expect(text).toMatch(/to ?a@b\.test ?subject ?\{\{input\.topic\}\}/)
    const file = await home.get(`/console/approvals/${id}/parameters`)
    expect(await file.json()).toMatchObject({
      inputs: {},
      steps: [{ id: 'look' }, { params: { to: 'a@b.test' } }],
    })
    const requesters = await home.pageOf(id, 'member')
    has(requesters, 'Tells the team', 'a-secret-topic')
    expect(requesters).not.toContain('a@b.test')
    const others = plain(
      await (await home.get(`/console/approvals/${id}`, await home.bystanderCookie())).text(),
    )
    has(others, 'Tells the team', 'Inputs of the run', 'ask member@countersign.test or admins and owners')
    expect(others).not.toMatch(/a-secret-topic|a@b\.test/)
  })

  test('is not approved while its steps and inputs cannot be read', async () => {
    const [id, runId] = await heldRun({ inputs: { topic: 'unread' } })
    const form = await home.formOf(id, 'approve')
    const runs = home.server.context.db.updateTable('runs').where('id', '=', runId)
    const { id: elsewhere } = await addOrganization(home.server.context)
    await runs.set({ organization_id: elsewhere }).execute()
    try {
      expect((await home.post(...form)).status).toBe(404)
      expect((await home.approvalOf(id)).status).toBe('pending')
    } finally {
      await runs.set({ organization_id: home.server.identities.organization_id }).execute()
    }
    expect((await home.post(...form)).status).toBe(303)
  })
})

describe('an agent’s call', () => {
  test('that edits a file is drawn as a change, and nobody claims to know whether it can be undone', async () => {
    await home.hold({ name: 'Edits wait', applies_to: ['agents'], tools: ['Edit'] })
    const id = await home.held({ file_path: '/etc/hosts', old_string: 'a\nb', new_string: 'a\nc' }, 'Edit')
    const html = await home.html(`/console/approvals/${id}`)
    expect(html).toMatch(/class="diff-line removed"/)
    expect(html).toMatch(/class="diff-line added"/)
    const unknown = 'Unknown whether it can be taken back'
    has(plain(html), 'Edit “/etc/hosts”', 'Both texts come from the agent.', unknown)
  })

  const afterwards = [
    ['error', 'Reported as failed', 'What the agent may do', 'Exactly as it was approved'],
    ['ok', 'Reported as done', 'What the agent did, as its client reports', 'Exactly as it was allowed'],
  ] as const
  test.each(afterwards)('is shown as it is, whose client reports “%s”', async (outcome, ...words) => {
    const input = { command: `git push origin ${outcome}` }
    const asked = { session_id: outcome, tool_name: 'Bash', tool_input: input }
    const id: string = (await ask(asked)).approval_id
    expect(await home.pageOf(id)).toContain('Exactly as it will run')
    await approve(id)
    expect(await home.pageOf(id)).toContain('Not used yet')
    expect((await ask(asked)).decision).toBe('allow')
    const used = await home.html(`/console/approvals/${id}`)
    expect(plain(used)).toContain('Its client has not reported what became of it.')
    // The page looks again until the report has come.
    expect(used).toContain('data-poll')
    await asAgent('/authorize/observe', { ...asked, outcome })
    const reported = await home.html(`/console/approvals/${id}`)
    has(plain(reported), ...words)
    expect(reported).not.toContain('data-poll')
  })

  test('of a command shows its folder with hidden characters, its scripts, and what is not covered', async () => {
    const body = {
      session_id: 'folder',
      tool_name: 'Bash',
      tool_input: { command: './a.sh && ./b.sh && git push' },
      scripts: [{ word: './a.sh', path: '/srv/a.sh', sha256: '0123456789abcdef'.repeat(4) }],
    }
    const text = await home.pageOf((await ask({ ...body, cwd: '/srv/pro\u200bduction' })).approval_id)
    expect(text).toContain('The approval does not cover the content of “./b.sh”')
    expect(text).toMatch(/cwd ?\/srv\/pro ?U\+200B ?duction ?scripts ?\.\/a\.sh, the file \/srv\/a\.sh: /)
    expect(text).toContain('the file /srv/a.sh: SHA-256 0123456789ab…')
    expect(await home.pageOf((await ask(body)).approval_id)).toContain('does not say in which folder')
  })
})

describe('parameters that are too long for the page', () => {
  const long = { command: 'git push', note: 'n'.repeat(1_600_000) }

  test('are approved only by somebody who says that they have read the file', async () => {
    const id = await home.held(long)
    const [path, fields] = await home.formOf(id, 'approve', { comment: 'kept' })
    const refused = await home.post(path, fields)
    expect(refused.status).toBe(422)
    has(await refused.text(), 'download all of it', '>kept</textarea>')
    const together = await home.post('/console/approvals', { ...fields, id })
    expect([together.status, (await together.text()).includes('too long for a page')]).toEqual([422, true])
    expect((await home.approvalOf(id)).status).toBe('pending')
    expect((await home.post(path, { ...fields, read: id })).status).toBe(303)
    expect((await home.approvalOf(id)).status).toBe('approved')
  })

  test('are rejected without it', async () => {
    expect((await decide(await home.held(long), 'reject')).status).toBe(303)
  })

  test('come as a file whose hash is that of the approval, only to those who may decide', async () => {
    const id = await home.held(long)
    const path = `/console/approvals/${id}/parameters`
    const file = await home.get(path)
    expect(file.headers.get('content-disposition')).toBe(`attachment; filename="${id}.json"`)
    const body = await file.text()
    expect(JSON.parse(body)).toEqual({ tool: 'Bash', params: long })
    expect(sha256(body)).toBe((await home.approvalOf(id)).params_hash)
    for (const cookie of [await home.bystanderCookie(), await home.cookieOf('viewer')]) {
      const other = await home.get(path, cookie)
      expect([other.status, (await other.text()).includes('nnnn')]).toEqual([403, false])
    }
    expect((await home.get(path, '')).status).toBe(303)
  })

  test('are shown from their beginning, with a mark and with the short ones', async () => {
    const id = await home.held({ a: 'x'.repeat(2_000_000), command: 'git push --force' })
    const text = await home.html(`/console/approvals/${id}`)
    expect(text.length).toBeLessThan(3_100_000)
    expect(text.includes('500,000 more characters are not on this page')).toBe(true)
    expect(text).toContain(`href="/console/approvals/${id}/parameters"`)
    expect(text).toMatch(/class="text code"[^>]*>git push --force</)
  })
})

test('the page of a step shows the parameters in the order of the preview', async () => {
  const params = { text: 'Please pay.', subject: 'Invoice', to: 'ana@a.example' }
  const runId = await heldStep(home.server, { tool: 'mail_send', params })
  const [id = ''] = await approvalsOf(home.server, runId)
  for (const path of [`approvals/${id}`, `runs/${runId}/steps/send`]) {
    const html = await home.html(`/console/${path}`, 'owner')
    const names = [...html.matchAll(/<dt><bdi class="words">(\w+)<\/bdi>/g)].map(([, name]) => name)
    expect([path, names]).toEqual([path, ['to', 'subject', 'text']])
  }
})

describe('the page of an approval', () => {
  test('says why it is held, where the data comes from, how risky it is, how long it waits, and for how many', async () => {
    await ask({ session_id: 'why', tool_name: 'Read', tool_input: { file_path: 'notes.txt' } })
    const rule = { name: 'Internal data stays here', applies_to: ['agents'], tools: ['Bash'] }
    const more = { labels: { any_of: ['internal'] }, approvals_needed: 2 }
    const saved = await home.hold({ ...rule, ...more })
    const asked = { session_id: 'why', tool_name: 'Bash', tool_input: { command: 'git push origin why' } }
    const { approval_id: id } = await ask(asked)
    const { organization_id: organization } = home.server.identities
    await home.call('admin', 'DELETE', `/organizations/${organization}/rules/${saved.body.id}`)
    const text = await home.pageOf(id)
    for (const words of [
      /Rule Agents ask before they send holds Bash because it sends data out/,
      /Another rule holds it too: Internal data stays here/,
      /Why the risk is high/,
      /delivers content to people or places/,
      /internal from tool Read/,
      /Expires in 1 hour \(/,
      /Needs 2 approvals by admins or owners\. One rejection ends it\./,
    ])
      expect(text).toMatch(words)
    expect(text.match(/Expires/g)).toHaveLength(1)
  })

  test.each(['admin', 'owner'] as const)(
    'has no form for the %s who asked, and names who can decide',
    async (who) => {
      const [id = ''] = await approvalsOf(home.server, await heldStep(home.server, mail, { by: who }))
      const html = await home.html(`/console/approvals/${id}`, who)
      expect(html).not.toContain('name="decision"')
      expect(plain(html)).toMatch(/You cannot decide this.*You cannot decide your own request: ask \S+@/s)
      // An admin or owner sees what they have asked for.
      expect(plain(html)).toContain('ana@a.example')
    },
  )

  test('has no form for people who may not decide, who read why and see no parameters', async () => {
    const id = await home.held({ command: 'git push origin secret-branch' })
    for (const [cookie, words] of [
      [await home.cookieOf('viewer'), ['This is not yours to see']],
      [
        await home.bystanderCookie(),
        [
          'What an approval covers is shown only to the person who asked, those who may decide it, and owners',
          'You cannot decide this',
          'You need the role admin to decide this approval.',
        ],
      ],
    ] as const) {
      const html = await (await home.get(`/console/approvals/${id}`, cookie)).text()
      expect(html).not.toMatch(/secret-branch|name="decision"/)
      has(plain(html), ...words)
    }
    expect(await home.html(`/console/approvals/${id}`, 'owner')).toMatch(/secret-branch.*name="decision"/s)
  })

  test('that another approval replaced leads to that one', async () => {
    const [former, next] = [await home.held(), await home.held()]
    const { context, identities } = home.server
    await context.combiner.run(identities.organization_id, 'org.change', async (tx) => {
      const { approval } = (await loadApproval(tx, sql`id = ${former}`)) ?? {}
      if (approval !== undefined) supersedeApproval(writeAtOnce(tx), approval, next)
      const actor = { type: 'system', id: 'x' } as const
      tx.append({ eventType: 'organization.queue_changed', action: 'a', status: 'success', actor })
    })
    const html = await home.html(`/console/approvals/${former}`)
    expect(html).toContain(`href="/console/approvals/${next}">The approval in its place`)
    expect(html).not.toContain('name="decision"')
  })

  const warning = 'Reject also ends the run'

  test('of a call of a run announces what a rejection ends, to people who may reject', async () => {
    const [id = ''] = await approvalsOf(home.server, await heldStep(home.server, mail))
    expect(await home.pageOf(id)).toContain(
      `${warning}, and its other held calls are withdrawn, unless the step has on_error: continue. Request changes asks`,
    )
    expect(await home.pageOf(id, 'member')).not.toContain(warning)
    const list = plain(await home.html('/console/approvals'))
    expect(list).toContain('To reject a call of a run also ends the run')
  })

  test.each([
    ['has begun', { attempt: 1 }],
    ['was edited 20 times', { revision: JSON.stringify({ count: 20 }) }],
  ])('of a call that %s says that it is not edited any more, and offers no edit', async (_, set) => {
    const runId = await heldStep(home.server, mail)
    const [id = ''] = await approvalsOf(home.server, runId)
    const { db } = home.server.context
    await db
      .updateTable('approvals')
      .set({ may_edit: ['subject'] })
      .where('id', '=', id)
      .execute()
    const offer = 'Edit it, for another person to confirm'
    expect(await home.pageOf(id)).toContain(offer)
    await db.updateTable('effects').set(set).where('run_id', '=', runId).execute()
    const page = await home.pageOf(id)
    expect(page).toContain('Request changes ends it like Reject')
    expect(page).not.toContain(offer)
    expect(await home.approvalOf(id)).toMatchObject({ may_edit: [], detail: { can_be_edited: false } })
  })

  test('of an agent’s call announces nothing more: a rejection ends that call alone', async () => {
    expect(await home.pageOf(await home.held())).not.toContain(warning)
  })
})

describe('a decision', () => {
  test('needs the token of its session and the origin of this service', async () => {
    const id = await home.held()
    const [path, fields] = await home.formOf(id, 'approve')
    const { token = '' } = fields
    for (const refused of [
      await home.post(path, { ...fields, token: '' }),
      await home.post(path, { ...fields, token: `${token.slice(0, -1)}_` }),
      await home.post(path, fields, {}, await home.cookieOf('admin')),
      await home.post(path, fields, { origin: 'https://evil.example' }),
      await home.post(path, fields, { 'sec-fetch-site': 'same-site' }),
    ])
      expect(refused.status).toBe(403)
    expect(await home.approvalOf(id)).toMatchObject({ status: 'pending', votes: [] })
    expect((await home.post(path, fields)).status).toBe(303)
    expect(await home.approvalOf(id)).toMatchObject({ status: 'approved' })
  })

  test('that is sent twice counts once', async () => {
    const id = await home.held()
    const form = await home.formOf(id, 'approve', { comment: 'twice', once: 'abcdefgh-1' })
    const answers = [await home.post(...form), await home.post(...form)]
    expect(answers.map(({ status }) => status)).toEqual([303, 303])
    expect((await home.approvalOf(id)).votes).toHaveLength(1)
  })

  /** Something else ends the approval before the decision comes. `message` says so. */
  function tooLate(
    after: string,
    [word, message, votes]: readonly [string, string, number],
    end: (id: string) => Promise<unknown>,
  ): void {
    test(`after ${after} is refused, and the page shows the end`, async () => {
      const id = await home.held()
      const form = await home.formOf(id, 'approve')
      await end(id)
      const answer = await home.post(...form)
      const html = await answer.text()
      expect(answer.status).toBe(409)
      expect(html).toContain(`</svg>${word}</span>`)
      expect(plain(html)).toContain(message)
      expect(html).not.toContain('name="decision"')
      expect((await home.approvalOf(id)).votes).toHaveLength(votes)
    })
  }
  tooLate('a rejection', ['Rejected', 'The approval is already rejected.', 1], (id) =>
    home.call('admin', 'POST', `/approvals/${id}/reject`, { comment: 'no' }),
  )
  tooLate('a withdrawal', ['Withdrawn', 'The approval is already cancelled.', 0], (id) =>
    asAgent(`/authorize/approvals/${id}/cancel`, {}),
  )
  tooLate('the expiry', ['Expired', 'The approval has expired: the agent must ask again.', 0], expireNow)

  test('that requests changes needs a comment, and is a rejection that the requester reads as such', async () => {
    const id = await home.held()
    const empty = await decide(id, 'request_changes', { comment: ' ' })
    const form = (await empty.text()).split('class="decide"')[1] ?? ''
    expect([empty.status, form.includes('Say in the comment')]).toEqual([422, true])
    expect(form).toMatch(/<textarea[^>]* autofocus[^>]* aria-describedby="comment-problem"/)
    expect((await decide(id, 'request_changes', { comment: 'use a branch' })).status).toBe(303)
    expect(await home.approvalOf(id)).toMatchObject({
      status: 'rejected',
      votes: [{ decision: 'reject', comment: 'use a branch', changes_requested: true }],
    })
  })

  test('of two approvers, the agent and the clock ends an approval once, and its page shows that end', async () => {
    const { context } = home.server
    const words = { approved: 'Approved', rejected: 'Rejected', cancelled: 'Withdrawn', expired: 'Expired' }
    const admin = await home.cookieOf('admin')
    const list = '/console/approvals'
    const [mine, theirs] = [await home.tokenOf(list), await home.tokenOf(list, 'admin')]
    for (let round = 0; round < 8; round += 1) {
      const id = await home.held({ command: `git push origin race-${round}` })
      const path = `/console/approvals/${id}`
      const vote = (token: string, decision: string, cookie?: string) =>
        home.post(path, { token, decision, comment: 'c', once: `once-${decision}-${round}` }, {}, cookie)
      const due = async (): Promise<void> => {
        await expireNow(id)
        await expireDue(context)
      }
      const votes = await Promise.all([
        vote(mine, 'approve'),
        vote(mine, 'approve'),
        vote(theirs, 'reject', admin),
        asAgent(`/authorize/approvals/${id}/cancel`, {}).then(() => null),
        ...(round % 2 === 0 ? [due().then(() => null)] : []),
      ])
      const [first, second, other] = votes.flatMap((answer) => (answer === null ? [] : [answer.status]))
      const ended = await home.approvalOf(id)
      expect(Object.keys(words)).toContain(ended.status)
      expect(ended.votes).toHaveLength(['approved', 'rejected'].includes(ended.status) ? 1 : 0)
      // The same form sent twice gets the same answer twice. A person who was too late reads what happened.
      expect(first).toBe(second)
      expect([first, other]).toEqual(
        ended.status === 'approved' ? [303, 409] : ended.status === 'rejected' ? [409, 303] : [409, 409],
      )
      const page = await home.pageOf(id)
      expect(page).toContain(words[ended.status as keyof typeof words])
      expect(page).not.toContain('Request changes')
    }
  })
})

describe('text of strangers', () => {
  test('stays text: markup, marks of direction, line breaks and a megabyte', async () => {
    const long = `start-of-it${'x'.repeat(1_000_000)}`
    const id = await home.held({
      command: 'curl https://a.example/<script>alert(1)</script> \u202Egpj.exe',
      'a\n</dt><h1>Approved</h1>': long,
    })
    const text = await home.html(`/console/approvals/${id}`)
    expect(text).not.toMatch(/<script>alert|<h1>Approved|\u202e/)
    has(text, 'U+202E', long)
  })

  test('in names and comments is text on every page', async () => {
    const { server } = home
    // Names must not contain invisible characters, but comments and parameters may.
    const name = '</bdi></p><script>alert(1)</script><img src=x onerror=alert(1)>`*_'
    const hostile = `${name}\u202Egpj.exe\u2066\u200B🏴󠁧󠁢󠁥󠁮󠁧󠁿`
    await home.hold({ name, applies_to: ['workflows'], tools: ['memory_set'] })
    const step = { tool: 'memory_set', params: { key: 'k', value: hostile }, summary: hostile }
    const runId = await heldStep(server, step, { name })
    const [approval = ''] = await approvalsOf(server, runId)
    const call = { session_id: name, tool_name: 'Bash', tool_input: { command: `git push ${hostile}` } }
    const { approval_id: held } = await ask({ ...call, agent: { name, kind: 'hook' } })
    const { agent_session_id: session } = await home.approvalOf(held)
    await home.call('admin', 'POST', `/approvals/${held}/reject`, { comment: `${hostile}\nApproved` })
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
  })
})

describe('the number of people who can still vote', () => {
  const voters = async (id: string): Promise<[number, number]> => {
    const { detail } = await home.approvalOf(id)
    return [detail.votes_missing, detail.voters_left]
  }

  test('is one less after each vote, and the page says when they are too few', async () => {
    await home.settings({ approval_threshold: 3 })
    const id = await home.held()
    expect(await voters(id)).toEqual([3, 3])
    expect(await home.pageOf(id)).not.toContain('can still vote')
    await approve(id)
    expect(await voters(id)).toEqual([2, 2])
    await home.settings({ approval_threshold: 4 })
    expect(await voters(id)).toEqual([3, 2])
    const words = 'Too few people can still vote, so it cannot be approved now'
    expect(await home.pageOf(id)).toContain(words)
    await home.settings({ approval_threshold: 1 })
  })

  test('has only owners if an owner must decide, and the person who asked only if the setting says so', async () => {
    await home.hold({ name: 'owners', tools: ['Write'], approver: 'owner', approvals_needed: 2 })
    const asked = { agent, session_id: 'own', tool_name: 'Write', tool_input: { file_path: 'x' } }
    const id: string = (await home.call('owner', 'POST', '/authorize', asked)).body.approval_id
    expect(await voters(id)).toEqual([2, 0])
    expect(await home.pageOf(id)).toContain('Too few people can still vote')
    await home.settings({ allow_self_approval: true })
    expect(await voters(id)).toEqual([2, 1])
    expect(await home.pageOf(id)).toContain('Too few people can still vote')
    await home.call('owner', 'POST', `/approvals/${id}/reject`, {})
    expect((await voters(id))[1]).toBe(0)
    expect(await home.pageOf(id)).not.toContain('can still vote')
    await home.settings({ allow_self_approval: false })
  })
})
