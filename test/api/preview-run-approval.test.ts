import { describe, expect, test } from '@jest/globals'
import { note, steps, usePreviews, type Previews } from './previews.ts'

let ask: Previews['ask']
let preview: Previews['preview']
let organization: string
let id: string
usePreviews((started) => ({ ask, preview, organization, id } = started))

describe('what a preview says of the approval of a whole run', () => {
  test('whether the whole run would wait, who approves it, and why', async () => {
    const governance = `${organization}/governance`
    await ask('owner', 'PATCH', governance, {
      approvals_enabled: true,
      require_approval_for_external_comm: true,
    })
    const hold = {
      name: 'owner sees mail',
      verdict: 'require_approval',
      tools: ['mail_send'],
      approver: 'owner',
    }
    const rule = (await ask('admin', 'POST', `${organization}/rules`, hold)).body.id
    const inputs = { to: 'a@acme.com' }
    const { run_approval } = (await preview(id, { inputs })).body
    expect(run_approval).toEqual({
      required: true,
      certainty: 'definite',
      risk_level: 'high',
      highest_risk_level: 'high',
      possible_reasons: [],
      reasons: expect.arrayContaining([
        '`mail_send` is external communication (`require_approval_for_external_comm`)',
      ]),
      approver: 'owner',
      approvals_needed: 1,
    })
    const started = await ask('member', 'POST', `/workflows/${id}/execute?wait=0`, { inputs })
    const run = (await ask('member', 'GET', `/runs/${started.body.execution_id}`)).body
    expect(run).toMatchObject({ status: 'awaiting_approval', risk: { reasons: run_approval.reasons } })
    expect(run.status_reason).toContain('by an owner: `mail_send` is external communication')
    await ask('owner', 'PATCH', governance, { approvals_enabled: false })
    expect((await preview(id, { inputs })).body).toMatchObject({
      executable: false,
      not_executable_because:
        'step `send` would be denied by `owner sees mail`; approvals are off: set `approvals_enabled`',
      run_approval: { required: false, risk_level: 'high', approver: null },
    })
    await ask('owner', 'PATCH', governance, { require_approval_for_external_comm: false })
    await ask('admin', 'DELETE', `${organization}/rules/${rule}`)
  })

  const comment = { id: 'c', tool: 'github_comment', params: { repo: 'a/b', number: 1, body: 'x' } }
  const channel = { id: 'c', tool: 'slack_create_channel', params: { name: 'x' } }
  test.each<[string, object, object, string]>([
    ['a risk', { approval_required_from: 'low' }, note, ''],
    ['public writes', { require_approval_for_public_writes: true }, comment, '`github_comment` writes where the public can read (`require_approval_for_public_writes`)'], // prettier-ignore
    ['permission changes', { require_approval_for_permission_changes: true }, channel, '`slack_create_channel` changes permissions (`require_approval_for_permission_changes`)'], // prettier-ignore
    ['a category of the workflow', { category_flags: { financial: true } }, note, 'the workflow is of category `financial` (`category_flags`)'], // prettier-ignore
    ['a category of a tool', { category_flags: { public_writes: true } }, comment, '`github_comment` is of category `public_writes` (`category_flags`)'], // prettier-ignore
  ])('a run that waits for %s, also without inputs', async (_, patch, step, reason) => {
    const off = { approvals_enabled: false, approval_required_from: null, require_approval_for_public_writes: false, require_approval_for_permission_changes: false, category_flags: {} } // prettier-ignore
    const definition = { inputs: { v: { type: 'string' } }, categories: ['financial'], steps: [step] }
    const shown = async () => (await preview(id, { definition })).body.run_approval
    try {
      await ask('owner', 'PATCH', `${organization}/governance`, { ...off, approvals_enabled: true })
      expect((await shown()).required).toBe(false)
      await ask('owner', 'PATCH', `${organization}/governance`, { ...patch, approvals_enabled: true })
      const { required, certainty, reasons } = await shown()
      expect({ required, certainty }).toEqual({ required: true, certainty: 'definite' })
      if (reason !== '') expect(reasons).toContain(reason)
    } finally {
      await ask('owner', 'PATCH', `${organization}/governance`, off)
    }
  })

  test('whether the run may wait, as far as inputs that are not known decide it', async () => {
    const governance = `${organization}/governance`
    await ask('owner', 'PATCH', governance, { approvals_enabled: true, approval_required_from: 'critical' })
    const send = {
      id: 's',
      tool: 'mail_send',
      params: { to: 'a@acme.com', subject: 'x', text: '{{input.v}}' },
    }
    const shown = async (body: object) => (await preview(id, { ...steps(send), ...body })).body.run_approval
    expect(await shown({})).toEqual({
      required: false,
      certainty: 'possible',
      risk_level: 'high',
      highest_risk_level: 'critical',
      reasons: ['`mail_send` delivers content to people or places'],
      possible_reasons: [
        '`mail_send` sends confidential data out, if `input.v` brings this label',
        '`mail_send` sends pii data out, if `input.v` brings this label',
      ],
      approver: 'admin',
      approvals_needed: 1,
    })
    const inputs = { v: 'x' }
    expect(await shown({ inputs })).toMatchObject({
      required: false,
      certainty: 'definite',
      highest_risk_level: 'high',
      possible_reasons: [],
      approver: null,
    })
    expect(await shown({ inputs, input_labels: { v: ['confidential'] } })).toMatchObject({
      required: true,
      certainty: 'definite',
      risk_level: 'critical',
    })
    await ask('owner', 'PATCH', governance, { approvals_enabled: false, approval_required_from: null })
  })
})
