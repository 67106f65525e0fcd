import { execFile } from 'node:child_process'
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { parse } from 'yaml'
import { programEnv } from '../support/program-env.ts'
import type { TestServer } from '../api/server.ts'
import { useServer } from '../api/use-server.ts'

/* The steps of samples/ci, as the runners of GitHub and GitLab start them: with bash, in the folder of the repository. */

let server: TestServer
const { ours } = useServer((started) => (server = started))
let folder: string
const root = join(import.meta.dirname, '../..')

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'ci-'))
  mkdirSync(join(folder, 'bin'))
  mkdirSync(join(folder, 'repository', '.git'), { recursive: true })
  mkdirSync(join(folder, 'repository', 'countersign'))
  program('countersign', `exec '${process.execPath}' '${join(root, 'bin/countersign.js')}' "$@"`)
  // They send the comment: what they are given is kept.
  for (const name of ['gh', 'curl']) program(name, `printf '%s\\n' "$@" > '${join(folder, 'commented')}'`)
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))
beforeEach(() => {
  rmSync(join(folder, 'commented'), { force: true })
  rule('mail', 'require_approval')
})

function program(name: string, line: string): void {
  const path = join(folder, 'bin', name)
  writeFileSync(path, `#!/usr/bin/env bash\n${line}\n`)
  chmodSync(path, 0o755)
}

const rule = (name: string, verdict: string): void =>
  writeFileSync(
    join(folder, 'repository', 'countersign', 'mail.yaml'),
    `kind: rule\nname: ${name}\nverdict: ${verdict}\ntools: [mail_send]\n`,
  )

interface Step {
  readonly run?: string
  readonly env?: Readonly<Record<string, string>>
}
type Jobs = Readonly<
  Record<string, { readonly env: Readonly<Record<string, string>>; readonly steps: readonly Step[] }>
>
const github = () =>
  parse(readFileSync(join(root, 'samples/ci/github-action.yml'), 'utf8')) as {
    readonly env: Readonly<Record<string, string>>
    readonly jobs: Jobs
  }
type Gitlab = Readonly<Record<string, { readonly script: readonly string[]; readonly variables: object }>>
const gitlab = () => parse(readFileSync(join(root, 'samples/ci/gitlab-ci.yml'), 'utf8')) as Gitlab

/** What the runner of GitHub puts in place of `${{ ... }}`. */
const values: Readonly<Record<string, string>> = {
  'vars.COUNTERSIGN_URL': '',
  'github.server_url': 'https://github.com',
  'github.repository': 'acme/rules',
  'github.sha': 'abc123',
  'github.token': 't',
  'github.event.pull_request.number': '7',
  'github.ref': 'refs/heads/main',
}
/** An owner's, as docs/files-and-ci.md says. */
const key = (): string => server.identities.users.owner.api_key
const filled = (env: Readonly<Record<string, string>>): Record<string, string> =>
  Object.fromEntries(
    Object.entries(env).map(([name, text]) => [
      name,
      text.replaceAll(
        /\$\{\{ (.*?) \}\}/g,
        (_, what: string) => values[what] ?? (what.startsWith('secrets.') ? key() : `unknown ${what}`),
      ),
    ]),
  )

function bash(script: string, env: Readonly<Record<string, string>>) {
  const { PATH, ...rest } = programEnv()
  const options = {
    cwd: join(folder, 'repository'),
    env: { ...rest, ...env, COUNTERSIGN_URL: server.base, PATH: `${join(folder, 'bin')}:${PATH}` },
  }
  return new Promise<{ code: number; stderr: string }>((resolve) =>
    execFile('bash', ['-e', '-o', 'pipefail', '-c', script], options, (error, _stdout, stderr) =>
      resolve({ code: error === null ? 0 : Number(error.code), stderr }),
    ),
  )
}

/** Runs the steps of a job until one fails, and returns the codes. */
const jobs = {
  github: async (name: 'plan' | 'apply') => {
    const { env, jobs: all } = github()
    const codes: number[] = []
    for (const { run, env: own = {} } of all[name]?.steps ?? []) {
      if (run === undefined || codes.some((code) => code !== 0)) continue
      codes.push((await bash(run, filled({ ...env, ...all[name]?.env, ...own }))).code)
    }
    return codes
  },
  gitlab: async (name: 'plan' | 'apply') => {
    const given = { COUNTERSIGN_API_KEY: key(), CI_PROJECT_URL: 'https://github.com/acme/rules' }
    const more = { CI_COMMIT_SHA: 'abc123', GITLAB_TOKEN: 't', CI_API_V4_URL: 'https://gitlab.test/api/v4' }
    const ids = { CI_PROJECT_ID: '5', CI_MERGE_REQUEST_IID: '7' }
    // GitLab makes one script of all lines.
    const { script } = gitlab()[`countersign-${name}`] ?? { script: ['exit 9'] }
    return [(await bash(script.join('\n'), { ...given, ...more, ...ids })).code]
  },
} as const

const rules = async () => (await ours('owner', 'GET', '/rules')).body.data as readonly Rule[]
interface Rule {
  readonly name: string
  readonly verdict: string
  readonly managed_by: { readonly repository: string; readonly path: string; readonly commit: string } | null
}
const saved = async (name: string) => (await rules()).find((each) => each.name === name)

describe.each(['github', 'gitlab'] as const)('%s', (which) => {
  test('a pull request gets the plan as a comment, and changes nothing', async () => {
    rule(`planned by ${which}`, 'deny')
    expect(new Set(await jobs[which]('plan'))).toEqual(new Set([0]))
    expect(readFileSync(join(folder, 'repository', 'plan.md'), 'utf8')).toContain(`planned by ${which}`)
    expect(readFileSync(join(folder, 'commented'), 'utf8')).toContain('plan.md')
    expect(await saved(`planned by ${which}`)).toBeUndefined()
  })

  test('main is applied, with repository and commit; then a plan changes nothing', async () => {
    rule(`applied by ${which}`, 'require_approval')
    expect(await jobs[which]('apply')).toEqual([0])
    expect(await saved(`applied by ${which}`)).toMatchObject({
      verdict: 'require_approval',
      managed_by: {
        ...{ repository: 'https://github.com/acme/rules', commit: 'abc123' },
        path: 'countersign/mail.yaml',
      },
    })
    expect(new Set(await jobs[which]('plan'))).toEqual(new Set([0]))
    expect(readFileSync(join(folder, 'repository', 'plan.md'), 'utf8')).toMatch(/nothing changes/)
  })

  test('a plan that is refused fails the job, and there is no comment', async () => {
    rule('wrong', 'denied')
    expect((await jobs[which]('plan')).at(-1)).not.toBe(0)
    expect(() => readFileSync(join(folder, 'commented'))).toThrow('ENOENT')
  })
})

test('what waits for a second person is a warning of the job', async () => {
  rule('strict', 'deny')
  expect(await jobs.github('apply')).toEqual([0])
  const second = server.identities.users.approver.user_id
  await ours('owner', 'PATCH', `/members/${second}`, { role: 'owner' })
  await ours('owner', 'PATCH', '/governance', { approvals_enabled: true, loosening: 'second_person' })
  rule('strict', 'allow')
  expect([await jobs.github('apply'), await jobs.gitlab('apply')]).toEqual([[0], [2]])
  expect((await saved('strict'))?.verdict).toBe('deny')
  expect(gitlab()['countersign-apply']).toMatchObject({ allow_failure: { exit_codes: 2 } })
})

test('the key that changes is there on main alone, and its values reach no script as text', () => {
  const { jobs: all } = github()
  expect(JSON.stringify(all['plan'])).not.toContain('APPLY_KEY')
  expect(JSON.stringify(gitlab()['countersign-plan'])).not.toContain('APPLY_KEY')
  // A title or branch in a `run` would be a command of whoever wrote it.
  for (const { steps } of Object.values(all))
    for (const { run = '' } of steps) expect(run).not.toContain('${{')
})
