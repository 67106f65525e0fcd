import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import { readDocsPage } from './docs-page.ts'

/* Runs the commands of docs/policies.md. The tables of the page are tested in test/docs. */

test('the page’s commands do what it says', async () => {
  const answers = await readDocsPage('docs/policies.md')
  const [, blocked, refused, open, limited, previewed, overridden, left] = answers
  expect(blocked).toBe('memory_set member false')
  expect(refused).toBe(
    'run_denied denied: tool blocked for role member; a tool policy of role `member` blocks `memory_set`',
  )
  expect(open).toBe('allowed\ntrue\nqueued')
  expect(limited?.split('\n')).toEqual([
    'github_search_code',
    'allow',
    'deny outside the limits of the organization',
    expect.stringContaining('and this call names none'),
  ])
  expect(previewed?.split('\n')).toEqual([
    'mail_send',
    'true deny possible',
    'true allow definite',
    'false deny definite',
  ])
  expect(overridden?.split('\n').filter((line) => line !== '')).toEqual([
    'deny',
    'member true 1',
    'release-manager true 0',
    'allow',
    'deny tool not allowed by any policy',
    'release-manager',
    'member',
    'allow',
  ])
  expect(left?.trim()).toBe('[]')
  // The page must show exactly what its commands print.
  expect(shownAnswers()).toEqual(answers.slice(1).map((answer) => answer.trim()))
})

/** The output blocks below the commands of the page. */
function shownAnswers(): string[] {
  const blocks = readFileSync(join(import.meta.dirname, '../../docs/policies.md'), 'utf8').matchAll(
    /^```(\w*)\n([\s\S]*?)^```$/gm,
  )
  return [...blocks].filter(([, language]) => language === '').map(([, , text = '']) => text.trim())
}
