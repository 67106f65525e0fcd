import { spawn } from 'node:child_process'
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeEach, describe, expect, test } from '@jest/globals'
import { newId } from '../../src/contract/ids.ts'
import { addKey, addPerson } from '../api/fixtures.ts'
import type { TestServer } from '../api/server.ts'
import { useServer } from '../api/use-server.ts'
import { bin, cli, inTerminal, useFolder, type RunOptions } from './run-cli.ts'
import { programEnv } from '../support/program-env.ts'

/* `plan`, `apply` and `validate`, against a real server. */

let server: TestServer
const { as, ours, keyOf, personOf } = useServer((started) => (server = started))
const { folder, put } = useFolder()
/** Each test has a rule of its own. */
let name: string
beforeEach(() => {
  name = `n${newId('rule').slice(5).toLowerCase()}`
})

const envOf = (key = keyOf('owner')) => ({
  COUNTERSIGN_URL: server.base,
  COUNTERSIGN_API_KEY: key,
  NO_COLOR: '1',
})
const run = (...args: readonly string[]) => cli(args, { env: envOf() })
/** Whatever is sent ends in an error of the connection. */
const nowhere = (...args: readonly string[]) =>
  cli(args, { env: { ...envOf(), COUNTERSIGN_URL: 'http://127.0.0.1:65531' } })
const ruleOf = (verdict: string, more = '') =>
  `kind: rule\nname: ${name}\nverdict: ${verdict}\ntools: [mcp__s__${name}]\n${more}`
const aRule = 'kind: rule\nname: mail\nverdict: deny\n'
async function saved(): Promise<object | undefined> {
  const { rows } = await server.context.pool.query(
    `select body->>'verdict' as verdict, managed_by from rules where name = $1`,
    [name],
  )
  return rows[0]
}
const make = async (verdict: string): Promise<string> =>
  (await ours('owner', 'POST', '/rules', { name, verdict, tools: [`mcp__s__${name}`] })).body.id

describe('plan', () => {
  test('reads each file, shows the changes, and ends with 2; with 0 if nothing would change', async () => {
    await make('allow')
    put('rules/mail.yaml', ruleOf('deny'))
    put(
      'flows/hello.yaml',
      `name: hello\nslug: ${name}\n$schema: s\nsteps:\n  - {id: a, tool: memory_get, params: {key: a}}\n`,
    )
    put('countersign.yaml', 'approvals_enabled: true\n')
    put('.hidden/x.yaml', 'a: [')
    put('node_modules/x.yaml', 'a: [')
    put('notes.md', 'a: [')
    const from = ['--repository', `https://git.test/${name}`]
    const { code, stdout, stderr } = await run('plan', folder, ...from)
    expect([code, stderr]).toEqual([2, 'plan: 1 to create, 2 to change, 0 to delete, 0 unchanged\n'])
    expect(stdout).toBe(
      `~ organization organization (countersign.yaml), not from these files until now
    approvals_enabled: false → true
~ rule ${name} (rules/mail.yaml), not from these files until now
    verdict: allow → deny
    for example mcp__s__${name} {}: allow → deny
+ workflow ${name} (flows/hello.yaml)
`,
    )
    expect((await run('apply', folder, '--yes', ...from)).code).toBe(0)
    expect(await run('plan', folder, ...from)).toMatchObject({ code: 0, stdout: '' })
    await ours('owner', 'POST', '/release', { objects: [{ kind: 'organization', name: 'organization' }] })
  })

  test('paths are from the root of the repository', async () => {
    mkdirSync(join(folder, '.git'))
    put('config/rules/mail.yaml', ruleOf('deny'))
    const { stdout } = await run('plan', join(folder, 'config'))
    expect(stdout).toContain(`+ rule ${name} (config/rules/mail.yaml)\n`)
  })

  test('as Markdown, the names of a stranger’s branch are no markup and mention nobody', async () => {
    name = `\`\`\`@everyone <img src=x> ${name}`
    const tools = `tools: [mcp__s__x]\n`
    put('mail.yaml', `kind: rule\nname: "${name}"\nverdict: allow\n${tools}`)
    const { code, stdout } = await run('plan', folder, '--format', 'markdown')
    expect(code).toBe(2)
    expect(stdout).toMatch(
      new RegExp(`^### Countersign: 1 to create, 0 to change, 0 to delete, 0 unchanged\n\n\`{4}diff\n\\+ rule \`{3}@everyone <img src=x> \\w+ \\(mail.yaml\\)\n\`{4}\n\nPlan \`\\w{12}\`\n$`), // prettier-ignore
    )
  })

  test('mistakes that the server finds stand at their line', async () => {
    put('rules/mail.yaml', `kind: rule\nname: ${name}\n# why\nverdict: maybe\ntools: [mail_send]\n`)
    const { code, stderr } = await run('plan', folder)
    expect([code, stderr]).toEqual([
      1,
      expect.stringContaining('error: rules/mail.yaml: line 4, column 10: verdict: '),
    ])
  })
})

test.each([
  ['several documents', 'kind: rule\n---\nkind: rule\n', 'line 2, column 1: a text has one document'],
  ['an alias', 'kind: rule\nname: &a x\nverdict: *a\n', 'line 2, column 10: leave the anchor'],
  ['a bomb of aliases', `a: &a [x]\n${'bcdefgh'.split('').map((each, at) => `${each}: &${each} [${Array(9).fill(`*${'abcdefg'[at]}`).join(', ')}]`).join('\n')}\n`, 'leave the anchor'], // prettier-ignore
  ['a field twice', 'kind: rule\nname: a\nname: b\n', 'line 3, column 1: the field is there twice'],
  ['a tag', 'kind: !!js/function rule\n', 'line 1, column 7: Unresolved tag'],
  [
    'a large whole number',
    'kind: rule\nname: a\nx: -12345678901234567890\n',
    'line 3, column 4: this is a whole number beyond',
  ],
  ['depth', `kind: ${'['.repeat(30_000)}`, 'too deep'],
  ['another kind', 'kind: rules\n', 'there is no kind "rules": `organization`, `rule`'],
  ['no kind', 'name: x\n', 'say in `kind` what it is'],
  ['a list', '- a\n', 'a file has one object'],
  ['size', `kind: rule\nname: ${'x'.repeat(600_000)}\n`, 'a file has at most 512 KiB'],
  ['bytes that are no text', 'kind: \u00ff', null],
])('a file with %s is an error with its place, and nothing is sent', async (_what, text, said) => {
  put('good.yaml', aRule)
  writeFileSync(join(folder, 'x.yaml'), text, said === null ? 'latin1' : 'utf8')
  const { code, stderr } = await nowhere('apply', folder, '--yes')
  expect(code).toBe(1)
  expect(stderr).toContain(`x.yaml: ${said === null ? 'it is not UTF-8' : ''}`)
  if (said !== null) expect(stderr).toContain(said)
})

test.each([
  ['out of the folder', (at: string) => symlinkSync('/etc/hostname', at)],
  ['nowhere', (at: string) => symlinkSync(join(folder, 'nothing'), at)],
])('a link that leads %s is refused', async (_where, link) => {
  put('good.yaml', aRule)
  link(join(folder, 'x.yaml'))
  const { code, stderr } = await nowhere('apply', folder, '--yes')
  expect(code).toBe(1)
  expect(stderr).toContain('leads out of the folder')
})

test.each(['x.yaml', 'rules'])(
  'a link `%s` to a folder is refused: its objects would be deleted',
  async (name) => {
    put('good.yaml', aRule)
    put('.shared/mail.yaml', aRule)
    symlinkSync(join(folder, '.shared'), join(folder, name))
    const { code, stderr } = await nowhere('apply', folder, '--yes')
    expect(code).toBe(1)
    expect(stderr).toContain(`${name}\` is a link to a folder: put the folder itself there`)
  },
)

test.each(['plan', 'apply'])('%s of a folder without objects is an error', async (verb) => {
  put('notes.md', 'nothing')
  const { code, stderr } = await nowhere(verb, folder, '--repository', 'https://git.test/a')
  expect(code).toBe(1)
  expect(stderr).toContain('has no file that ends in .yaml')
})

test('validate checks workflows alone by their route, and everything else by a plan', async () => {
  put('hello.yaml', 'name: hello\nsteps:\n  - {id: a, tool: memory_get, params: {key: a}}\n')
  expect(await run('validate', folder)).toMatchObject({ code: 0, stdout: 'valid\t1 file\n' })
  put('hello.yaml', `name: hello\nslug: ${name}\nsteps:\n  - {id: a, tool: memory_get, params: {key: a}}\n`)
  // A key that may only read plans instead.
  const reading = await addKey(server.context, server.identities.organization_id, personOf('owner').userId, [
    'workflows:read',
    'rules:read',
  ])
  const validate = () => cli(['validate', folder], { env: envOf(reading.secret) })
  expect(await validate()).toMatchObject({ code: 0, stdout: 'valid\t1 file\n' })
  put('rules/mail.yaml', ruleOf('maybe'))
  const { code, stderr } = await validate()
  expect([code, stderr]).toEqual([
    1,
    expect.stringContaining('error: rules/mail.yaml: line 3, column 10: verdict: '),
  ])
})

test('validate names the mistakes of all files, also beside one that cannot be read', async () => {
  put('a.yaml', ruleOf('perhaps'))
  put('b.yaml', 'name: b\nkind: rulle\n')
  const { code, stderr } = await run('validate', folder)
  expect([code, stderr]).toEqual([
    1,
    expect.stringMatching(
      /^error: b\.yaml: line 2, column 7: there is no kind "rulle": .*\na\.yaml: line 3, column 10: verdict: /,
    ),
  ])
  put('a.yaml', ruleOf('deny'))
  expect(await run('validate', folder)).toMatchObject({ code: 1, stderr: expect.stringMatching(/^error: b\.yaml: .*\n$/) }) // prettier-ignore
})

describe('apply', () => {
  beforeEach(() => put('mail.yaml', ruleOf('deny')))

  test('does what the plan said, and asks before', async () => {
    const unasked = await run('apply', folder)
    expect([unasked.code, await saved()]).toEqual([1, undefined])
    expect(unasked.stderr).toContain('add `--yes` if you are sure')
    const { code, stdout } = await run('apply', folder, '--yes', '--commit', 'abc', '--repository', name)
    expect(code).toBe(0)
    expect(stdout).toContain('applied\t1 created, 0 changed, 0 deleted, 0 unchanged\n')
    expect(await saved()).toMatchObject({
      verdict: 'deny',
      managed_by: { repository: name, commit: 'abc', path: 'mail.yaml' },
    })
  })

  inTerminal('does nothing if something else would be done than the plan said', async () => {
    let meanwhile: Promise<unknown> | null = null
    const options: RunOptions = {
      env: envOf(),
      terminal: true,
      onOutput(output, type) {
        if (output.includes('[y/N]')) meanwhile ??= make('allow').then(() => type('y\n'))
      },
    }
    const { code, stdout } = await cli(['apply', folder], options)
    expect([code, await saved()]).toEqual([1, { verdict: 'allow', managed_by: null }])
    expect(stdout).toContain('error: something has changed since the plan was made')
  })

  test('goes on if nobody reads the plan, and its exit code says what became of it', async () => {
    const count = 450
    for (let at = 0; at < count; at += 1)
      put(
        `r/${at}.yaml`,
        `kind: rule\nname: ${name}${'x'.repeat(150)}${at}\nverdict: deny\ntools: [mcp__s__x]\n`,
      )
    const script = `'${process.execPath}' '${bin}' apply '${folder}' --yes --repository ${name} | head -1; exit \${PIPESTATUS[0]}`
    const ended = (text: string) =>
      new Promise((resolve) =>
        spawn('bash', ['-c', text], { env: { ...programEnv(), ...envOf() } }).once('close', resolve),
      )
    expect([await ended(script), await saved()]).toEqual([0, expect.objectContaining({ verdict: 'deny' })])
  })

  test('says who must decide a looser change', async () => {
    await addPerson(server.context, server.identities.organization_id, 'owner')
    expect((await run('apply', folder, '--yes')).code).toBe(0)
    expect((await ours('owner', 'PATCH', '/governance', { loosening: 'second_person' })).status).toBe(200)
    put('mail.yaml', ruleOf('allow'))
    const held = await run('apply', folder, '--yes')
    const [id] = /apr_\w{26}/.exec(held.stdout) ?? []
    expect([held.code, held.stdout]).toEqual([2, expect.stringContaining(`waiting\t${id}\t${server.base}/console/approvals/${id}\n`)]) // prettier-ignore
    expect(held.stderr).toContain(
      `it waits for a second person, because:\n  no other active rule surely denies all calls that \`${name}\``,
    )
    expect((await as('owner', 'POST', `/approvals/${id}/withdraw`)).status).toBe(200)
  })
})
