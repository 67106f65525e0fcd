import { expect, test } from '@jest/globals'
import { readDocsPage } from '../api/docs-page.ts'

test('docs/agents.md: the commands do what the page says', async () => {
  const [, rule, installed, tried] = await readDocsPage('docs/agents.md')
  expect(rule).toBe('agents-send-nothing')
  expect(installed).toContain('"onFailure": "block"')
  expect(installed).not.toContain('csk_live_')
  expect(tried).toMatch(/^ok {4}fail mode is closed$/m)
  expect(tried).toMatch(/\nprotected$/)
})
