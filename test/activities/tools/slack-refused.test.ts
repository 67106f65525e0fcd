import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import type { ToolName } from '../../../src/catalog/index.ts'
import { startScriptedServer, type ScriptedServer } from '../../support/scripted-server.ts'
import { rejection } from './call.ts'
import { SlackCall } from './slack-call.ts'

/* Calls that send nothing. */

let scripted: ScriptedServer
beforeAll(async () => {
  scripted = await startScriptedServer()
})
afterAll(() => scripted?.close())
beforeEach(() => void scripted.arrived.splice(0))

describe('an approved call sends nothing if another account is linked by now', () => {
  const calls: readonly (readonly [ToolName, object])[] = [
    ['slack_send_message', { channel: '@me', text: 't' }],
    ['slack_create_channel', { name: 'approved' }],
    ['slack_create_channel', { name: 'approved', is_private: true }],
  ]
  test.each(calls)('%s %j', async (name, params) => {
    for (const revision of ['U0APPROVED', 'none']) {
      const over = { base: scripted.url, account: 'U0ANOTHER1', revision }
      expect(await rejection(new SlackCall(name, params, over).make())).toMatchObject({
        name: 'StateChanged',
      })
    }
    expect(scripted.arrived).toEqual([])
  })
})

describe('parameters that name no one thing with certainty are refused before any request', () => {
  const wrong: readonly (readonly [ToolName, object])[] = [
    ['slack_send_message', { channel: '#a,#b', text: 't' }],
    ['slack_send_message', { channel: '@someone', text: 't' }],
    ['slack_send_message', { channel: 'https://evil.example/archives/C024BE91L', text: 't' }],
    ['slack_send_message', { channel: '#Team', text: 't' }],
    ['slack_create_channel', { name: 'Team' }],
    ['slack_create_channel', { name: '@me' }],
    ['slack_create_channel', { name: 'C024BE91L' }],
  ]
  test.each(wrong)('%s %j', async (name, params) => {
    expect(await rejection(new SlackCall(name, params, { base: scripted.url }).make())).toMatchObject({
      code: 'invalid_params',
      retryable: false,
    })
    expect(scripted.arrived).toEqual([])
  })
})
