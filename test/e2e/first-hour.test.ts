import { readFileSync, readdirSync } from 'node:fs'
import { mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals'
import { caughtMail } from '../../src/demo/mail.ts'
import { createClient, type Bootstrap, type Client } from '../../src/demo/client.ts'
import { inBrowser, openPage } from '../support/chromium.ts'
import { runShow } from '../support/run-show.ts'
import { stackHome, startStack, type StackHome, type StartedStack } from '../support/start-stack.ts'

interface Policy {
  readonly tool_name: string
  readonly role: string | null
  readonly allowed: boolean | null
  readonly restrictions: object
}

const runDemo = (env: Record<string, string>) => runShow('src/demo/main.ts', env)

test('without a stack it starts one, shows everything, and leaves nothing behind', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'demo-'))
  const { code, output } = await runDemo({
    TMPDIR: folder,
    DATA_DIR: join(folder, 'none'),
    // Addresses of servers that the demo must not use.
    DATABASE_URL: 'postgresql://nobody@127.0.0.1:1/none',
    TEMPORAL_ADDRESS: '127.0.0.1:1',
    SMTP_URL: 'smtp://127.0.0.1:1',
  })
  expect(output).toMatch(/\nevery check passed\n/)
  const readme = readFileSync(new URL('../../README.md', import.meta.url), 'utf8')
  const [, shown = ''] = /shortened:\n\n```\n(.*?)\n```/s.exec(readme) ?? []
  for (const line of shown.split('\n').filter((each) => each !== ''))
    for (const part of line.split('...')) expect(output).toContain(part)
  expect(output).toMatch(
    /\n2\. A preview shows what would be decided, before anything runs\n *send: deny is possible: /,
  )
  expect(output).toMatch(/\n13\. The audit log proves itself\n/)
  expect(code).toBe(0)
  expect(readdirSync(folder)).toEqual([])
})

describe('with a running stack', () => {
  let home: StackHome
  let stack: StartedStack
  let client: Client
  let organization: string

  beforeAll(async () => {
    home = stackHome()
    stack = await startStack({ dataDir: home.dataDir, env: { LOG_LEVEL: 'error' } })
    const bootstrap = stack.bootstrap<Bootstrap>()
    client = createClient(bootstrap)
    organization = `/organizations/${bootstrap.organization_id}`
  })

  afterAll(async () => {
    await stack?.stop()
    await home?.remove()
  })

  const governed = async () => ({
    settings: await client.get('owner', 'GET', `${organization}/governance`),
    rules: await client.get('owner', 'GET', `${organization}/rules`),
    labelRules: await client.get('owner', 'GET', `${organization}/label-rules`),
    policies: (
      await client.get<{ data: Policy[] }>('owner', 'GET', `${organization}/tool-policies`)
    ).data.map(({ tool_name, role, allowed, restrictions }) => ({ tool_name, role, allowed, restrictions })),
  })

  let before: unknown
  afterEach(async () => expect(await governed()).toEqual(before))

  test('it also passes under stricter settings of the user, and restores them', async () => {
    await client.get('owner', 'PATCH', `${organization}/governance`, {
      approval_threshold: 2,
      approval_required_from: 'high',
      allow_self_approval: true,
    })
    const policy = { tool_name: 'mail_send', role: 'member', restrictions: { max_message_length: 900 } }
    await client.get('owner', 'POST', `${organization}/tool-policies`, policy)
    before = await governed()
    const { code, output } = await runDemo({ DATA_DIR: home.dataDir })
    expect(output).toContain(`using the Countersign that runs at ${stack.baseUrl}`)
    expect(output).toContain('approved by approver and owner')
    expect(output).toContain('A limit on a tool holds, whatever the rules allow')
    expect(output).toMatch(/403 run_denied, .*only recipients in `larkspur\.example` \(`allowed_domains`\)/)
    expect(output).toMatch(/\nevery check passed\n$/)
    expect(code).toBe(0)
    expect(caughtMail(join(home.dataDir, 'mail'))).toHaveLength(1)
  })

  test('so does `npm run samples`, which leaves the worker alone', async () => {
    const worker = stack.processes().find(({ role }) => role === 'worker')?.pid
    before = await governed()
    const { code, output } = await runShow('scripts/samples/main.ts', { DATA_DIR: home.dataDir })
    expect(output).toContain('when the connection breaks')
    expect(output).toMatch(/\nevery check passed\n$/)
    expect(code).toBe(0)
    expect(stack.processes().find(({ role }) => role === 'worker')?.pid).toBe(worker)
    const { data } = await client.get<{ data: { status: string }[] }>('member', 'GET', '/connections')
    expect(data.filter(({ status }) => status !== 'revoked')).toEqual([])
    expect(await client.get('member', 'GET', '/files')).toMatchObject({ data: [] })
  })

  test('a named sample runs alone', async () => {
    before = await governed()
    const args = ['release-notes']
    const { code, output } = await runShow('scripts/samples/main.ts', { DATA_DIR: home.dataDir }, undefined, { args }) // prettier-ignore
    expect([...output.matchAll(/^\d+\. ([A-Z]\w+)/gm)].map(([, word]) => word)).toEqual(['The', 'Release'])
    expect(output).toMatch(/\nevery check passed\n$/)
    expect(code).toBe(0)
  })

  test('the weekly report by name says that it needs a stack of its own', async () => {
    before = await governed()
    const args = ['weekly-report']
    const { code, output } = await runShow('scripts/samples/main.ts', { DATA_DIR: home.dataDir }, undefined, { args }) // prettier-ignore
    expect(output).toContain('weekly-report runs only on a Countersign of its own')
    expect(output).not.toContain('every check passed')
    expect(code).toBe(1)
  })

  inBrowser(
    'with `--browser`, somebody opens the printed link, signs in, approves, and sees it completed',
    async () => {
      // One vote decides.
      await client.get('owner', 'PATCH', `${organization}/governance`, { approval_threshold: 1 })
      before = await governed()
      const told = Promise.withResolvers<string>()
      const shown = runShow('src/demo/main.ts', { DATA_DIR: home.dataDir }, undefined, {
        args: ['--browser'],
        onOutput(output) {
          const link = /its page: (\S+)\n[^]*the demo waits/.exec(output)?.[1]
          if (link !== undefined) told.resolve(link)
        },
      })
      shown.then(({ output }) => told.reject(new Error(output)), told.reject)
      const { page, errors } = await openPage({
        viewport: { width: 360, height: 740 },
        isMobile: true,
        hasTouch: true,
      })
      await page.goto(await told.promise)
      const { email, password } = stack.bootstrap<{
        users: { approver: { email: string; password: string } }
      }>().users.approver
      await page.getByLabel('E-mail address').fill(email)
      await page.getByLabel('Password').fill(password)
      await page.getByRole('button', { name: 'Sign in' }).click()
      await page.getByRole('heading', { name: 'Send a mail to', exact: false }).waitFor()
      const button = await page.getByRole('button', { name: 'Approve' }).boundingBox()
      // The button is visible without scrolling.
      expect((button?.y ?? 999) + (button?.height ?? 0)).toBeLessThanOrEqual(740)
      await page.getByRole('button', { name: 'Approve' }).tap()
      await page.getByText('Completed', { exact: true }).first().waitFor()
      await page.getByText('What was sent').waitFor()
      const { code, output } = await shown
      expect(output).toContain(`approved by ${email}`)
      expect(output).toMatch(/\nevery check passed\n$/)
      expect({ code, errors }).toEqual({ code: 0, errors: [] })
    },
  )

  test('Ctrl-C ends the demo and the samples, after what they made is removed', async () => {
    before = await governed()
    const env = { DATA_DIR: home.dataDir }
    for (const [program, at] of [
      ['src/demo/main.ts', '\n3. '],
      ['scripts/samples/main.ts', 'connected slack'],
    ] as const) {
      const { code, output } = await runShow(program, env, at)
      expect(output).toMatch(/\ninterrupted \(SIGINT\): removing what it made\n$/)
      expect(code).toBe(1)
      expect(await governed()).toEqual(before)
    }
    const { data } = await client.get<{ data: { status: string }[] }>('member', 'GET', '/connections')
    expect(data.filter(({ status }) => status !== 'revoked')).toEqual([])
  })

  test('it fails and names the failed check', async () => {
    await client.get('admin', 'POST', `${organization}/rules`, {
      name: 'no mail at all',
      verdict: 'deny',
      tools: ['mail_send'],
    })
    before = await governed()
    const { code, output } = await runDemo({ DATA_DIR: home.dataDir })
    expect(output).toContain('would be denied by `no mail at all`')
    expect(output).not.toContain('every check passed')
    expect(code).toBe(1)
  })
})
