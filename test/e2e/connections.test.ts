import { execFile } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { crashHome, type CrashHome } from '../support/chaos.ts'
import type { Execution, Run } from '../support/client-types.ts'
import { programEnv } from '../support/program-env.ts'

/* A person creates an organization without rules, in order to read the installation's files and send its mails. */

const leak = (subject: string) => ({
  steps: [
    { id: 'read', tool: 'file_read', params: { path: 'reports/q3-summary.md' }, on_error: 'continue' },
    { id: 'keep', tool: 'memory_set', params: { key: 'k', value: 'mine' } },
    {
      id: 'send',
      tool: 'mail_send',
      params: { to: 'me@elsewhere.test', subject, text: 'x{{read.output.text}}' },
    },
  ],
})

let home: CrashHome
beforeAll(async () => {
  home = await crashHome({ env: { INSTALLATION_TOOLS: 'named' } })
})
afterAll(() => home?.close())

/** Runs the leaking workflow to its end. `ask` sends a request in the organization. */
async function attack(
  ask: <T>(method: string, path: string, body?: object) => Promise<{ status: number; body: T }>,
  organizationId: string,
): Promise<{ run: Run; subject: string }> {
  const subject = `Leak ${randomUUID()}`
  const saved = await ask<{ id: string; warnings?: unknown[] }>('POST', '/workflows', {
    organization_id: organizationId,
    name: subject,
    definition: leak(subject),
  })
  expect(saved.status).toBe(201)
  const started = await ask<Execution>('POST', `/workflows/${saved.body.id}/execute?wait=60`, { inputs: {} })
  expect(started.status).toBe(200)
  const { body: run } = await ask<Run>('GET', `/runs/${started.body.execution_id}`)
  return { run, subject }
}

const steps = (run: Run) =>
  Object.fromEntries(run.steps.map((step) => [step.id, step.error?.code ?? step.status]))

function operate(...args: string[]): Promise<{ stdout: string; stderr: string }> {
  const program = fileURLToPath(new URL('../../src/programs/connect-installation.ts', import.meta.url))
  const env = {
    ...programEnv(),
    DATA_DIR: home.stack.dataDir,
    INSTALLATION_TOOLS: 'named',
    LOG_LEVEL: 'error',
  }
  return promisify(execFile)(process.execPath, [program, ...args], { env })
}

describe('with organizations connected by name', () => {
  test('a member whose run was refused gets nothing through their own organization, until it is connected', async () => {
    await home.admin.createRule({
      name: 'Nothing internal leaves',
      verdict: 'deny',
      side_effects: ['egress'],
      labels: { any_of: ['internal'] },
    })
    const here = `Leak ${randomUUID()}`
    const workflow = await home.member.createWorkflow('Leak', {
      steps: leak(here).steps.map((step) => ({ ...step, on_error: 'fail' })),
    })
    expect(
      await home.member.once('POST', `/workflows/${workflow}/execute?wait=0`, { inputs: {} }),
    ).toMatchObject({
      status: 403,
      code: 'run_denied',
    })
    const { id } = await home.member.good<{ id: string }>('POST', '/organizations', { name: 'Mine' })
    const ask = <T>(method: string, path: string, body?: object) => home.member.call<T>(method, path, body)

    const { run, subject } = await attack(ask, id)
    expect([run.status, steps(run)]).toEqual([
      'failed',
      { read: 'tool_not_available', keep: 'completed', send: 'tool_not_available' },
    ])
    expect(JSON.stringify(run.outputs)).not.toContain('Quarter')
    expect(home.sink.count(subject)).toBe(0)

    expect(JSON.parse((await operate(id, 'mail_send')).stdout)).toEqual({
      organization_id: id,
      tools: ['mail_send'],
    })
    const connected = await attack(ask, id)
    expect([connected.run.status, steps(connected.run)]).toEqual([
      'completed',
      { read: 'tool_not_available', keep: 'completed', send: 'completed' },
    ])
    expect(home.sink.count(connected.subject)).toBe(1)

    expect(JSON.parse((await operate(id, 'mail_send', '--remove')).stdout)).toMatchObject({ tools: [] })
    const taken = await attack(ask, id)
    expect([taken.run.status, home.sink.count(taken.subject)]).toEqual(['failed', 0])
  })

  test('a stranger who signs up and never confirms an address gets nothing either', async () => {
    const { base_url: base } = home.member.bootstrap
    const email = `${randomUUID()}@elsewhere.test`
    const headers = { origin: base, 'content-type': 'application/json' }
    const auth = (path: string, body: object) =>
      fetch(`${base}/api/auth/${path}`, { method: 'POST', headers, body: JSON.stringify(body) })
    const password = 'correct horse battery'
    expect((await auth('sign-up/email', { name: 'Eve', email, password })).status).toBe(200)
    const cookie = (await auth('sign-in/email', { email, password })).headers
      .getSetCookie()
      .map((line) => line.split(';', 1)[0])
      .join('; ')
    const ask = async <T>(method: string, path: string, body?: object) => {
      const answer = await fetch(`${base}/api/v1${path}`, {
        method,
        headers: { ...headers, cookie },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      })
      return { status: answer.status, body: (await answer.json()) as T }
    }
    const { body: made } = await ask<{ id: string }>('POST', '/organizations', { name: 'Eve' })
    const { run, subject } = await attack(ask, made.id)
    expect([run.status, steps(run)]).toEqual([
      'failed',
      { read: 'tool_not_available', keep: 'completed', send: 'tool_not_available' },
    ])
    expect(home.sink.count(subject)).toBe(0)
  })

  test('the organization of the first start has both tools without a command', async () => {
    await home.query(`delete from rules`)
    await home.owner.settings({ approvals_enabled: true })
    const subject = `Report ${randomUUID()}`
    const workflow = await home.member.createWorkflow('Report', leak(subject))
    const runId = await home.member.execute(workflow, {})
    await home.member.untilStatus(runId, 'completed')
    expect(home.sink.count(subject)).toBe(1)
  })

  test.each([
    [[], 2, 'usage'],
    [['org_1'], 2, 'usage'],
    [['org_1', 'mail_send', 'more'], 2, 'usage'],
    [['org_1', 'mail_send', '--take'], 2, 'usage'],
    [['org_none', 'mail_send'], 1, 'org_none'],
    [['org_none', 'memory_get'], 1, 'one of file_read, mail_send'],
  ])('connect-installation %j ends with %s', async (args, code, said) => {
    const failed = await operate(...args).catch((error: unknown) => error)
    expect(failed).toMatchObject({ code, stdout: '', stderr: expect.stringContaining(said) })
  })
})
