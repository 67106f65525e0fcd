import { execFile } from 'node:child_process'
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { parse } from 'yaml'
import { programEnv } from '../support/program-env.ts'
import { startStandIn, type StandIn } from './stand-in.ts'

/* The steps of samples/ci, as the runners of GitHub and GitLab start them: with bash, in the folder of the repository. */

let standIn: StandIn
let folder: string
const root = join(import.meta.dirname, '../..')

beforeAll(async () => {
  standIn = await startStandIn()
  folder = mkdtempSync(join(tmpdir(), 'ci-'))
  mkdirSync(join(folder, 'bin'))
  mkdirSync(join(folder, 'repository', '.git'), { recursive: true })
  mkdirSync(join(folder, 'repository', 'countersign'))
  writeFileSync(
    join(folder, 'repository', 'countersign', 'mail.yaml'),
    'kind: rule\nname: mail\nverdict: deny\n',
  )
  program('countersign', `exec '${process.execPath}' '${join(root, 'bin/countersign.js')}' "$@"`)
  // They send the comment: what they are given is kept.
  for (const name of ['gh', 'curl']) program(name, `printf '%s\\n' "$@" > '${join(folder, 'commented')}'`)
})
afterAll(async () => {
  rmSync(folder, { recursive: true, force: true })
  await standIn?.close()
})
beforeEach(() => {
  rmSync(join(folder, 'commented'), { force: true })
  standIn.begin()
})

function program(name: string, line: string): void {
  const path = join(folder, 'bin', name)
  writeFileSync(path, `#!/usr/bin/env bash\n${line}\n`)
  chmodSync(path, 0o755)
}

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
  'secrets.COUNTERSIGN_PLAN_KEY': 'csk_live_plan',
  'secrets.COUNTERSIGN_APPLY_KEY': 'csk_live_apply',
  'github.server_url': 'https://github.com',
  'github.repository': 'acme/rules',
  'github.sha': 'abc123',
  'github.token': 't',
  'github.event.pull_request.number': '7',
  'github.ref': 'refs/heads/main',
}
const filled = (env: Readonly<Record<string, string>>): Record<string, string> =>
  Object.fromEntries(
    Object.entries(env).map(([name, text]) => [
      name,
      text.replaceAll(/\$\{\{ (.*?) \}\}/g, (_, what: string) => values[what] ?? `unknown ${what}`),
    ]),
  )

function bash(script: string, env: Readonly<Record<string, string>>) {
  const { PATH, ...rest } = programEnv()
  const options = {
    cwd: join(folder, 'repository'),
    env: { ...rest, ...env, COUNTERSIGN_URL: standIn.url, PATH: `${join(folder, 'bin')}:${PATH}` },
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
    const key = name === 'plan' ? 'csk_live_plan' : 'csk_live_apply'
    const given = { COUNTERSIGN_API_KEY: key, CI_PROJECT_URL: 'https://github.com/acme/rules' }
    const more = { CI_COMMIT_SHA: 'abc123', GITLAB_TOKEN: 't', CI_API_V4_URL: 'https://gitlab.test/api/v4' }
    const ids = { CI_PROJECT_ID: '5', CI_MERGE_REQUEST_IID: '7' }
    // GitLab makes one script of all lines.
    const { script } = gitlab()[`countersign-${name}`] ?? { script: ['exit 9'] }
    return [(await bash(script.join('\n'), { ...given, ...more, ...ids })).code]
  },
} as const

const change = {
  ...{ action: 'change', kind: 'rule', name: 'mail', id: 'rule_1', path: 'countersign/mail.yaml' },
  ...{ lines: ['verdict: allow → deny'], decided_otherwise: null },
}
const answer = (changes: readonly object[], dry = true) => ({
  ...{ dry_run: dry, plan: 'hash-1', created: 0, changed: changes.length, deleted: 0, unchanged: 1, more: 0 },
  changes,
})
const path = 'POST /organizations/org_1/apply'
const applications = () => standIn.sent.filter((each) => each.path === path)

describe.each(['github', 'gitlab'] as const)('%s', (which) => {
  test.each([
    ['something would change', [change], /1 to change/],
    ['nothing would change', [], /nothing changes/],
  ] as const)('a pull request gets the plan as a comment if %s', async (_what, changes, said) => {
    standIn.answers[path] = () => [200, answer(changes)]
    expect(new Set(await jobs[which]('plan'))).toEqual(new Set([0]))
    // For `validate`, and for `plan`.
    const asked = expect.objectContaining({ dry_run: true, repository: 'https://github.com/acme/rules' })
    expect(applications().map(({ body }) => body)).toEqual([asked, asked])
    expect(applications()[0]?.headers['authorization']).toBe('Bearer csk_live_plan')
    expect(readFileSync(join(folder, 'repository', 'plan.md'), 'utf8')).toMatch(said)
    expect(readFileSync(join(folder, 'commented'), 'utf8')).toContain('plan.md')
  })

  test('a plan that is refused fails the job, and there is no comment', async () => {
    const error = { code: 'validation_error', message: 'wrong', details: [] }
    standIn.answers[path] = () => [422, { error }]
    expect((await jobs[which]('plan')).at(-1)).not.toBe(0)
    expect(() => readFileSync(join(folder, 'commented'))).toThrow('ENOENT')
  })

  test('main is applied, with repository, commit and the hash of the plan', async () => {
    standIn.answers[path] = ({ dry_run: dry = false }) => [200, answer([change], dry)]
    expect(await jobs[which]('apply')).toEqual([0])
    expect(applications().map(({ body }) => body)).toEqual([
      expect.objectContaining({ dry_run: true }),
      {
        ...{ repository: 'https://github.com/acme/rules', commit: 'abc123', plan: 'hash-1' },
        objects: [{ kind: 'rule', name: 'mail', verdict: 'deny', path: 'countersign/mail.yaml' }],
      },
    ])
    expect(applications()[0]?.headers['authorization']).toBe('Bearer csk_live_apply')
  })
})

test('what waits for a second person is a warning of the job', async () => {
  const held = { change: { id: 'apr_1', status: 'pending', why: ['`mail` allows more'] } }
  standIn.answers[path] = ({ dry_run: dry = false }) => (dry ? [200, answer([change])] : [202, held])
  expect([await jobs.github('apply'), await jobs.gitlab('apply')]).toEqual([[0], [2]])
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
