import { mkdtempSync, readdirSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { beforeAll, expect, test } from '@jest/globals'
import type { TestServer } from '../api/server.ts'
import { useServer } from '../api/use-server.ts'
import { cli, useFolder } from './run-cli.ts'

/* `pull` from a real server. What it writes says what the organization has, so a plan of it changes nothing. */

let server: TestServer
const { as, ours, keyOf } = useServer((started) => (server = started))
const { folder, put, read } = useFolder()

const run = (...args: readonly string[]) =>
  cli(args, {
    env: { COUNTERSIGN_URL: server.base, COUNTERSIGN_API_KEY: keyOf('owner'), NO_COLOR: '1' },
  })
const make = async (path: string, body: object): Promise<void> => {
  const made =
    path === '/workflows' ? await as('owner', 'POST', path, body) : await ours('owner', 'POST', path, body)
  expect([path, made.status, made.body.error]).toEqual([path, 201, undefined])
}
const idOf = async (path: string, name: string): Promise<string | undefined> =>
  ((await ours('owner', 'GET', path)).body.data as readonly { id: string; name: string }[]).find((each) => each.name === name)?.id // prettier-ignore
/** What a plan would create, change and delete. */
async function counts(): Promise<unknown[]> {
  const { stdout, stderr } = await run('plan', folder, '--json')
  expect(stderr).toBe('')
  const { created, changed, deleted } = JSON.parse(stdout) as Record<string, number>
  return [created, changed, deleted]
}
const sameAgain = async () => {
  const { stdout, stderr } = await run('pull', folder)
  expect([stdout, stderr.split('\n').at(-2)]).toEqual(['', 'the files are up to date'])
}

const step = (params: object) => ({ id: 'a', tool: 'memory_set', params })
/** One of each kind, with values that are empty or false and mean something. */
beforeAll(async () => {
  const settings = { slack_approval_notifications: false, restricted_labels: [], approval_threshold: 2 }
  expect((await ours('owner', 'PATCH', '/governance', settings)).status).toBe(200)
  await make('/groups', { name: 'empty' })
  await make('/groups', { name: 'two', description: 'd', members: ['member@countersign.test'] })
  await make('/rules', {
    ...{ name: 'mail', verdict: 'require_approval', tools: ['mail_send'], labels: { any_of: ['pii'] } },
    ...{ description: '', approver: { group: 'two' }, expires_after_seconds: 0 },
  })
  await make('/rules', { name: 'unclassed', verdict: 'deny', classed: false, status: 'shadow' })
  await make('/rules', { name: '../../../etc/Mail', verdict: 'allow', tools: ['mail_send'] })
  await make('/rules', { name: '文', verdict: 'allow', match_all: true })
  await make('/label-rules', {
    name: 'l',
    tools: ['mail_send'],
    add_labels: ['internal'],
    status: 'inactive',
  })
  await make('/tool-policies', { tool_name: 'mail_send', role: 'member', allowed: false })
  await make('/tool-policies', { tool_name: 'memory_set', restrictions: { read_only: true } })
  await make('/role-policy-overrides', { tool_name: 'mail_send', role: 'two', allowed: false })
  await make('/workflows', {
    ...{ name: 'Hello', slug: 'hello', protected: true, readers: ['two'] },
    definition: {
      steps: [step({ key: 'k', value: { text: '', no: false, none: null, list: [], map: {} } })],
    },
  })
})

test('writes one object a file, below names that a stranger chose, and a plan of them changes nothing', async () => {
  expect((await run('pull', folder)).stdout.split('\n').toSorted()).toEqual(
    ['', 'countersign.yaml', 'groups/empty.yaml', 'groups/two.yaml', 'labels/l.yaml', 'policies/mail-send-member.yaml', 'policies/mail-send-two.yaml', 'policies/memory-set.yaml', 'rules/etc-mail.yaml', 'rules/mail.yaml', 'rules/object.yaml', 'rules/unclassed.yaml', 'workflows/hello.yaml'].map((path) => path && `written\t${path}`), // prettier-ignore
  )
  expect(read('countersign.yaml')).toBe(
    'kind: organization\napproval_threshold: 2\nslack_approval_notifications: false\nrestricted_labels: []\n',
  )
  expect(read('groups/empty.yaml')).toBe('kind: group\nname: empty\n')
  expect(await run('plan', folder)).toMatchObject({
    code: 0,
    stderr: 'plan: 0 to create, 0 to change, 0 to delete, 12 to take over as they are, 0 unchanged\n',
  })
  await sameAgain()
})

test('what the files say otherwise becomes what the organization has; comments, order and form stay', async () => {
  put(
    'countersign.yaml',
    '# all\nallow_self_approval: true # no\nmail_approval_notifications: false\napprovals_enabled: false\n',
  )
  put(
    'a/mail.yaml',
    '# Why: a case of last year.\nkind: rule\nverdict: allow # for now\nname: mail\nstatus: active\nlabels: {any_of: [pii, old]} # two\nclassed: false\n',
  )
  put('a/empty.yaml', '# stays\nname:   empty\nkind: group\ndescription: ""\n')
  put('a/mine.yaml', 'kind: group\nname: mine\nmembers: []\n')
  put(
    'hello.yaml',
    'kind: workflow\nname: Hello\nslug: hello\nprotected: false\nreaders: []\ndefinition:\n  $schema: s.json\n  steps:\n    # first\n    - id: a\n      tool: memory_set\n      params: {key: k, value: {text: "", more: "", list: [1]}}\n',
  )
  const { stderr } = await run('pull', folder)
  expect(stderr).toContain('a/mine.yaml: the organization has no such object')
  expect(read('countersign.yaml')).toBe(
    '# all\nallow_self_approval: false # no\nmail_approval_notifications: true\napprovals_enabled: false\napproval_threshold: 2\nslack_approval_notifications: false\nrestricted_labels: []\n',
  )
  expect(read('a/mail.yaml')).toContain(
    '# Why: a case of last year.\nkind: rule\nverdict: require_approval # for now\nname: mail\nstatus: active\nlabels: {any_of: [pii]} # two\n',
  )
  expect(read('a/empty.yaml')).toBe('# stays\nname:   empty\nkind: group\ndescription: ""\n')
  expect(read('hello.yaml')).toContain('$schema: s.json\n  steps:\n    # first\n    - id: a\n')
  rmSync(join(folder, 'a/mine.yaml'))
  expect(await counts()).toEqual([0, 0, 0])
  await sameAgain()
})

test('a definition that stands alone stays one, also if the workflow is protected', async () => {
  put(
    'hello.yaml',
    '$schema: s.json\nname: Hello\nslug: hello\nsteps:\n  # first\n  - id: a\n    tool: memory_get\n    params: {key: k}\n',
  )
  await run('pull', folder)
  expect(read('hello.yaml')).toContain(
    '$schema: s.json\nname: Hello\nslug: hello\nsteps:\n  # first\n  - id: a\n',
  )
  expect(read('hello.yaml')).not.toMatch(/kind|protected/)
  expect(await counts()).toEqual([0, 0, 0])
})

test('what came from a repository is written where it came from, and a plan of it changes nothing', async () => {
  const repository = 'https://git.test/rules'
  const rule = { kind: 'rule', path: 'mine/first.yaml', name: 'of files', verdict: 'deny', classed: false }
  const flow = { kind: 'workflow', path: 'w.json', slug: 'of-files', name: 'F', definition: { steps: [step({ key: 'k', value: 1 })] } } // prettier-ignore
  const outside = { kind: 'group', path: '../out.yaml', name: 'of_outside' }
  const apply = (objects: readonly object[]) => ours('owner', 'POST', '/apply', { repository, objects })
  expect((await apply([rule, flow, outside])).body).toMatchObject({ created: 3 })
  await run('pull', folder)
  expect(read('mine/first.yaml')).toContain('name: of files\n')
  expect(JSON.parse(read('w.json'))).toMatchObject({ slug: 'of-files' })
  expect(read('groups/of-outside.yaml')).toContain('name: of_outside\n')
  expect(read('countersign.yaml')).toContain(`kind: organization\nrepository: ${repository}\n`)
  await sameAgain()
  // The group alone moves.
  const moved = await run('plan', folder)
  expect([moved.code, moved.stderr]).toEqual([2, 'plan: 0 to create, 1 to change, 0 to delete, 12 to take over as they are, 2 unchanged\n']) // prettier-ignore
  expect(moved.stdout).toContain('file: ../out.yaml → groups/of-outside.yaml\n')
  put('countersign.yaml', 'kind: organization\n')
  const { code, stderr } = await run('plan', folder)
  expect([code, stderr]).toEqual([1, expect.stringMatching(`mine/first.yaml: it comes from .* in ${repository}: if these are its files, name this .repository.;`)]) // prettier-ignore
  expect(stderr).not.toContain('nothing was applied')
  expect((await run('release', 'group', 'of_outside')).stdout).toBe('released\n')
  expect((await apply([])).status).toBe(200)
  expect(
    (await ours('owner', 'DELETE', `/groups/${(await idOf('/groups', 'of_outside')) ?? ''}`)).status,
  ).toBe(204)
})

test('writes through no link', async () => {
  const outside = mkdtempSync(join(tmpdir(), 'outside-'))
  symlinkSync(outside, join(folder, 'rules'))
  const { code, stderr } = await run('pull', folder)
  expect([code, readdirSync(outside)]).toEqual([1, []])
  expect(stderr).toContain('is a link to a folder')
  rmSync(outside, { recursive: true })
})

test('once the files are applied, nothing is left to do', async () => {
  await run('pull', folder)
  expect(await run('apply', folder, '--yes')).toMatchObject({ code: 0 })
  const { code, stderr } = await run('plan', folder)
  expect([code, stderr]).toEqual([0, 'nothing to do: 12 unchanged\n'])
})
