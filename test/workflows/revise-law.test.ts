import { expect, test } from '@jest/globals'
import fc from 'fast-check'
import { reviseCall } from '../../src/calls/runs/revise.ts'
import { prepareChange } from '../../src/governance/applying/apply.ts'
import { readApproval } from '../../src/governance/approvals/read.ts'
import { vote } from '../../src/governance/approvals/vote.ts'
import type { BootstrapName } from '../../src/governance/people/bootstrap.ts'
import { hashOf } from '../../src/shared/canonical-json.ts'
import { until } from '../stack/until.ts'
import { byDepth } from '../support/depth.ts'
import { mail, read, useTestStack, type Stack } from './worker-fixture.ts'

/*
 * The law of editing: what is sent has exactly the parameters that were approved last, by somebody who typed none of
 * them alone, and no edit takes a label away.
 */

let stack: Stack
useTestStack((each) => (stack = each))

const names = ['subject', 'text'] as const
const move = fc.record({
  /** By the requester after a request for changes, or by an approver, whose edit another person confirms. */
  by: fc.constantFrom('requester' as const, 'approver' as const),
  name: fc.constantFrom(...names),
  // The subject of a mail is compared as it stands in its header.
  value: fc.stringMatching(/^[a-z0-9]{1,12}$/),
})

const caller = (name: BootstrapName) => stack.caller(name)
const pendingOf = async (runId: string) =>
  (await stack.approvalsOf(runId)).filter(({ status }) => status === 'pending').map(({ id }) => id)

async function next(runId: string, before: ReadonlySet<string>): Promise<string> {
  const found = async () => (await pendingOf(runId)).find((id) => !before.has(id))
  await until('another approval waits', async () => (await found()) !== undefined)
  return (await found()) ?? ''
}

test('whatever is edited, in whatever order, by whomever', async () => {
  await stack.rules({
    name: 'text of a file needs a person',
    verdict: 'require_approval',
    tools: ['mail_send'],
    // If an edit took a label away, the call would go without an approval.
    params: [{ param: 'text', operator: 'from_label', value: ['internal'] }],
    approver_may_edit: [...names],
  })
  const drawn = fc.array(move, { minLength: 1, maxLength: 4 })
  await fc.assert(fc.asyncProperty(drawn, check), { numRuns: byDepth(6, 40) })
})

async function check(moves: readonly { by: 'requester' | 'approver'; name: string; value: string }[]) {
  const letter = { to: 'a@b.test', subject: 'a report', text: '{{read.output.text}}' }
  const runId = await stack.run({
    steps: [read('read', 'the text'), mail('send', { params: letter, depends_on: ['read'] })],
  })
  const seen = new Set<string>()
  let id = await next(runId, seen)
  const params: Record<string, string> = { ...letter, text: 'the text' }
  let labels: readonly string[] = (await readApproval(stack.context, caller('admin'), id)).labels
  expect(labels).toContain('internal')
  for (const { by, name, value } of moves) {
    if (params[name] === value) continue
    seen.add(id)
    if (by === 'requester') {
      const request = { decision: 'reject', comment: 'edit it', changesRequested: true } as const
      const given = { caller: caller('owner'), approvalId: id, prepareChange: prepareChange(stack.context) }
      await vote(stack.context, { ...given, ...request })
      id = await next(runId, seen)
      seen.add(id)
    }
    const editor = by === 'requester' ? 'member' : 'admin'
    const isOpen = async (): Promise<boolean> => {
      const edit = { caller: caller(editor), approvalId: id, params: { [name]: value }, comment: '' }
      try {
        await reviseCall(stack.context, edit)
        return true
      } catch (error) {
        expect(error).toMatchObject({ code: expect.stringMatching(/^(self_approval|conflict)$/) as unknown })
        return false
      }
    }
    if (!(await isOpen())) continue
    params[name] = value
    id = await next(runId, seen)
    const shown = await readApproval(stack.context, caller('owner'), id)
    expect(shown.params).toEqual(params)
    expect(shown.params_hash).toBe(hashOf({ tool: 'mail_send', params }))
    expect(shown.labels).toEqual(expect.arrayContaining([...labels, 'untrusted']))
    labels = shown.labels
    if (by === 'requester')
      await expect(stack.vote(id, 'member')).rejects.toMatchObject({
        code: expect.stringMatching(/^(self_approval|not_an_approver)$/) as unknown,
      })
    else await expect(stack.vote(id, 'admin')).rejects.toMatchObject({ code: 'conflict' })
  }
  await stack.vote(id, 'owner')
  expect(await stack.ended(runId)).toMatchObject({ run: 'completed' })
  const { rows } = await stack.context.pool.query<{ hash: string; approved: string }>(
    `select e.params_hash as hash, a.params_hash as approved from effects e join approvals a on a.id = e.approval_id
     where e.run_id = $1 and e.step_id = 'send' and a.used_at is not null`,
    [runId],
  )
  const hash = hashOf({ tool: 'mail_send', params })
  expect(rows).toEqual([{ hash, approved: hash }])
  const sent = stack.sink.deliveries.at(-1)
  expect(sent?.subject).toBe(params['subject'])
}
