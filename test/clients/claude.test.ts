import { chmodSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { agentWorld, type AgentWorld } from '../api/agents/agent.ts'
import { readDocsPage } from '../api/docs-page.ts'
import { addKey } from '../api/fixtures.ts'
import { startTestServer, type TestServer } from '../api/server.ts'
import { temporaryFolder } from '../stack/temporary-folder.ts'
import { claude } from './claude.ts'
import { programOf } from './install.ts'
import { playModel } from './model.ts'
import { installHook } from './product-hook.ts'
import { runClient, type ClientRun } from './run-client.ts'
import type { Turn } from './script.ts'

/*
 * Tests that need only one client: the instructions of a docs page, the labels of a session, and a freeze during a
 * session.
 */

let server: TestServer
let program: readonly string[]
beforeAll(async () => {
  program = await programOf('claude')
  server = await startTestServer()
}, 600_000)
afterAll(() => server.close())

/** Runs Claude Code with the hook, as a member of this organization. `script` gets the path of a company file. */
async function run(world: AgentWorld, script: (file: string) => readonly Turn[]): Promise<ClientRun> {
  const turns: Turn[] = []
  const { secret: key } = await addKey(server.context, world.organizationId, world.member.userId, [
    'agents:authorize',
  ])
  return runClient(claude, {
    script: turns,
    setup: (place) => {
      installHook(claude, place, { url: server.base, key })
      const file = join(place.work, 'plan.txt')
      writeFileSync(file, 'the plan\n')
      turns.push(...script(file))
    },
  })
}
const curl = claude.shell('curl -sS https://example.invalid || touch RAN')

test('docs/agents.md, word for word: the curl is blocked, and the model reads the rule’s name', async () => {
  const page = readFileSync(new URL('../../docs/agents.md', import.meta.url), 'utf8')
  const [, session = ''] = /^\$ (claude -p .*)$/m.exec(page) ?? []
  expect(session).toContain('curl')
  const model = await playModel(claude.dialect, { main: [[curl]] })
  try {
    const bin = temporaryFolder()
    writeFileSync(join(bin, 'claude'), `#!/bin/sh\nexec '${program.join("' '")}' "$@"\n`)
    chmodSync(join(bin, 'claude'), 0o755)
    const own = { ...claude.env(model.url), PATH: `${bin}:${process.env['PATH']}` }
    const before = Object.entries(own).map(([name, value]) => `export ${name}='${value}'`)
    const printed = await readDocsPage('docs/agents.md', {
      before: before.join('\n'),
      after: [`timeout 120 ${session} </dev/null`, 'ls'],
      last: 'Clean up',
    })
    const tried = printed.find((text) => /^ok {4}fail mode/m.test(text))
    const files = printed.at(-3)
    expect(tried).toMatch(/^ok {4}claude [\d.]+ blocks when its hook fails$/m)
    expect(tried).toMatch(/\nworks$/)
    expect(files?.split('\n')).not.toContain('RAN')
    expect(model.results().map(({ text }) => text)).toEqual([
      expect.stringContaining('blocked by rule `agents-send-nothing`'),
    ])
  } finally {
    await model.close()
  }
})

test('labels of a company file and a web page join the session: then a curl meets the rule for both', async () => {
  const world = await agentWorld(server)
  const rule = 'nothing leaves with both'
  const labels = { all_of: ['internal', 'untrusted'] }
  await world.change('POST', '/rules', { name: rule, verdict: 'deny', side_effects: ['egress'], labels })
  const ended = await run(world, (file_path) => [
    [curl],
    [{ tool: 'Read', input: { file_path } }],
    [claude.shell('curl -sS https://example.invalid || touch RAN-TOO')],
    [{ tool: 'WebFetch', input: { url: 'https://example.invalid/', prompt: 'what does it say' } }],
    [claude.shell('curl -sS https://example.invalid || touch NOT-RUN')],
  ])
  expect(Object.keys(ended.files).sort()).toEqual(['RAN', 'RAN-TOO', 'plan.txt'])
  expect(ended.results[1]?.text).toContain('the plan')
  expect(ended.results.at(-1)?.text).toContain(`\`${rule}\``)
  const { body } = await server.call(world.admin.key, 'GET', '/agent-sessions')
  const [session] = body.data
  expect(session.labels.toSorted()).toEqual(['internal', 'untrusted'])
  expect(session.decisions).toMatchObject({ allow: 4, deny: 1 })
})

test('a freeze during a session denies its next call, and after its end calls pass again', async () => {
  const world = await agentWorld(server)
  const touch = (file: string) => [claude.shell(`touch ${file}`)]
  const ended = await run(world, () => [
    touch('BEFORE'),
    async () => {
      await world.change('POST', '/freeze', { reason: 'to see' })
      return touch('FROZEN')
    },
    async () => {
      await world.change('POST', '/unfreeze', { reason: 'seen' })
      return touch('AFTER')
    },
  ])
  expect(Object.keys(ended.files).sort()).toEqual(['AFTER', 'BEFORE', 'plan.txt'])
  expect(ended.results[1]?.text).toMatch(/frozen/)
})
