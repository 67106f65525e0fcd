import { expect, test } from '@jest/globals'
import { readDocsPage } from '../api/docs-page.ts'

test('docs/agents.md: the commands do what the page says', async () => {
  const event = { session_id: 's', hook_event_name: 'PreToolUse', tool_name: 'Bash' }
  const ask = (command: string): string => {
    const asked = JSON.stringify({ ...event, tool_input: { command } })
    return `python3 .countersign/service_hook.py pre --config .countersign/hook.json 2>&1 >answer <<'END' || echo "exit $?"\n${asked}\nEND`
  }
  const [, rule, installed, tried, counted, gateway, curl, ls] = await readDocsPage('docs/agents.md', {
    before: `mkdir bin; printf '#!/bin/sh\\necho 2.1.329\\n' >bin/claude; chmod +x bin/claude; PATH="$PWD/bin:$PATH"`,
    after: [ask('curl https://example.com'), ask('ls')],
  })
  expect(rule).toBe('agents-send-nothing')
  expect(installed).toContain('"onFailure": "block"')
  expect(installed).not.toContain('csk_live_')
  expect(tried).toMatch(/^ok {4}fail mode is closed$/m)
  expect(tried).toMatch(/\nprotected$/)
  expect(counted).toBe('write\negress\nread\negress\negress')
  expect(gateway).toBe('service_mcp.py --config FILE')
  expect(curl).toMatch(/^blocked by rule `agents-send-nothing`: .*\nexit 2$/)
  expect(ls).toBe('')
})
