import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { newId } from '../../src/contract/ids.ts'
import { plain, startPages, type PagesHome } from '../api/console/pages-home.ts'
import { askStep } from '../governance/runs/engine-fixture.ts'

/* The page of a question: the member's run asks the sales team, which is the viewer. */

let home: PagesHome
beforeAll(async () => {
  home = await startPages()
  const { organization_id, users } = home.server.identities
  const made = await home.call('owner', 'POST', `/organizations/${organization_id}/groups`, {
    name: 'sales',
    members: [users.viewer.email],
  })
  expect(made.status).toBe(201)
})
afterAll(() => home?.server.close())

const choices = ['refund', 'refuse']
const form = {
  action: { type: 'string', required: true, options: choices, description: 'What to do' },
  message: { type: 'string', format: 'text' },
  amount: { type: 'number' },
}
async function asked(over: object = { choices }): Promise<string> {
  const ask = {
    to: { group: 'sales' },
    title: 'Refund this order?',
    show: { order: '{{input.order}}' },
    ...over,
  }
  const definition = { inputs: { order: { type: 'object' } }, steps: [{ id: 's', ask }] }
  const workflow = (await home.call('member', 'POST', '/workflows', { name: 'Refunds', definition })).body.id
  const inputs = { order: { number: '4711', item: 'A lamp' } }
  const { body } = await home.call('member', 'POST', `/workflows/${workflow}/execute?wait=0`, { inputs })
  const held = await askStep(home.server.context, body.execution_id)
  if (held.state !== 'held') throw new Error(JSON.stringify(held))
  return held.approvalId ?? ''
}
async function send(id: string, fields: Record<string, string>) {
  const path = `/console/approvals/${id}`
  const token = await home.tokenOf(path, 'viewer')
  return home.post(path, { token, once: newId('run'), ...fields }, {}, await home.cookieOf('viewer'))
}

test('a choice is a button, and the page then shows the answer', async () => {
  const id = await asked({ choices, otherwise: 'refuse', escalate: [{ after_seconds: 600, to: 'owner' }] })
  const page = await home.main(`/console/approvals/${id}`, 'viewer')
  for (const words of [
    'Waiting for an answer',
    'Refund this order?',
    'A lamp',
    '1 member of sales',
    'an owner is asked too',
    'this counts as the answer:refuse',
  ])
    expect(plain(page)).toContain(words)
  expect(page).toMatch(/<button name="answer" value="refund">/)
  expect(page).not.toMatch(/value="(approve|reject)"/)
  expect((await send(id, { answer: 'refund' })).status).toBe(303)
  const after = plain(await home.main(`/console/approvals/${id}`, 'viewer'))
  expect(after).toContain('Answered')
  expect(after).toContain('viewer@countersign.test answered.')
  expect(after).toContain('The answerrefund')
  expect(after).toContain('Open the run')
  const { run_id: run } = await home.approvalOf(id)
  const step = await home.main(`/console/runs/${run}/steps/s`, 'member')
  expect(step).toContain(`<a href="/console/approvals/${id}">Its question</a>`)
  expect(plain(step)).toContain('answerrefund')
})

test('a form has the fields of its definition, and keeps what was typed if it is refused', async () => {
  const id = await asked({ form })
  const page = await home.main(`/console/approvals/${id}`, 'viewer')
  for (const field of [
    /<select id="answer.action"/,
    /<textarea rows="6"[^>]*name="answer.message"/,
    /<input type="text"[^>]*name="answer.amount"/,
  ])
    expect(page).toMatch(field)
  expect(plain(page)).toContain('What to do')
  const refused = await send(id, { decision: 'answer', 'answer.action': '', 'answer.message': 'typed' })
  expect(refused.status).toBe(422)
  const again = await refused.text()
  expect(again).toContain('>typed</textarea>')
  expect(plain(again)).toContain('Nothing was sent. Change this:Action: Is required.')
  const broken = await send(id, { decision: 'answer', 'answer.action': 'refund', 'answer.amount': 'much' })
  expect(plain(await broken.text())).toContain('Must be a number')
  const sent = await send(id, { decision: 'answer', 'answer.action': 'refund', 'answer.message': 'a\r\nb' })
  expect(sent.status).toBe(303)
  const { body } = await home.call('viewer', 'GET', `/approvals/${id}`)
  expect(body.ask.answer).toEqual({ action: 'refund', message: 'a\nb', amount: null })
  const after = plain(await home.main(`/console/approvals/${id}`, 'viewer'))
  expect(after).toMatch(/amount\s*–/)
  expect(after).not.toContain('null')
})

test('others read who is asked, and cannot answer or approve', async () => {
  const id = await asked()
  const page = await home.main(`/console/approvals/${id}`, 'approver')
  expect(plain(page)).toContain('You cannot answer this')
  expect(plain(page)).toContain('You must be a member of sales to answer this question')
  expect(plain(page)).not.toContain('A lamp')
  expect(page).not.toMatch(/name="(answer|decision)"/)
  const path = `/console/approvals/${id}`
  const token = await home.tokenOf('/console/approvals', 'approver')
  for (const fields of [{ answer: 'refund' }, { decision: 'approve', comment: '' }])
    expect((await home.post(path, { token, once: newId('run'), ...fields })).status).toBeGreaterThanOrEqual(
      400,
    )
  expect((await home.approvalOf(id)).status).toBe('pending')
})

test('the inbox has questions as a kind of its own, and never decides them together', async () => {
  const id = await asked()
  const owners = await home.main('/console/approvals?kind=ask', 'owner')
  expect(plain(await home.main('/console/approvals?kind=ask', 'approver'))).not.toContain('A lamp')
  expect(plain(owners)).toContain('Refund this order?')
  expect(plain(owners)).toMatch(/Questions \(\d+\)/)
  expect(plain(owners)).toContain('1 member of sales answers')
  const viewers = await home.main('/console/approvals?mine=true', 'viewer')
  expect(plain(viewers)).toContain('open it to answer')
  expect(plain(viewers)).toContain('order: {&quot;item&quot;:&quot;A lamp&quot;')
  expect(viewers).not.toContain(`value="${id}"`)
  const token = await home.tokenOf('/console/approvals', 'owner')
  const many = { token, once: newId('run'), id, decision: 'approve', comment: '' }
  const refused = await home.post('/console/approvals', many, {}, await home.cookieOf('owner'))
  expect(plain(await refused.text())).toContain('A question is answered: open it')
})
