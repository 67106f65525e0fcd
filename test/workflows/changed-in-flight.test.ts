import { expect, test } from '@jest/globals'
import { freeze, unfreeze } from '../../src/governance/rules/freeze.ts'
import { denyRule, holdRule } from '../governance/runs/engine-fixture.ts'
import { until } from '../stack/until.ts'
import { mail, useTestStack, type Stack } from './worker-fixture.ts'

/* Changes that are saved while a mail is being sent, before its final dot leaves. */

let stack: Stack
useTestStack((started) => (stack = started))

/** Starts a mail. Waits until the server has got the sender and must answer the recipient. */
async function underWay(subject: string): Promise<string> {
  stack.sink.behaviour = { kind: 'pause' }
  const runId = await stack.run({ steps: [mail(subject)] })
  await until('the mail is under way', () => stack.sink.waiting === 1)
  stack.sink.behaviour = { kind: 'accept' }
  return runId
}

test('a freeze stops it', async () => {
  const runId = await underWay('frozen')
  const owner = stack.caller('owner')
  await freeze(stack.context, owner, 'incident', performance.now(), null)
  try {
    stack.sink.release()
    expect(await stack.ended(runId)).toEqual({ run: 'denied', frozen: 'denied' })
    expect(stack.sink.count('frozen')).toBe(0)
  } finally {
    await unfreeze(stack.context, owner, 'over', performance.now(), null)
  }
})

test('a rule that denies it stops it', async () => {
  const runId = await underWay('denied')
  await stack.rules(denyRule())
  stack.sink.release()
  expect(await stack.ended(runId)).toEqual({ run: 'denied', denied: 'denied' })
  expect(stack.sink.count('denied')).toBe(0)
})

test('a rule that holds it makes it wait for a person, and then it is sent once', async () => {
  const runId = await underWay('held')
  await stack.rules(holdRule())
  stack.sink.release()
  const approvalId = await stack.held(runId)
  expect(stack.sink.count('held')).toBe(0)
  await stack.vote(approvalId, 'admin')
  expect(await stack.ended(runId)).toEqual({ run: 'completed', held: 'completed' })
  expect(stack.sink.count('held')).toBe(1)
})

test('an unrelated rule does not stop it: it is sent once', async () => {
  const runId = await underWay('unmoved')
  await stack.rules(denyRule({ tools: ['file_read'] }))
  stack.sink.release()
  expect(await stack.ended(runId)).toEqual({ run: 'completed', unmoved: 'completed' })
  expect(stack.sink.count('unmoved')).toBe(1)
})
