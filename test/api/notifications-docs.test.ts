import { readFileSync } from 'node:fs'
import { expect, test } from '@jest/globals'
import { webhookEvents } from '../../src/contract/webhook-events.ts'
import { webhookMessage } from '../../src/api/schemas/webhooks.ts'
import { startScriptedServer } from '../support/scripted-server.ts'
import { shownOutputs } from '../support/shell-blocks.ts'
import { readDocsPage } from './docs-page.ts'

const page = readFileSync(new URL('../../docs/notifications.md', import.meta.url), 'utf8')

test('the page’s commands do what it says', async () => {
  const receiver = await startScriptedServer()
  try {
    const before = `RECEIVER=${receiver.url}/hooks`
    const printed = await readDocsPage('docs/notifications.md', { before })
    expect(printed).toEqual(['', ...shownOutputs('docs/notifications.md')])
  } finally {
    await receiver.close()
  }
})

test('the page names every event, and its message has the published form', () => {
  const rows = [...page.matchAll(/^\| `([a-z_]+\.[a-z_]+)` /gm)].map(([, name]) => name)
  expect(rows).toEqual(Object.keys(webhookEvents))
  const [, message = ''] = /```json\n(.*?)```/s.exec(page) ?? []
  webhookMessage.parse(JSON.parse(message))
})
