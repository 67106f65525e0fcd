import { expect, test } from '@jest/globals'
import { readDocsPage } from '../api/docs-page.ts'

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
    cleaned,
  ] = await readDocsPage('docs/agents.md', {
    before: `mkdir bin; printf '#!/bin/sh\\necho 2.1.329\\n' >bin/claude; chmod +x bin/claude; PATH="$PWD/bin:$PATH"`,
    after: [ask('curl https://example.com'), ask('ls'), 'cat "$WORK/servers.json" "$WORK/mcp.json"'],
    last: 'Clean up',
  })
  expect(rule).toBe('agents-send-nothing')
  expect(installed).toContain('"onFailure": "block"')
  expect(installed).not.toContain('csk_live_')
  expect(byHand).toMatch(/^blocked by rule `agents-send-nothing`: .*\nexit code 2$/)
  expect(tried).toMatch(/^ok {4}fail mode is closed$/m)
  expect(tried).toMatch(/\nworks$/)
  expect(starter?.match(/^done: save the rule `Agents: .*` \(require_approval, shadow\)$/gm)).toHaveLength(4)
  expect(held).toBe('true\nthe-website-waits')
  expect(inbox).toBe('Write the-website-waits\nhello\napproved')
  expect(passed).toBe('allow\nrequire_approval')
  // The entry that used the approval contains the earlier hold too.
  const receipts = ['allow', 'require_approval']
  expect(receipt).toBe(receipts.map((verdict) => `Write ${verdict} the-website-waits`).join('\n'))
  expect(revoked).toBe('revoked\nsession revoked')
  expect(frozen).toBe('true\nfalse')
  expect(counted).toBe('write\negress\nread\negress\negress')
  expect(pages).toBe('known-pages-only')
  expect(policy).toMatch(/^CronCreate\n/)
  expect(gateway).toBe('service_mcp.py --config FILE')
  expect(gatewayFiles).toBe('')
  expect(own).toBe('allow\n["internal"]\ntrue')
  expect(key).toBe('csk_live_')
  expect(curl).toMatch(/^blocked by rule `agents-send-nothing`: .*\nexit 2$/)
  expect(ls).toBe('')
  const [named, asked] = servers?.split(/(?<=^})\n/m).map((file) => JSON.parse(file) as Mcp) ?? []
  expect(named?.mcpServers['board']).toMatchObject({ env: { BOARD_TOKEN: '${BOARD_TOKEN}' } })
  expect(asked?.mcpServers['svc']?.args).toContainEqual(
    expect.stringMatching(/^\/.*\.countersign\/hook\.json$/),
  )
  // The answer to a deletion is an empty object.
  expect(cleaned?.trim().split(/\n+/)).toEqual(['{}'])
})
