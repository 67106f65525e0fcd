import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import { webhookMessage } from '../../../src/api/routes/webhooks.ts'
import { planLimits } from '../../../src/contract/plan-limits.ts'
import { webhookEvents } from '../../../src/contract/webhook-events.ts'
import { asAdmin } from '../../support/postgres.ts'
import { startScriptedServer } from '../../support/scripted-server.ts'
import { shownOutputs } from '../../support/shell-blocks.ts'
import { createTestDatabase } from '../../support/stack.ts'
import { readDocsPage } from '../docs-page.ts'

/* Runs the commands of the pages about the API. Tables of rules and policies are tested in test/docs. */

const root = join(import.meta.dirname, '../../..')
const textOf = (page: string) => readFileSync(join(root, page), 'utf8')

test.each([
  ['docs/people-and-keys.md', ['', '']],
  ['docs/groups.md', ['']],
  ['docs/escalation.md', ['']],
  ['docs/values.md', ['']],
  ['docs/policies.md', ['']],
  ['docs/reference/quotas.md', ['']],
  ['docs/reference/trying-rules.md', ['']],
  ['docs/registry.md', ['']],
  ['docs/sign-in.md', ['']],
  ['docs/service-accounts.md', ['']],
  ['docs/versions.md', ['']],
  ['docs/changes.md', ['']],
])('the commands of %s do what the page says', async (page, before) => {
  expect(await readDocsPage(page)).toEqual([...before, ...shownOutputs(page)])
})

test('the commands of docs/rules.md do what the page says', async () => {
  const page = 'docs/rules.md'
  const [, labelled, tried = '', ...changed] = await readDocsPage(page)
  const said = textOf(page).split('```json answer\n')[1]?.split('```')[0] ?? ''
  expect(JSON.parse(tried)).toEqual(JSON.parse(said))
  expect([labelled, ...changed]).toEqual(shownOutputs(page))
})

describe('docs/audit-log.md', () => {
  const page = 'docs/audit-log.md'
  const program = join(root, 'bin/countersign.js')

  /** Equal hashes of one output get the same name. Numbers, ids and hashes differ from those on the page. */
  function alike(text: string): string {
    const hashes: string[] = []
    return text
      .replaceAll(/\b[0-9a-f]{64}\b|\b[0-9a-f]{4}…/g, (hash) => {
        if (!hashes.includes(hash)) hashes.push(hash)
        return `HASH ${hashes.indexOf(hash)}`
      })
      .replaceAll(/org_\w+…?/g, 'ORGANIZATION')
      .replace(/\d+ entries/, 'N entries')
  }

  test('its commands do what it says', async () => {
    // The commands run outside the repository, and `npx` finds the command only in the repository.
    const before = `npx() { shift; '${process.execPath}' '${program}' "$@"; }`
    const outputs = await readDocsPage(page, { before })
    expect(outputs.map(alike)).toEqual(['', ...shownOutputs(page).map(alike)])
  })
})

describe('docs/notifications.md', () => {
  const page = 'docs/notifications.md'

  test('its commands do what it says', async () => {
    const receiver = await startScriptedServer()
    try {
      const printed = await readDocsPage(page, { before: `RECEIVER=${receiver.url}/hooks` })
      expect(printed).toEqual(['', ...shownOutputs(page)])
    } finally {
      await receiver.close()
    }
  })

  test('it names every event, and its message has the published form', () => {
    const rows = [...textOf(page).matchAll(/^\| `([a-z_]+\.[a-z_]+)` /gm)].map(([, name]) => name)
    expect(rows).toEqual(Object.keys(webhookEvents))
    const [, message = ''] = /```json\n(.*?)```/s.exec(textOf(page)) ?? []
    webhookMessage.parse(JSON.parse(message))
  })
})

describe('docs/reference/quotas.md', () => {
  const text = textOf('docs/reference/quotas.md')

  test('it names the limit of each table of the database', async () => {
    const section = text.slice(text.indexOf('### What bounds each table'))
    const said = [...section.matchAll(/^\| `(\w+)` +\| .*\w/gm)].map(([, name]) => name)
    const database = await createTestDatabase()
    try {
      const tables: string[] = []
      await asAdmin(database.adminUrl, async (client) => {
        const { rows } = await client.query<{ name: string }>(
          "select table_name as name from information_schema.tables where table_schema = 'public'",
        )
        tables.push(...rows.map(({ name }) => name))
      })
      expect(new Set(said)).toEqual(new Set(tables))
    } finally {
      await database.drop()
    }
  })

  test('its table shows the limits of the plans', () => {
    const rows = [...text.matchAll(/^\| `(\w+)` +\| ([\d,]+) +\| ([\d,]+) +\| ([\d,]+) +\|/gm)]
    const said = rows.map(([, name, ...values]) => [
      name,
      values.map((value) => Number(value.replaceAll(',', ''))),
    ])
    const { free, pro, enterprise } = planLimits
    const names = Object.keys(free) as (keyof typeof free)[]
    expect(said).toEqual(names.map((name) => [name, [free[name], pro[name], enterprise[name]]]))
  })
})
