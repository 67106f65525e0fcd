import { sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { supersedeApproval, writeAtOnce } from '../../../src/governance/approvals/moves.ts'
import { loadApproval } from '../../../src/governance/approvals/records.ts'
import { sha256 } from '../../../src/shared/canonical-json.ts'
import { addOrganization } from '../fixtures.ts'
import { startRun } from '../../console/runs-world.ts'
import { approvalsOf, heldStep, holdSteps } from '../../console/support.ts'
import { plain, startPages, type PagesHome } from './pages-home.ts'

/* What the page of an approval says, over HTTP. */

let home: PagesHome
beforeAll(async () => {
  home = await startPages({ SMTP_URL: 'smtp://127.0.0.1:1' })
  await holdSteps(home.server, ['mail_send'])
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
  test('shows its steps, and its inputs and parameters to those who may decide', async () => {
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
    expect(text).toMatch(/to ?a@b\.test ?subject ?\{\{input\.topic\}\}/)
    const file = await home.get(`/console/approvals/${id}/parameters`)
    expect(await file.json()).toMatchObject({
      inputs: {},
      steps: [{ id: 'look' }, { params: { to: 'a@b.test' } }],
    })
    const members = await pageOf(id, 'member')
    expect(members).toContain('Tells the team')
    expect(members).toContain('topic')
    expect(members).not.toContain('a-secret-topic')
    expect(members).not.toContain('a@b.test')
  })

  test('is not approved while its steps and inputs cannot be read', async () => {
    await governance({ approval_required_from: 'low' })
    const runId = await startRun(home.server, { inputs: { topic: 'unread' } })
    await governance({ approval_required_from: null })
    const [id = ''] = await approvalsOf(home.server, runId)
    const path = `/console/approvals/${id}`
    const fields = { token: await home.tokenOf(path), decision: 'approve', comment: '' }
    const runs = home.server.context.db.updateTable('runs').where('id', '=', runId)
    const { id: elsewhere } = await addOrganization(home.server.context)
    await runs.set({ organization_id: elsewhere }).execute()
    try {
      expect((await home.post(path, fields)).status).toBe(404)
      expect((await home.approvalOf(id)).status).toBe('pending')
    } finally {
      await runs.set({ organization_id: home.server.identities.organization_id }).execute()
    }
    expect((await home.post(path, fields)).status).toBe(303)
  })
})

describe('an agent’s call', () => {
  test('that edits a file is drawn as a change, and nobody claims to know whether it can be undone', async () => {
    const { organization_id: organization, users } = home.server.identities
    const rule = { name: 'Edits wait', verdict: 'require_approval', applies_to: ['agents'], tools: ['Edit'] }
    await home.server.call(users.admin.api_key, 'POST', `/organizations/${organization}/rules`, rule)
    const id = await home.held({ file_path: '/etc/hosts', old_string: 'a\nb', new_string: 'a\nc' }, 'Edit')
    const html = await (await home.get(`/console/approvals/${id}`)).text()
    expect(plain(html)).toContain('Edit “/etc/hosts”')
    expect(html).toMatch(/class="diff-line removed"/)
    expect(html).toMatch(/class="diff-line added"/)
    expect(plain(html)).toContain('Both texts come from the agent.')
    expect(plain(html)).toContain('Unknown whether it can be taken back')
  }) // prettier-ignore

  test('shows whether the agent has asked again, and what its client reported', async () => {
    const { agent_key: key, users } = home.server.identities
    const session_id = 'reports'
    const asked = { session_id, tool_name: 'Bash', tool_input: { command: 'git push origin report' } }
    const ask = () => home.server.call(key, 'POST', '/authorize', { ...asked, agent: { name: 'A', kind: 'hook' } })
    const id = (await ask()).body.approval_id as string
    await home.server.call(users.admin.api_key, 'POST', `/approvals/${id}/approve`, {})
    expect(await pageOf(id)).toContain('Not used yet')
    expect((await ask()).body.decision).toBe('allow')
    const used = await home.get(`/console/approvals/${id}`)
    const html = await used.text()
    expect(plain(html)).toContain('Its client has not reported what became of it.')
    // The page looks again until the report has come.
    expect(html).toContain('data-poll')
    await home.server.call(key, 'POST', '/authorize/observe', { ...asked, outcome: 'error' })
    const reported = await (await home.get(`/console/approvals/${id}`)).text()
    expect(plain(reported)).toContain('Reported as failed')
    // A call that failed is not said to have happened.
    for (const words of ['What the agent may do', 'Exactly as it was approved']) expect(plain(reported)).toContain(words)
    expect(reported).not.toContain('data-poll')
  }) // prettier-ignore

  test('of a command shows its folder with hidden characters, its scripts, and what is not covered', async () => {
    const body = {
      session_id: 'folder',
      agent: { name: 'A', kind: 'hook' },
      tool_name: 'Bash',
      tool_input: { command: './a.sh && ./b.sh && git push' },
      cwd: '/srv/pro\u200bduction',
      scripts: [{ word: './a.sh', path: '/srv/a.sh', sha256: '0123456789abcdef'.repeat(4) }],
    }
    const id = (await home.server.call(home.server.identities.agent_key, 'POST', '/authorize', body)).body.approval_id
    const text = await pageOf(id as string)
    expect(text).toContain('The approval does not cover the content of “./b.sh”')
    expect(text).toMatch(/cwd ?\/srv\/pro ?U\+200B ?duction ?scripts ?\.\/a\.sh, the file \/srv\/a\.sh: SHA-256 0123456789ab…/)
    const { approval_id } = (await home.server.call(home.server.identities.agent_key, 'POST', '/authorize', { ...body, cwd: undefined })).body
    expect(await pageOf(approval_id)).toContain('does not say in which folder')
  }) // prettier-ignore

  test('has in its past what a client reports as done', async () => {
    const { agent_key: key, users } = home.server.identities
    const asked = { session_id: 'past', tool_name: 'Bash', tool_input: { command: 'git push origin past' } }
    const ask = () =>
      home.server.call(key, 'POST', '/authorize', { ...asked, agent: { name: 'A', kind: 'hook' } })
    const id = (await ask()).body.approval_id as string
    expect(await pageOf(id)).toContain('Exactly as it will run')
    await home.server.call(users.admin.api_key, 'POST', `/approvals/${id}/approve`, {})
    await ask()
    await home.server.call(key, 'POST', '/authorize/observe', { ...asked, outcome: 'ok' })
    const text = await pageOf(id)
    for (const words of [
      'Reported as done',
      'What the agent did, as its client reports',
      'Exactly as it was allowed',
    ])
      expect(text).toContain(words)
  })
})

describe('parameters that are too long for the page', () => {
  const long = { command: 'git push', note: 'n'.repeat(1_600_000) }

  test('are approved only by somebody who says that they have read the file', async () => {
    const id = await home.held(long)
    const path = `/console/approvals/${id}`
    const fields = { token: await home.tokenOf(path), decision: 'approve', comment: 'kept' }
    const refused = await home.post(path, fields)
    const text = await refused.text()
    expect([refused.status, text.includes('download all of it')]).toEqual([422, true])
    expect(text).toContain('>kept</textarea>')
    const together = await home.post('/console/approvals', { ...fields, id })
    expect([together.status, (await together.text()).includes('too long for a page')]).toEqual([422, true])
    expect((await home.approvalOf(id)).status).toBe('pending')
    expect((await home.post(path, { ...fields, read: id })).status).toBe(303)
    expect((await home.approvalOf(id)).status).toBe('approved')
  })

  test('are rejected without it', async () => {
    const id = await home.held(long)
    const path = `/console/approvals/${id}`
    const fields = { token: await home.tokenOf(path), decision: 'reject', comment: '' }
    expect((await home.post(path, fields)).status).toBe(303)
  })

  test('come as a file whose hash is that of the approval, only to those who may decide', async () => {
    const id = await home.held(long)
    const path = `/console/approvals/${id}/parameters`
    const file = await home.get(path)
    expect(file.headers.get('content-disposition')).toBe(`attachment; filename="${id}.json"`)
    const body = await file.text()
    expect(JSON.parse(body)).toEqual({ tool: 'Bash', params: long })
    expect(sha256(body)).toBe((await home.approvalOf(id)).params_hash)
    for (const who of ['member', 'viewer'] as const) {
      const other = await home.get(path, await home.cookieOf(who))
      expect([other.status, (await other.text()).includes('nnnn')]).toEqual([403, false])
    }
    expect((await home.get(path, '')).status).toBe(303)
  })
})

test('the page of a step shows the parameters in the order of the preview', async () => {
  const params = { text: 'Please pay.', subject: 'Invoice', to: 'ana@a.example' }
  const runId = await heldStep(home.server, { tool: 'mail_send', params })
  const [id = ''] = await approvalsOf(home.server, runId)
  const owner = await home.cookieOf('owner')
  for (const path of [`approvals/${id}`, `runs/${runId}/steps/send`]) {
    const html = await (await home.get(`/console/${path}`, owner)).text()
    const names = [...html.matchAll(/<dt><bdi class="words">(\w+)<\/bdi>/g)].map(([, name]) => name)
    expect([path, names]).toEqual([path, ['to', 'subject', 'text']])
  }
})

describe('the page of an approval', () => {
  test('says why it is held, where the data comes from, how risky it is, how long it waits, and for how many', async () => {
    const { agent_key: key, organization_id: organization, users } = home.server.identities
    const asked = { agent: { name: 'A', kind: 'hook' }, session_id: 'why' }
    const ask = async (tool_name: string, tool_input: object) =>
      (await home.server.call(key, 'POST', '/authorize', { ...asked, tool_name, tool_input })).body
    await ask('Read', { file_path: 'notes.txt' })
    const rule = {
      name: 'Internal data stays here',
      verdict: 'require_approval',
      applies_to: ['agents'],
      tools: ['Bash'],
      labels: { any_of: ['internal'] },
      approvals_needed: 2,
    }
    const saved = await home.server.call(users.admin.api_key, 'POST', `/organizations/${organization}/rules`, rule)
    const { approval_id: id } = await ask('Bash', { command: 'git push origin why' })
    await home.server.call(users.admin.api_key, 'DELETE', `/rules/${saved.body.id}`)
    const text = await pageOf(id)
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
  }) // prettier-ignore

  test.each(['admin', 'owner'] as const)('has no form for the %s who asked, and names who can decide', async (who) => {
      const params = { to: 'ana@a.example', subject: 's', text: 't' }
    const runId = await heldStep(home.server, { tool: 'mail_send', params }, { by: who })
    const [id = ''] = await approvalsOf(home.server, runId)
    const html = await (await home.get(`/console/approvals/${id}`, await home.cookieOf(who))).text()
    expect(html).not.toContain('name="decision"')
    expect(plain(html)).toMatch(/You cannot decide this.*You cannot decide your own request: ask \S+@/s)
    // An admin or owner sees what they have asked for.
    expect(plain(html)).toContain('ana@a.example')
  }) // prettier-ignore

  test('that another approval replaced leads to that one', async () => {
    const [former, next] = [await home.held(), await home.held()]
    const { context, identities } = home.server
    await context.combiner.run(identities.organization_id, 'org.change', async (tx) => {
      const { approval } = (await loadApproval(tx, sql`id = ${former}`)) ?? {}
      if (approval !== undefined) supersedeApproval(writeAtOnce(tx), approval, next)
      tx.append({
        eventType: 'organization.queue_changed',
        action: 'a',
        status: 'success',
        actor: { type: 'system', id: 'x' },
      })
    })
    const html = await (await home.get(`/console/approvals/${former}`)).text()
    expect(html).toContain(`href="/console/approvals/${next}">The approval in its place`)
    expect(html).not.toContain('name="decision"')
  })
})

describe('a decision that comes too late', () => {
  test.each([
    [
      'a withdrawal',
      'Withdrawn',
      'The approval is already cancelled.',
      (id: string): Promise<unknown> =>
        home.server.call(home.server.identities.agent_key, 'POST', `/authorize/approvals/${id}/cancel`, {}),
    ],
    [
      'the expiry',
      'Expired',
      'The approval has expired: the agent must ask again.',
      (id: string): Promise<unknown> =>
        home.server.context.db.updateTable('approvals').set({ expires_at: new Date() }).where('id', '=', id).execute(),
    ],
  ])('after %s is refused, and the page shows the end', async (_, word, message, end) => {
    const id = await home.held()
    const path = `/console/approvals/${id}`
    const token = await home.tokenOf(path)
    await end(id)
    const answer = await home.post(path, { token, decision: 'approve', comment: '' })
    const html = await answer.text()
    expect(answer.status).toBe(409)
    expect(html).toContain(`</svg>${word}</span>`)
    expect(plain(html)).toContain(message)
    expect(html).not.toContain('name="decision"')
    expect((await home.approvalOf(id)).votes).toEqual([])
  }) // prettier-ignore
})
