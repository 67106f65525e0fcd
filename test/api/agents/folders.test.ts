import { describe, expect, test } from '@jest/globals'
import { newId } from '../../../src/contract/ids.ts'
import { useAgentWorld, type Agent, type AgentWorld } from './agent.ts'

/* Paths of calls: a call of a shell is bound to its folder and to the content of the scripts that it runs, and rules on
 * file paths apply to every spelling of a path (docs/decisions/0058). */

let world: AgentWorld
useAgentWorld((made) => (world = made))

const script = (path: string, digit: string, word = './deploy.sh') => ({
  word,
  path,
  sha256: digit.repeat(64),
})

/** Asks about a call, approves it, and returns what the approver saw. */
async function approved(agent: Agent, tool: string, input: object, around: object) {
  const { decision, approval_id } = await agent.ask(tool, input, around)
  expect(decision).toBe('require_approval')
  const seen = await world.approval(approval_id)
  await world.decide(approval_id, 'approve')
  return seen
}
const decisionOn = async (agent: Agent, tool: string, input: object, around: object = {}) =>
  (await agent.ask(tool, input, around)).decision

/** The client's answer to an event of the hook: the reason of a denial, or `runs`. */
async function hook(event: object): Promise<string> {
  const body = { hook_event_name: 'PreToolUse', session_id: newId('session'), ...event }
  const answer = await world.asMember('POST', '/hooks/claude-code?wait=0', body)
  const told = answer.body.hookSpecificOutput
  return told?.permissionDecision === 'deny' ? told.permissionDecisionReason : 'runs'
}
const waitingOnes = async () => (await world.read('/approvals?status=pending')).data

/** What `rules/test` says about an agent's call, under the given rules or the saved ones. */
async function tried(call: object, rules?: object[]) {
  const path = `/organizations/${world.organizationId}/rules/test`
  const body = { call: { source: 'agents', ...call }, ...(rules && { rules }) }
  return (await world.asAdmin('POST', path, body)).body
}

const rm = { command: 'rm -rf ./data' }

describe('what was approved in one folder', () => {
  test.each([
    ...['Bash', 'PowerShell', 'Monitor', 'exec_command', 'run_shell_command', 'run_in_terminal'],
    'local_shell',
  ])('is held in another one, and without a folder: %s', async (tool) => {
    await world.hold(tool)
    const agent = world.agent()
    const { params, preview } = await approved(agent, tool, rm, { cwd: '/home/me/project' })
    expect(params).toMatchObject({ ...rm, cwd: '/home/me/project' })
    expect(preview.fields).toContainEqual({ name: 'cwd', value: '/home/me/project' })
    for (const around of [{ cwd: '/srv/production' }, { cwd: '/home/me/project/../../../srv' }, {}])
      expect(await decisionOn(agent, tool, rm, around)).toBe('require_approval')
    expect(await decisionOn(agent, tool, rm, { cwd: '/home/me//project/.' })).toBe('allow')
    expect(await decisionOn(agent, tool, rm, { cwd: '/home/me/project' })).toBe('require_approval')
  })

  const everything = { name: 'ask', verdict: 'require_approval', match_all: true }

  test.each(['execute_command', 'BASH', 'local-shell', 'mcp__shell__execute'])(
    'is held in another one for %s, which may be a shell, unless the folder is that of a server',
    async (tool) => {
      await world.change('POST', '/rules', everything)
      const agent = world.agent()
      await approved(agent, tool, rm, { cwd: '/home/me/project' })
      const wanted = tool.startsWith('mcp__') ? 'allow' : 'require_approval'
      expect(await decisionOn(agent, tool, rm, { cwd: '/srv/production' })).toBe(wanted)
    },
  )

  test('is held again if an own folder that is no text has changed', async () => {
    await world.change('POST', '/rules', everything)
    const agent = world.agent()
    const around = { cwd: '/home/me/project' }
    const input = (at: number) => ({ ...rm, cwd: { at } })
    await approved(agent, 'execute_command', input(1), around)
    expect(await decisionOn(agent, 'execute_command', input(2), around)).toBe('require_approval')
  })

  test('is held in another one if it is a relative path of a file', async () => {
    await world.hold('Write')
    const agent = world.agent()
    const input = { file_path: 'notes.txt', content: 'x' }
    const { params } = await approved(agent, 'Write', input, { cwd: '/home/me' })
    expect(params.file_path).toEqual({ 1: 'notes.txt', 2: '/home/me/notes.txt' })
    expect(await decisionOn(agent, 'Write', input, { cwd: '/srv' })).toBe('require_approval')
    expect(await decisionOn(agent, 'Write', input, { cwd: '/home/me' })).toBe('allow')
  })

  test('is held in another one under the same id: it is another call', async () => {
    await world.hold('Bash')
    const agent = world.agent()
    const asked = { ...agent.question('Bash', rm), cwd: '/home/me' }
    await world.decide((await agent.send(asked)).body.approval_id, 'approve')
    for (let times = 0; times < 2; times += 1) expect((await agent.send(asked)).body.decision).toBe('allow')
    expect((await agent.send({ ...asked, cwd: '/srv' })).body.decision).toBe('require_approval')
  })

  test('is shown with an own folder of the call, which is read from the folder of the client', async () => {
    await world.hold('Bash')
    const agent = world.agent()
    const input = { ...rm, workdir: '../production' }
    const around = (cwd: string) => ({ cwd, real_folders: ['/mnt/1'] })
    const { preview } = await approved(agent, 'Bash', input, around('/srv/test'))
    const value = '/srv/test, /srv/test/../production, /srv/production, /mnt/1'
    expect(preview.fields).toContainEqual({ name: 'cwd', value })
    expect(preview.note).toContain('in each of the folders')
    expect(await decisionOn(agent, 'Bash', input, around('/srv/other'))).toBe('require_approval')
  })

  test('is held by the http hook in another one, and the page says that no script is covered', async () => {
    await world.hold('Bash')
    const session_id = newId('session')
    const asked = (cwd: string) =>
      hook({ session_id, tool_name: 'Bash', cwd, tool_input: { command: './deploy.sh' } })
    await asked('/home/me')
    const [held] = await waitingOnes()
    expect(held.preview.note).toBe(
      'The approval does not cover the content of “./deploy.sh”: it may change until it runs.',
    )
    await world.decide(held.id, 'approve')
    expect(await asked('/srv')).not.toBe('runs')
    expect(await asked('/home/me')).toBe('runs')
  })
})

test.each<[string, object, object]>([
  ['relative', {}, { cwd: 'project' }],
  ['two lines', {}, { cwd: '/srv/a\nb' }],
  ['NUL', {}, { cwd: '/srv/a\0b' }],
  ['turned around', {}, { cwd: '/srv/\u202egpj' }],
  ['no text', {}, { cwd: ['/srv'] }],
  ['too long', {}, { cwd: `/${'a'.repeat(4_096)}` }],
  ['above the root', {}, { cwd: '/../srv' }],
  ['an own folder that is no text', { cwd: { 1: '/srv' } }, { cwd: '/srv' }],
  ['an own folder of two lines', { workdir: 'a\nb' }, { cwd: '/srv' }],
  ['scripts among the arguments', { scripts: [script('/a', '0')] }, { cwd: '/srv' }],
])('a folder that cannot be read is denied: %s', async (_, more, around) => {
  const input = { command: 'ls', ...more }
  expect(await decisionOn(world.agent(), 'Bash', input, around)).toBe('deny')
  expect(await hook({ tool_name: 'Bash', tool_input: input, ...around })).not.toBe('runs')
})

describe('a script that the command runs', () => {
  const cwd = '/w'
  const scripts = [script('/w/deploy.sh', 'a')]

  test.each([
    './deploy.sh',
    'sh ./deploy.sh now',
    '. ./deploy.sh',
    'sudo -u me ./deploy.sh',
    'bash -c "./deploy.sh"',
    'cat ./deploy.sh | bash',
    'bash < ./deploy.sh',
    'find . -exec ./deploy.sh {} +',
  ])('%s: a change of its content, of its file or of what is sent holds the call again', async (command) => {
    await world.hold('Bash')
    const agent = world.agent()
    const { preview } = await approved(agent, 'Bash', { command }, { cwd, scripts })
    const value = './deploy.sh, the file /w/deploy.sh: SHA-256 aaaaaaaaaaaa…'
    expect(preview.fields).toContainEqual({ name: 'scripts', value })
    for (const sent of [
      [script('/w/deploy.sh', 'b')],
      [script('/srv/deploy.sh', 'a')],
      [{ ...script('/w/deploy.sh', 'a'), sha256: null }],
      [...scripts, script('/w/sub/deploy.sh', 'a')],
      [],
    ])
      expect(await decisionOn(agent, 'Bash', { command }, { cwd, scripts: sent })).toBe('require_approval')
    expect(await decisionOn(agent, 'Bash', { command }, { cwd, scripts })).toBe('allow')
  })

  test('whose name is only known when the command runs is shown with `[…]`', async () => {
    await world.hold('Bash')
    const { preview } = await approved(world.agent(), 'Bash', { command: 'bash ./$NAME.sh' }, { cwd })
    const value = expect.stringContaining('./[…].sh: its content is not covered')
    expect(preview.fields).toContainEqual({ name: 'scripts', value })
    expect(preview.note).toContain('does not cover the content of “./[…].sh”')
  })

  test.each([
    ['make test', script('/w/Makefile', '1', 'make')],
    ['cat deploy | sh', script('/w/deploy', '1', 'deploy')],
    ['python3 - < deploy', script('/w/deploy', '1', 'deploy')],
    ['python3 -m tools', script('/w/tools.py', '1', 'tools')],
    ['read c < deploy; $c', script('/w/deploy', '1', 'deploy')],
  ])('%s: may be a file that the command does not name as a script', async (command, sent) => {
    await world.hold('Bash')
    const agent = world.agent()
    const { params } = await approved(agent, 'Bash', { command }, { cwd, scripts: [sent] })
    expect(params.scripts).toContainEqual(sent)
    const decision = (sha256: string) =>
      decisionOn(agent, 'Bash', { command }, { cwd, scripts: [{ ...sent, sha256 }] })
    expect(await decision('2'.repeat(64))).toBe('require_approval')
    expect(await decision(sent.sha256)).toBe('allow')
  })

  test('is no file that the command only reads, which may change', async () => {
    await world.hold('Bash')
    const agent = world.agent()
    const input = { command: 'python3 a.py log.txt data.csv' }
    const program = script('/w/a.py', '1', 'a.py')
    const sent = (digit: string) => [program, script('/w/log.txt', digit, 'log.txt')]
    const { params } = await approved(agent, 'Bash', input, { cwd, scripts: sent('a') })
    expect(params.scripts).toEqual([program])
    expect(await decisionOn(agent, 'Bash', input, { cwd, scripts: sent('b') })).toBe('allow')
  })
})

test('rules read the folder in plain form, and each folder in which the call may run', async () => {
  const rule = (tool: string, operator: string, value: unknown) =>
    world.change('POST', '/rules', {
      name: tool,
      verdict: 'deny',
      tools: [tool],
      params: [{ param: 'cwd', operator, value }],
    })
  await rule('Bash', 'startswith', '/srv/www/')
  const agent = world.agent()
  const asked = async (cwd: string) => {
    const trial = await tried({ tool: 'Bash', params: { command: 'ls', cwd } })
    const decision = await decisionOn(agent, 'Bash', { command: 'ls' }, { cwd })
    expect([cwd, trial.decision]).toEqual([cwd, decision])
    return decision
  }
  for (const cwd of ['/srv/www', '/srv/www/', '/srv//www/a', '/srv/x/../www', '/srv/./www/.'])
    expect([cwd, await asked(cwd)]).toEqual([cwd, 'deny'])
  for (const cwd of ['/srv/www-old', '/srv', '/home/srv/www'])
    expect([cwd, await asked(cwd)]).toEqual([cwd, 'allow'])
  for (const around of [{ cwd: '/w', real_folders: ['/srv/www'] }, { cwd: '/srv/x' }])
    expect(await decisionOn(agent, 'Bash', { command: 'ls', workdir: '../www' }, around)).toBe('deny')
  await rule('PowerShell', 'not_in', ['C:\\Work'])
  for (const [cwd, decision] of [
    ['c:\\work\\', 'allow'],
    ['C:/Work/x/..', 'allow'],
    ['C:\\Work\\..\\Windows', 'deny'],
  ])
    expect([cwd, await decisionOn(agent, 'PowerShell', { command: 'ls' }, { cwd })]).toEqual([cwd, decision])
})

test('the report of a finished call finds its decision without folder and scripts', async () => {
  const agent = world.agent()
  const around = { cwd: '/w', scripts: [script('/w/deploy.sh', 'a')] }
  const withId = agent.question('Bash', { command: './deploy.sh' })
  const { tool_use_id: _, ...without } = agent.question('Bash', { command: './deploy.sh 2' })
  for (const asked of [withId, without]) {
    await agent.send({ ...asked, ...around })
    expect((await agent.finish(asked)).unapproved).toBe(false)
  }
  expect((await agent.finish(without)).unapproved).toBe(true)
  expect((await agent.finish({ ...withId, tool_input: { command: './deploy.sh 3' } })).unapproved).toBe(true)
})

describe('a rule on file paths', () => {
  const inside = { param: 'file_path', operator: 'startswith', value: '/srv/www/' }
  const website = { name: 'website', verdict: 'deny', tools: ['Write'], params: [inside] }
  const spellings = [
    '/srv/www/index.html',
    '/srv//www/index.html',
    '/srv/./www/index.html',
    '/srv/x/../www/index.html',
    '//srv/www/x/../index.html/.',
    ' /srv/www/index.html',
  ]

  test('denies each spelling; a neighbouring path passes', async () => {
    await world.change('POST', '/rules', website)
    const agent = world.agent()
    const write = (file_path: unknown) => agent.ask('Write', { file_path, content: 'x' })
    const two = [
      { 1: 'index.html', 2: '/srv/www/index.html' },
      { 1: 'x', 2: '/srv//www/x' },
    ]
    for (const path of [...spellings, ...two, '/srv/www/../x'])
      expect([path, (await write(path)).rule_name]).toEqual([path, 'website'])
    for (const path of ['/srv/wwwx/index.html', '/srv//x', { 1: 'x', 2: '/srv/x' }])
      expect([path, (await write(path)).rule_name]).toEqual([path, null])
    for (const path of ['/../srv/www/x', '/srv/../../x', { 1: '../x', 2: '/../x' }])
      expect([path, (await write(path)).reason]).toEqual([path, 'path above the root'])
  })

  test('is not overridden by an allowed path in another spelling', async () => {
    const elsewhere = { param: 'file_path', operator: 'not_in', value: ['/w/a', '/w//a'] }
    await world.change('POST', '/rules', { ...website, tools: ['Read'], params: [elsewhere] })
    const agent = world.agent()
    for (const [file_path, decision] of [
      ['/w/a', 'allow'],
      ['/w//a', 'allow'],
      ['/w/./a', 'deny'],
    ])
      expect([file_path, await decisionOn(agent, 'Read', { file_path })]).toEqual([file_path, decision])
  })

  test('shows approvers the path as given, and exactly that call passes', async () => {
    await world.change('POST', '/rules', { ...website, verdict: 'require_approval' })
    const agent = world.agent()
    const input = { file_path: '/srv//www/index.html', content: 'x' }
    expect((await approved(agent, 'Write', input, {})).params).toEqual(input)
    const plain = { ...input, file_path: '/srv/www/index.html' }
    expect(await decisionOn(agent, 'Write', plain)).toBe('require_approval')
    const question = agent.question('Write', input)
    expect((await agent.send(question)).body).toMatchObject({ decision: 'allow' })
    expect((await agent.finish(question)).unapproved).toBe(false)
  })

  test('has the same answer in `rules/test`', async () => {
    const test = (file_path: string, more: object = {}) =>
      tried({ tool: 'Write', params: { file_path }, labels: [], ...more }, [website])
    for (const path of spellings) expect((await test(path)).decision).toBe('deny')
    expect((await test('/srv//www/x', { side_effect: 'write' })).decision).toBe('deny')
    expect((await test('/../x')).reason).toBe('path above the root')
  })

  const written = (file_path: string, cwd?: unknown) =>
    hook({ cwd, tool_name: 'Write', tool_input: { file_path } })

  test.each([
    ['index.html', '/srv/www', 'website'],
    ['../www/index.html', '/srv/x', 'website'],
    ['www//index.html', '/srv/', 'website'],
    ['/srv//www/index.html', '/home', 'website'],
    ['index.html', '/srv', 'runs'],
    ['index.html', undefined, 'runs'],
    ['index.html', 7, 'runs'],
    ['../../../x', '/srv', 'path above the root'],
  ])('reads %j of the http hook in the client’s folder %j: %s', async (path, cwd, told) => {
    await world.change('POST', '/rules', website)
    expect(await written(path, cwd)).toContain(told)
  })

  test('shows approvers both the path of the http hook and the path in the client’s folder', async () => {
    await world.change('POST', '/rules', { ...website, verdict: 'require_approval' })
    expect(await written('index.html', '/srv/www')).toContain('is still pending')
    const [held] = await waitingOnes()
    const { params } = await world.approval(held.id)
    expect(params).toEqual({ file_path: { 1: 'index.html', 2: '/srv/www/index.html' } })
  })
})
