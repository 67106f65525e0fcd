import { afterAll, beforeAll, describe, expect } from '@jest/globals'
import type { Page } from 'playwright-core'
import { pages } from '../../src/console/pages/index.ts'
import { terminalPath } from '../../src/contract/pages.ts'
import { startTestServer, type TestServer } from '../api/server.ts'
import { inBrowser } from '../support/chromium.ts'
import { aQuestion, heldCall, heldStep, sentBack, signedInAt, unknownRun, type Who } from './support.ts'

/*
 * Everything that people and agents can write has a hostile text. Each role visits every page that links lead to: no
 * script runs, nothing is asked from elsewhere, and the layout holds.
 */

const script = '</title><script>hacked()</script>'
const picture = `<img src="https://evil.example/x.png" onerror="hacked()">`
const link = '[pay](javascript:hacked()) =HYPERLINK("https://evil.example")'
const wide = 'W'.repeat(90)
/** The order of its characters is turned round, and it has no place to break. */
const turned = '\u202Egnp.exe\u2066'
/** For names of at most 120 characters in one line. */
const name = `${script}"'><b>${picture.slice(0, 60)}`
const line = `${name} ${link}`.slice(0, 190)
const text = `${script}${picture}${link}\n${turned} ${wide}`

const roles = ['owner', 'admin', 'member', 'approver', 'viewer'] as const

let server: TestServer
/** Links lead from these to every other page. A program opens the one of a terminal. */
const entries = ['/console/', terminalPath]
const addresses = new Map<string, string[]>()

beforeAll(async () => {
  server = await startTestServer({ env: { SMTP_URL: 'smtp://127.0.0.1:1' } })
  await plant(server)
})
afterAll(() => server?.close())

/** Each body is one of its route. A refusal fails, because nothing would be planted. */
async function plant(server: TestServer): Promise<void> {
  const { organization_id: id, users, agent_key: agent } = server.identities
  const organization = `/organizations/${id}`
  const put = async (who: Who, method: string, path: string, body: object) => {
    const answer = await server.call(users[who].api_key, method, path, body)
    if (answer.status >= 300) throw new Error(`${method} ${path}: ${answer.text}`)
    return answer.body
  }
  await server.context.pool.query('update organizations set name = $1', [line])
  await put('owner', 'PATCH', `${organization}/governance`, { approvals_enabled: true })
  const mail = {
    name: line,
    tools: ['mail_send'],
    verdict: 'require_approval',
    description: text.slice(0, 400),
  }
  await put('admin', 'POST', `${organization}/rules`, mail)
  const shell = { name, verdict: 'require_approval', applies_to: ['agents'], tools: ['Bash'] }
  await put('admin', 'POST', `${organization}/rules`, shell)
  const labels = { name: line, tools: ['file_read'], add_labels: ['pii'] }
  await put('admin', 'POST', `${organization}/label-rules`, labels)
  await put('owner', 'POST', `${organization}/groups`, { name: 'finance', description: text.slice(0, 300) })
  const account = await put('owner', 'POST', `${organization}/service-accounts`, { name: 'clerk' })
  await put('owner', 'POST', '/api-keys', { name: line, scopes: ['runs:read'] })
  const value = { value: { [name]: text }, labels: ['pii'] }
  await put('member', 'PUT', `/memory/${encodeURIComponent(name)}?organization_id=${id}`, value)
  await upload(server)
  await put('owner', 'POST', '/tools/web_search/connect', {
    credential: { provider: 'brave', api_key: 'k' },
    scope: 'personal',
    name: line,
  })
  const url = `https://example.com/${encodeURIComponent(name)}`
  await put('owner', 'POST', `${organization}/webhooks`, { url, events: ['run.failed'] })
  const definition = {
    name: line,
    description: text,
    inputs: { text: { type: 'string', description: text, default: text } },
    steps: [
      { id: 'a', tool: 'memory_set', params: { key: name, value: text }, summary: line },
      { id: 'b', depends_on: ['a'], compute: { text: "'<script>hacked()</script>'" } },
    ],
  }
  const workflow = await put('member', 'POST', '/workflows', { name: line, description: text, definition })
  await put('member', 'PUT', `/workflows/${workflow.id}`, {
    definition: { ...definition, description: 'x' },
    message: line,
  })
  await put('owner', 'POST', `/workflow-registry/${workflow.id}/approve-template`, {
    template_name: line,
    description: text.slice(0, 500),
    tags: ['<b>hi</b>'],
    version: 1,
  })
  await put('owner', 'POST', `/workflows/${workflow.id}/triggers`, {
    name,
    service_account: account.id,
    version: 'latest',
    inputs: { text },
    schedule: { cron: '0 9 * * 1' },
  })
  const params = { to: 'ana@larkspur.example', subject: line, text }
  await heldStep(server, { tool: 'mail_send', params, summary: line }, { name: line })
  await sentBack(server)
  const lost = await unknownRun(server, 2)
  const cancelled = await heldStep(server, { tool: 'mail_send', params, summary: line })
  await put('member', 'POST', `/runs/${cancelled}/cancel`, {})
  await put('owner', 'POST', '/runs/rerun', { filter: { run_ids: [cancelled] } })
  await aQuestion(server)
  const call = { command: `echo '${text}'`, [name]: text }
  const rejected = await heldCall(server, call)
  await put('admin', 'POST', `/approvals/${rejected}/reject`, { comment: text })
  await server.call(agent, 'POST', '/authorize', {
    agent: { name: line, kind: 'claude-code' },
    session_id: name,
    tool_name: 'Bash',
    tool_input: call,
    cwd: `/home/${picture}`,
  })
  const observed = { session_id: name, tool_name: `mcp__${wide}__x`, tool_input: { [name]: text } }
  await server.call(agent, 'POST', '/authorize/observe', observed)
  await put('owner', 'POST', `${organization}/freeze`, { reason: text.slice(0, 300) })
  // Only a button leads to this one.
  entries.push(`/console/runs/${lost}/steps/s/happened?item_index=0`)
}

async function upload({ base, identities }: TestServer): Promise<void> {
  const form = new FormData()
  form.set('file', new Blob([text], { type: 'text/plain' }), `${name.replaceAll('/', '')}.txt`)
  const answer = await fetch(`${base}/api/v1/files?organization_id=${identities.organization_id}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${identities.users.member.api_key}` },
    body: form,
  })
  if (!answer.ok) throw new Error(await answer.text())
}

/** The pattern of a page in the table of pages. null: the page is no page of signed-in people. */
function patternOf(path: string): string | null {
  const parts = path.split('/')
  const fits = (pattern: string) => {
    const own = pattern.split('/')
    return own.length === parts.length && own.every((each, at) => each.startsWith(':') || each === parts[at])
  }
  // A fixed path comes before one with an id.
  const all = pages.map(({ path: pattern }) => pattern).filter(fits)
  return all.toSorted((a, b) => a.split(':').length - b.split(':').length)[0] ?? null
}

/** Enough to see each kind of object, and each filter. */
const mostOfOne = 10

/** Remembers each address that the page links to, unless enough of this page are known. Returns the new ones. */
function remember(found: readonly string[], base: string): string[] {
  return found.flatMap((href) => {
    const { pathname, search, origin } = new URL(href, base)
    const pattern = patternOf(pathname)
    if (origin !== base || pattern === null) return []
    const known = addresses.get(pattern) ?? []
    const address = `${pathname}${search}`
    if (known.includes(address) || known.length >= mostOfOne) return []
    addresses.set(pattern, [...known, address])
    return [address]
  })
}

describe('with a hostile text in every field', () => {
  inBrowser('links lead from Home to every page, and no page runs a text or asks another host', async () => {
    const { page, errors, foreign } = await signedInAt(server, 'owner', '/console/')
    const ran = await watched(page)
    const open = remember(entries, server.base)
    for (let address = open.shift(); address !== undefined; address = open.shift()) {
      const answer = await page.goto(`${server.base}${address}`)
      expect([address, Number(answer?.status()) < 500]).toEqual([address, true])
      await fits(page, address)
      const links = await page.evaluate<string[]>(
        `[...document.querySelectorAll('a[href]')].map(({ href }) => href)`,
      )
      expect([address, links.filter((each) => !/^(https?|mailto):/.test(each))]).toEqual([address, []])
      open.push(...remember(links, server.base))
    }
    expect([ran, errors.filter((each) => !/status of 4/.test(each)), foreign]).toEqual([[], [], []])
    expect(pages.map(({ path }) => path).filter((path) => !addresses.has(path))).toEqual([])
  })

  inBrowser.each(roles.slice(1))('%s sees the same pages or a refusal, and they hold', async (who) => {
    const { page, errors, foreign } = await signedInAt(server, who, '/console/')
    const ran = await watched(page)
    for (const address of [...addresses.values()].flatMap((all) => all.slice(0, 2))) {
      const answer = await page.goto(`${server.base}${address}`)
      expect([address, Number(answer?.status()) < 500]).toEqual([address, true])
      await fits(page, address)
    }
    expect([ran, errors.filter((each) => !/status of 4/.test(each)), foreign]).toEqual([[], [], []])
  })
})

/** The texts that ran as a script so far. */
async function watched(page: Page): Promise<readonly string[]> {
  const ran: string[] = []
  await page.exposeFunction('hacked', () => ran.push(page.url()))
  return ran
}

async function fits(page: Page, address: string): Promise<void> {
  for (const width of [1_280, 360]) {
    await page.setViewportSize({ width, height: 740 })
    const seen = await page.evaluate('document.documentElement.scrollWidth')
    expect([address, width, seen]).toEqual([address, width, width])
  }
}
