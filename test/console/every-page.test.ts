import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import type { Page } from 'playwright-core'
import { pages } from '../../src/console/pages/index.ts'
import * as paths from '../../src/contract/pages.ts'
import { startTestServer, type TestServer } from '../api/server.ts'
import { aProvider } from '../api/access-matrix/world.ts'
import { inBrowser, openPage } from '../support/chromium.ts'
import {
  agentSession,
  approvalsOf,
  aQuestion,
  aWebhookTrigger,
  fillSignIn,
  heldCall,
  heldRun,
  holdAgents,
  holdMail,
  holdSteps,
  sentBack,
  signedInAt,
  unknownRun,
  violations,
  type Who,
} from './support.ts'

/* Every page of the console in a real browser: both sizes, both colours, by keyboard, without JavaScript, each role. */

const roles = ['viewer', 'member', 'approver', 'owner'] as const
const sizes = [360, 1_280] as const

let server: TestServer
/** The path of each page in the table, by its pattern, with ids of objects that exist. */
const found = new Map<string, string>()
/** More states of the same pages. */
const states: string[] = []

/** The status that each role gets from each page for signed-in people, in the order of `roles`. */
const answers: Readonly<Record<string, readonly number[]>> = {
  '/console/': [200, 200, 200, 200],
  '/console/account': [200, 200, 200, 200],
  '/console/approvals': [200, 200, 200, 200],
  '/console/approvals/:id': [403, 200, 200, 200],
  '/console/audit': [403, 403, 200, 200],
  '/console/connections': [200, 200, 200, 200],
  '/console/connections/new': [403, 200, 200, 200],
  // A personal one of the owner; admins see those of everybody.
  '/console/connections/:id': [404, 404, 200, 200],
  '/console/data': [403, 200, 200, 200],
  '/console/data/files/:id': [403, 200, 200, 200],
  '/console/data/memory/:key': [403, 200, 200, 200],
  '/console/docs': [200, 200, 200, 200],
  '/console/docs/:document': [200, 200, 200, 200],
  '/console/docs/reference/:document': [200, 200, 200, 200],
  '/console/docs/api/:area': [200, 200, 200, 200],
  '/console/freeze': [200, 200, 200, 200],
  '/console/groups': [403, 403, 200, 200],
  '/console/groups/:id': [403, 403, 200, 200],
  '/console/keys': [200, 200, 200, 200],
  '/console/keys/new': [200, 200, 200, 200],
  '/console/keys/:id': [404, 404, 404, 200],
  '/console/notifications': [403, 403, 200, 200],
  '/console/organizations': [200, 200, 200, 200],
  '/console/health': [200, 200, 200, 200],
  '/console/people': [403, 403, 403, 200],
  '/console/provider': [403, 403, 403, 200],
  '/console/reports': [403, 403, 200, 200],
  '/console/reruns': [200, 200, 200, 200],
  '/console/reruns/:id': [200, 200, 200, 200],
  '/console/rules': [403, 200, 200, 200],
  '/console/rules/new': [403, 403, 200, 200],
  '/console/rules/try': [403, 200, 200, 200],
  '/console/rules/:id': [403, 200, 200, 200],
  '/console/rules/labels/new': [403, 403, 200, 200],
  '/console/rules/labels/:id': [403, 200, 200, 200],
  '/console/runs': [200, 200, 200, 200],
  '/console/runs/cancel': [403, 200, 200, 200],
  '/console/runs/:id': [200, 200, 200, 200],
  // Leads to the page of the run, because it goes on.
  '/console/runs/:id/again': [200, 200, 200, 200],
  '/console/runs/:id/steps/:step': [200, 200, 200, 200],
  // Leads to the run, because the outcome of the step is known.
  '/console/runs/:id/steps/:step/happened': [200, 200, 200, 200],
  '/console/search': [200, 200, 200, 200],
  '/console/sessions': [403, 200, 200, 200],
  '/console/sessions/install': [200, 200, 200, 200],
  '/console/sessions/:id': [403, 200, 200, 200],
  '/console/settings': [403, 403, 200, 200],
  '/console/templates': [200, 200, 200, 200],
  '/console/templates/:id': [200, 200, 200, 200],
  '/console/tools': [200, 200, 200, 200],
  '/console/tools/:name': [200, 200, 200, 200],
  '/console/triggers': [403, 200, 200, 200],
  '/console/workflows/:id/triggers/:trigger': [403, 200, 200, 200],
  '/console/terminal': [200, 200, 200, 200],
  '/console/second-factor': [200, 200, 200, 200],
  '/console/account/sessions': [200, 200, 200, 200],
  '/console/webhooks': [403, 403, 200, 200],
  '/console/webhooks/:id': [403, 403, 200, 200],
  '/console/workflows': [200, 200, 200, 200],
  '/console/workflows/new': [403, 200, 200, 200],
  '/console/workflows/:id/edit': [200, 200, 200, 200],
  '/console/workflows/:id': [200, 200, 200, 200],
  '/console/workflows/:id/run': [200, 200, 200, 200],
}
const token = `token=${'t'.repeat(24)}`
/** Pages that are open to people without a session. */
const open = [
  '/console/sign-in',
  '/console/sign-in/code',
  '/console/sign-in/provider',
  '/console/sign-in/answer/:id',
  '/console/sign-up',
  '/console/reset-password',
  `/console/reset-password?${token}`,
  '/console/confirm-address',
  `/console/confirm-address?${token}`,
  `/console/invitation?${token}`,
  '/console/no-such-page',
]

beforeAll(async () => {
  server = await startTestServer({ env: { SMTP_URL: 'smtp://127.0.0.1:1', SIGN_UP: 'invited' } })
  await holdAgents(server)
  const provider = `/organizations/${server.identities.organization_id}/sign-in`
  await server.call(server.identities.users.owner.api_key, 'PUT', provider, aProvider(['acme.example']))
  await holdMail(server)
  const [run, lost] = [await heldRun(server), await unknownRun(server, 2)]
  const [approval = ''] = await approvalsOf(server, run)
  const session = await agentSession(server)
  const owner = await server.call(server.identities.users.owner.api_key, 'GET', '/me')
  const group = await server.call(
    server.identities.users.owner.api_key,
    'POST',
    `/organizations/${server.identities.organization_id}/groups`,
    { name: 'finance', members: [server.identities.users.member.user_id] },
  )
  const { users } = server.identities
  const own = `organization_id=${server.identities.organization_id}`
  // The longest name of a zone.
  const zone = { mail: true, delay_seconds: 0, time_zone: 'America/Argentina/Buenos_Aires' }
  await server.call(users.owner.api_key, 'PUT', `/me/notifications?${own}`, zone)
  const [from, until] = [new Date(), new Date(Date.now() + 86_400_000)]
  await server.call(users.member.api_key, 'PUT', `/me/absence?${own}`, {
    from,
    until,
    deputy: users.approver.email,
  })
  const rules = await server.call(
    server.identities.users.owner.api_key,
    'GET',
    `/organizations/${server.identities.organization_id}/rules`,
  )
  const labelRule = await server.call(
    users.owner.api_key,
    'POST',
    `/organizations/${server.identities.organization_id}/label-rules`,
    { name: 'n'.repeat(200), tools: ['file_read'], add_labels: ['confidential'] },
  )
  const memoryKey = encodeURIComponent('last run / of "all" <b>')
  const value = { value: { seen: ['a', 'b'] }, labels: ['pii'] }
  await server.call(users.member.api_key, 'PUT', `/memory/${memoryKey}?${own}`, value)
  const trigger = await aWebhookTrigger(server)
  const connection = await server.call(users.owner.api_key, 'POST', '/tools/web_search/connect', {
    credential: { provider: 'brave', api_key: 'k' },
    scope: 'personal',
    name: 'n'.repeat(200),
  })
  await server.call(
    users.owner.api_key,
    'POST',
    `/workflow-registry/${trigger.body.workflow_id}/approve-template`,
    { template_name: 'Notes', description: 'keeps a text', tags: ['notes'] },
  )
  const webhook = await server.call(
    users.owner.api_key,
    'POST',
    `/organizations/${server.identities.organization_id}/webhooks`,
    { url: `https://${'h'.repeat(60)}.example.com/${'p'.repeat(200)}`, events: ['run.failed'] },
  )
  const form = new FormData()
  form.set('file', new Blob(['a text'], { type: 'text/plain' }), 'notes.txt')
  const uploaded = await fetch(`${server.base}/api/v1/files?${own}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${users.member.api_key}` },
    body: form,
  })
  const { id: files } = (await uploaded.json()) as { id: string }
  const ids: Readonly<Record<string, string>> = {
    files,
    approvals: approval,
    runs: run,
    sessions: session,
    keys: owner.body.key_id,
    connections: connection.body.id,
    groups: group.body.id,
    rules: rules.body.data[0].id,
    webhooks: webhook.body.id,
    labels: labelRule.body.id,
    workflows: trigger.body.workflow_id,
    templates: trigger.body.workflow_id,
  }
  for (const path of Object.keys(answers)) {
    const named = path.replace(/(\w+)\/:id/, (_, kind: string) => `${kind}/${ids[kind]}`)
    found.set(
      path,
      named
        .replace('reference/:document', 'reference/approvals')
        .replace(':document', 'rules')
        .replace(':area', 'approvals')
        .replace(':step', 's')
        .replace(':key', memoryKey)
        .replace(':name', 'github_create_issue')
        .replace(':trigger', trigger.body.id),
    )
  }
  const steps = [{ id: 'mail', tool: 'mail_send', params: { to: 'a@b.test', subject: 's', text: '{{input.uploaded_files}}' } }] // prettier-ignore
  const reader = await server.call(users.owner.api_key, 'POST', '/workflows', {
    name: 'reads files',
    definition: { steps },
  })
  const decided = await heldCall(server)
  const { api_key: key } = server.identities.users.admin
  await server.call(key, 'POST', `/approvals/${decided}/reject`, { comment: 'Not on a Friday' })
  await holdSteps(server, ['mail_send'])
  const ended = await heldRun(server, 'owner')
  await server.call(users.owner.api_key, 'POST', `/runs/${ended}/cancel`, {})
  const again = await server.call(users.owner.api_key, 'POST', '/runs/rerun', {
    filter: { run_ids: [ended] },
  })
  found.set('/console/reruns/:id', `/console/reruns/${again.body.id}`)
  states.push(
    '/console/reports?from=2026-01-01&to=2026-01-31',
    '/console/reruns?status=cancelled',
    '/console/connections/new?service=github',
    '/console/connections/new?service=search&way=1',
    `/console/runs/${ended}/again`,
    `/console/runs/${ended}`,
    `/console/approvals/${decided}`,
    `/console/approvals/${await heldCall(server, { command: 'git push', notes: 'a line\n'.repeat(100) })}`,
    `/console/runs/${lost}`,
    `/console/runs/${lost}/steps/s/happened?item_index=0`,
    `/console/workflows/${reader.body.id}/run`,
    '/console/docs?search=approval',
    '/console/docs/tools',
    '/console/search?q=report',
    '/console/search?q=nothing-has-this',
    '/console/approvals?state=decided',
    '/console/approvals?search=nothing-has-this',
    '/console/rules?search=nothing-has-this',
    '/console/workflows?search=notes',
    '/console/workflows?search=nothing-has-this',
    '/console/workflows/new?import=yaml',
    '/console/runs?status=paused&workflow_name=report',
    '/console/approvals?kind=agent_call',
    '/console/provider?kind=saml',
    `/console/approvals/${await aQuestion(server)}`,
    `/console/approvals/${(await sentBack(server)).ids.at(-1)}`,
    '/console/approvals/apr_01M84JRMXWJCN4SAPKWPR67K5S',
  )
})
afterAll(() => server?.close())

test('the table names every page', () => {
  expect(pages.map(({ path }) => path).toSorted()).toEqual(
    Object.keys(answers)
      .filter((path) => path !== paths.secondFactorPath && path !== paths.ownSessionsPath)
      .toSorted(),
  )
  const named = [...Object.keys(answers), ...open].map((path) => path.split('?')[0])
  const published = Object.values(paths)
    .filter((path) => typeof path === 'string')
    .map((path) => path.split(/[?#]/)[0])
    .filter((path) => path !== paths.assertionPath)
  expect(named).toEqual(expect.arrayContaining(published))
})

/** Checks that a page fits both sizes and both colours. */
async function fits(page: Page, path: string): Promise<void> {
  await page.goto(`${server.base}${path}`)
  for (const width of sizes)
    for (const colorScheme of ['light', 'dark'] as const) {
      await page.setViewportSize({ width, height: 740 })
      await page.emulateMedia({ colorScheme })
      const seen = {
        wide: await page.evaluate('document.documentElement.scrollWidth'),
        headings: await page.locator('h1').count(),
        violations: await violations(page),
      }
      expect({ path, colorScheme, ...seen }).toEqual({
        path,
        colorScheme,
        wide: width,
        headings: 1,
        violations: [],
      })
    }
}

/** Marks every element that a person can act on, and returns their number. Elements in folded parts do not count. */
const markTargets = `(() => {
  const all = 'a[href], button, summary, select, textarea, input:not([type=hidden])'
  const targets = [...document.querySelectorAll(all)].filter(
    (each) => !each.disabled && each.tabIndex >= 0 && each.checkVisibility(),
  )
  targets.forEach((each, place) => each.setAttribute('data-target', String(place)))
  return targets.length
})()`

/** The element that has the focus, if the page shows this focus. */
const focused = `(() => {
  const { outlineStyle, outlineWidth } = getComputedStyle(document.activeElement)
  const isSeen = outlineStyle !== 'none' && parseFloat(outlineWidth) >= 2
  return isSeen ? document.activeElement.getAttribute('data-target') : null
})()`

/** Checks that the tab key reaches every target in the order of the page, and that each target shows its focus. */
async function isReached(page: Page, path: string): Promise<void> {
  await page.goto(`${server.base}${path}`)
  const count = Number(await page.evaluate(markTargets))
  const seen: number[] = []
  // Parts that scroll take the focus too, and a date field takes it three times.
  for (let press = 0; press < count + 40 && seen.length < count; press += 1) {
    await page.keyboard.press('Tab')
    const target = await page.evaluate(focused)
    if (target !== null && Number(target) !== seen.at(-1)) seen.push(Number(target))
  }
  expect({ path, seen }).toEqual({ path, seen: Array.from({ length: count }, (_, place) => place) })
}

/** The headings, buttons and links of a page. */
async function offers(page: Page, path: string): Promise<unknown> {
  await page.goto(`${server.base}${path}`)
  const names = (selector: string) => page.locator(`main ${selector}`).allTextContents()
  return { headings: await names(':is(h1, h2)'), buttons: await names('button'), links: await names('a') }
}

const phone = { viewport: { width: 360, height: 740 } }
const account = (who: Who, options = {}) => signedInAt(server, who, '/console/account', options)
const everyPath = () => [...found.values(), ...states]

describe('signed in', () => {
  inBrowser('no page has a violation that axe finds, nor is one wider than the window', async () => {
    const { page, errors, foreign } = await account('owner')
    for (const path of everyPath()) await fits(page, path)
    expect([errors.filter((each) => !each.includes('404')), foreign]).toEqual([[], []])
  })

  inBrowser.each(sizes)('all on a page is reached by keys and shows the focus, at %d px', async (width) => {
    const { page } = await account('owner', { viewport: { width, height: 740 } })
    for (const path of everyPath()) await isReached(page, path)
  })

  inBrowser('a page offers the same without JavaScript', async () => {
    const { page } = await account('owner')
    const { page: plain } = await account('owner', { javaScriptEnabled: false })
    for (const path of everyPath())
      expect([path, await offers(plain, path)]).toEqual([path, await offers(page, path)])
  })

  inBrowser.each(roles)('%s gets what the role may see', async (who) => {
    const { page } = await account(who, phone)
    for (const [path, statuses] of Object.entries(answers)) {
      const place = found.get(path) ?? ''
      const answer = await page.goto(`${server.base}${place}`)
      const seen = [path, answer?.status(), await violations(page)]
      expect(seen).toEqual([path, statuses[roles.indexOf(who)], []])
    }
  })
})

describe('signed out', () => {
  inBrowser('no page has a violation that axe finds, and each is used by keys', async () => {
    const { page, foreign } = await openPage()
    for (const path of open) await fits(page, path)
    for (const path of open) await isReached(page, path)
    expect(foreign).toEqual([])
  })

  test('each page leads to the sign-in, which knows the way back', async () => {
    for (const path of everyPath()) {
      if (path === paths.secondFactorPath) continue
      const answer = await fetch(`${server.base}${path}`, { redirect: 'manual' })
      const location = `/console/sign-in?return=${encodeURIComponent(path)}`
      expect([path, answer.status, answer.headers.get('location')]).toEqual([path, 303, location])
    }
  })

  inBrowser('and whoever signs in is back at the link', async () => {
    const { page } = await openPage(phone)
    const place = `${server.base}${found.get('/console/runs/:id/steps/:step')}`
    await page.goto(place)
    await fillSignIn(page, server, 'admin')
    await page.waitForURL(place)
  })
})

// This test must be the last one, because it takes a membership away.
inBrowser('a person of another organization gets 404 for everything of this one', async () => {
  const { page } = await account('approver')
  const { user_id: user } = server.identities.users.approver
  await server.context.pool.query('delete from memberships where user_id = $1', [user])
  for (const [path, place] of found) {
    if (!path.includes(':id')) continue
    const answer = await page.goto(`${server.base}${place}`)
    expect([path, answer?.status()]).toEqual([path, 404])
  }
})
