import { readFileSync } from 'node:fs'
import { expect, test } from '@jest/globals'
import { assumptions } from '../../scripts/assumptions.ts'
import { mail } from '../activities/tools/faults/mail.ts'

const page = readFileSync(new URL('../../docs/tools.md', import.meta.url), 'utf8')
const afterCrash = (tool: string): string | undefined =>
  new RegExp(`^\\| \`${tool}\` .*`, 'gm').exec(page.slice(page.indexOf('A crash leaves')))?.[0]

test('a mail through Resend leaves no promise that the fault table does not keep', () => {
  const ends = Object.values(mail.tools.mail_send?.differs ?? {})
  expect(ends.map(({ state }) => state)).toContain('unknown_outcome')
  expect(afterCrash('mail_send')).toMatch(/with a connection to `mail` .* for 23 hours, and a person decides/)
})

test.each(assumptions)('$service: $what', ({ page: address, withoutPage }) => {
  if (address === null) expect(withoutPage).toMatch(/^\S.{20,}\.$/)
  else expect([new URL(address).protocol, withoutPage]).toEqual(['https:', undefined])
})

test.each([
  'Google Calendar',
  'Google Docs',
  'Google Drive',
  'Google Sheets',
  'GitHub',
  'Slack',
  'Jira',
  'Trello',
  'Resend',
])('there is an assumption about the limits of %s', (name) => {
  const ofLimits = assumptions.filter(({ service, what }) => service === name && /\b(?:403|429)\b/.test(what))
  expect(ofLimits).not.toEqual([])
})
