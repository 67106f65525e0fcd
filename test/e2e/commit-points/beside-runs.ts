import { expect, test } from '@jest/globals'
import { until } from '../../stack/until.ts'
import type { Answer } from '../../support/client.ts'
import { startScriptedServer } from '../../support/scripted-server.ts'
import { both, type Kills } from './kills.ts'

/** Kills while settings change, agents ask, and webhooks are delivered. */
export function besideRuns(kills: Kills): void {
  test.each(both('org.change'))('%s: a setting is changed once', async (fault) => {
    // Other runs wait for their approvals meanwhile. So this setting must not change what they need.
    const change = { require_approval_for_permission_changes: fault.endsWith('before') }
    let answer!: Promise<unknown>
    await kills.home.faults.at(fault, () => {
      answer = kills.home.owner.settings(change)
    })
    expect(await answer).toMatchObject(change)
  })

  const question = (session: string, tool: string) => ({
    agent: { name: 'a', kind: 'hook' },
    session_id: session,
    tool_name: tool,
    tool_input: {},
    tool_use_id: `${session}-1`,
  })

  test.each(both('agent.decide'))('%s: an agent’s call is decided once', async (fault) => {
    let answer!: Promise<Answer<{ decision: string; decision_id: string; session_run_id: string }>>
    await kills.home.faults.at(fault, () => {
      answer = kills.home.member.call('POST', '/authorize', question(fault, 'Read'))
    })
    const { body } = await answer
    expect(body.decision).toBe('allow')
    const receipt = await kills.home.member.good<{ decisions: { decision_id: string }[] }>(
      'GET',
      `/runs/${body.session_run_id}/authorization`,
    )
    expect(receipt.decisions.map((each) => each.decision_id)).toEqual([body.decision_id])
  })

  test.each(both('agent.session'))(
    '%s: a session is revoked once, with its pending approvals',
    async (fault) => {
      await kills.home.admin.createRule({ name: fault, verdict: 'require_approval', tools: ['Write'] })
      const held = await kills.home.member.good<{ approval_id: string }>(
        'POST',
        '/authorize',
        question(fault, 'Write'),
      )
      const { data } = await kills.home.admin.good<{ data: { id: string }[] }>(
        'GET',
        `/agent-sessions?session_id=${encodeURIComponent(fault)}`,
      )
      const id = data[0]?.id ?? ''
      let answer!: Promise<Answer<{ status: string }>>
      await kills.home.faults.at(fault, () => {
        answer = kills.home.admin.call('POST', `/agent-sessions/${id}/revoke`, {})
      })
      expect((await answer).body.status).toBe('revoked')
      expect(await kills.home.approver.approval(held.approval_id)).toMatchObject({ status: 'cancelled' })
      const audited = await kills.home.query(
        "select 1 from audit_events where event_type = 'agent_session.revoked' and canonical like $1",
        [`%${id}%`],
      )
      expect(audited).toHaveLength(1)
    },
  )

  test.each(both('trigger.plan'))('%s: a due time starts one run', async (fault) => {
    const { owner, faults, query } = kills.home
    const accounts = `/organizations/${owner.bootstrap.organization_id}/service-accounts`
    const { id: account } = await owner.good<{ id: string }>('POST', accounts, { name: fault })
    const definition = { steps: [{ id: 's', tool: 'memory_get', params: { key: 'k' } }] }
    const { id: workflow } = await owner.good<{ id: string }>('POST', '/workflows', {
      name: fault,
      definition,
    })
    const all = `/workflows/${workflow}/triggers`
    let made!: Promise<{ id: string }>
    await faults.at(fault, () => {
      const schedule = { every_seconds: 10, overlap: 'allow' }
      made = owner.good('POST', all, { name: 't', service_account: account, version: 'latest', schedule })
    })
    const path = `${all}/${(await made).id}`
    await query('update lanes set leased_until = now() where leased_until is not null')
    const firings = async () =>
      (await owner.good<{ data: { state: string; due_at: string }[] }>('GET', `${path}/firings`)).data
    await until('it has fired', async () => (await firings()).some(({ state }) => state === 'started'))
    await owner.call('PATCH', path, { paused: true })
    const started = (await firings()).filter(({ state }) => state === 'started')
    expect(new Set(started.map(({ due_at: due }) => due)).size).toBe(started.length)
    const runs = await query('select 1 from runs where workflow_id = $1', [workflow])
    expect(runs).toHaveLength(started.length)
  })

  test.each(both('webhook.fan_out', 'webhook.record'))(
    '%s: the message arrives, and a repetition has its id',
    async (fault) => {
      const receiver = await startScriptedServer()
      receiver.answer = () => ({ status: 204 })
      const webhooks = `/organizations/${kills.home.owner.bootstrap.organization_id}/webhooks`
      const { id } = await kills.home.owner.good<{ id: string }>('POST', webhooks, {
        url: receiver.url,
        events: ['run.failed'],
      })
      await kills.home.faults.at(fault, () => {
        void kills.home.owner.call('POST', `${webhooks}/${id}/test`, {})
      })
      // Ends the lease of the dead worker at once; it would last up to a minute.
      await kills.home.query('update lanes set leased_until = now() where leased_until is not null')
      await until('the delivery has ended', async () => {
        const path = `${webhooks}/${id}/deliveries`
        const { data } = await kills.home.owner.good<{ data: { state: string }[] }>('GET', path)
        return data.length === 1 && data[0]?.state === 'delivered'
      })
      const ids = receiver.arrived.map(({ headers }) => headers['webhook-id'])
      expect(new Set(ids).size).toBe(1)
      expect(ids).toHaveLength(fault === 'webhook.record:before' ? 2 : 1)
      await kills.home.owner.call('DELETE', `${webhooks}/${id}`)
      await receiver.close()
    },
  )
}
