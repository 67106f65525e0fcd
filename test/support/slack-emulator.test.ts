import { afterAll, beforeAll, expect, test } from '@jest/globals'
import type { z } from 'zod'
import {
  aConversation,
  channels,
  done,
  madeChannel,
  madeMessage,
  messages,
  ownAccount,
} from '../../src/activities/tools/slack/forms.ts'
import { emulatorToken, type Emulator } from './emulators.ts'
import { exampleOf } from './slack-described.ts'
import { startSlack } from './slack-emulator.ts'

/*
 * Tests that the stand-in for Slack, and our schemas for Slack's answers, agree with Slack's published description.
 */

let slack: Emulator
beforeAll(async () => {
  slack = await startSlack()
})
afterAll(() => slack?.close())

test.each([
  ['chat.postMessage', 'channel=C1&text=t&colour=red', 'chat.postMessage: no argument colour'],
  ['chat.postMesage', 'channel=C1&text=t', 'no method chat.postMesage'],
])('%s with %s is refused: Slack describes no such request', async (method, body, issue) => {
  const headers = {
    authorization: `Bearer ${emulatorToken}`,
    'content-type': 'application/x-www-form-urlencoded',
  }
  const answer = await fetch(`${slack.url}/${method}`, { method: 'POST', headers, body })
  expect([answer.status, await answer.json()]).toEqual([418, { ok: false, error: issue }])
})

test.each<[string, z.ZodType]>([
  ['auth.test', ownAccount],
  ['chat.postMessage', madeMessage],
  ['chat.update', done],
  ['conversations.create', madeChannel],
  ['conversations.history', messages],
  ['conversations.invite', done],
  ['conversations.list', channels],
  ['conversations.open', aConversation],
  ['conversations.replies', messages],
  ['conversations.setPurpose', done],
])('the form of the answers of %s fits Slack’s own example', (method, form) => {
  expect(form.safeParse(exampleOf(method)).error).toBeUndefined()
})

test('the examples have the names that approvers see', () => {
  expect(exampleOf('conversations.info')).toMatchObject({ channel: { name: expect.any(String) } })
  const profile = { display_name: expect.any(String) }
  const user = { name: expect.any(String), real_name: expect.any(String), profile }
  expect(exampleOf('users.info')).toMatchObject({ user })
})
