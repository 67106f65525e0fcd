import { readFileSync } from 'node:fs'
import { expect, test } from '@jest/globals'
import { readDocsPage } from '../api/docs-page.ts'
import { shownOutputs } from '../support/shell-blocks.ts'

interface Mcp {
  readonly mcpServers: Record<string, { readonly args?: string[] }>
}

test('the commands in docs/agents.md do what the page says', async () => {
  const event = { session_id: 's', hook_event_name: 'PreToolUse', tool_name: 'Bash' }
  const ask = (command: string): string => {
    const asked = JSON.stringify({ ...event, tool_input: { command } })
    return `python3 .countersign/service_hook.py pre --config .countersign/hook.json 2>&1 >answer <<'END' || echo "exit $?"\n${asked}\nEND`
  }
  const [
    ,
    rule,
    installed,
    byHand,
    tried,
    starter,
    held,
    inbox,
    passed,
    receipt,
    revoked,
    frozen,
    counted,
    pages,
    policy,
    gateway,
    gatewayFiles,
    own,
    key,
    curl,
    ls,
    servers,
    removed,
    cleaned,
  ] = await readDocsPage('docs/agents.md', {
    before: `mkdir bin; printf '#!/bin/sh\\necho 2.1.329\\n' >bin/claude; chmod +x bin/claude; PATH="$PWD/bin:$PATH"`,
    after: [ask('curl https://example.com'), ask('ls'), 'cat "$WORK/servers.json" "$WORK/mcp.json"'],
    last: 'Clean up',
  })
  expect(installed).toContain('"onFailure": "block"')
  expect(installed).not.toContain('csk_live_')
  expect(tried).toMatch(/\nworks$/)
  expect(starter?.match(/^done: save the rule `Agents: .*` \(require_approval, shadow\)$/gm)).toHaveLength(5)
  expectShownParts([installed, tried, starter, removed])
  expect(gatewayFiles).toBe('')
  const exact = [
    rule,
    byHand,
    held,
    inbox,
    passed,
    receipt,
    revoked,
    frozen,
    counted,
    pages,
    policy,
    gateway,
    own,
    key,
    cleaned,
  ]
  expect(exact).toEqual(shownOutputs('docs/agents.md'))
  expect(curl).toMatch(/^blocked by rule `agents-send-nothing`: .*\nexit 2$/)
  expect(ls).toBe('')
  const [named, asked] = servers?.split(/(?<=^})\n/m).map((file) => JSON.parse(file) as Mcp) ?? []
  expect(named?.mcpServers['board']).toMatchObject({ env: { BOARD_TOKEN: '${BOARD_TOKEN}' } })
  expect(asked?.mcpServers['svc']?.args).toContainEqual(
    expect.stringMatching(/^\/.*\.countersign\/hook\.json$/),
  )
})

/** The outputs that the page shows in part; `...` stands for what it leaves out. */
function expectShownParts(outputs: readonly (string | undefined)[]): void {
  const page = readFileSync(new URL('../../docs/agents.md', import.meta.url), 'utf8')
  const shown = [...page.matchAll(/^```text\n(.*?)^```$/gms)].map(([, text = '']) => text.split('...'))
  expect(shown).toHaveLength(outputs.length)
  for (const [index, parts] of shown.entries())
    for (const part of parts) expect(outputs[index]).toContain(part.trim())
}
