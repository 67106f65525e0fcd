import { describe, expect, test } from '@jest/globals'
import { type RiskyTool, assessRisk, isAtLeast } from '../../src/policy/risk.ts'

const mail: RiskyTool = { name: 'mail_send', sideEffect: 'egress', risk: 'high', labels: [] }
const chat: RiskyTool = { ...mail, name: 'slack_send_message' }
const ticket: RiskyTool = { name: 'jira_create_issue', sideEffect: 'write', risk: 'medium', labels: [] }
const read: RiskyTool = { name: 'docs_read', sideEffect: 'read', risk: 'medium', labels: [] }
const search: RiskyTool = { name: 'web_search', sideEffect: 'read', risk: 'low', labels: [] }

describe('risk', () => {
  test.each([
    ['nothing', [], 'low'],
    ['reading the web', [search], 'low'],
    ['reading company data', [search, read], 'medium'],
    ['creating tickets', [ticket], 'medium'],
    ['sending mail', [read, mail], 'high'],
    ['sending mail twice is one reason', [mail, mail], 'high'],
    ['sending mail and messages', [mail, chat], 'critical'],
    ['sending confidential data', [{ ...mail, labels: ['confidential'] }], 'critical'],
    ['commenting with personal data', [{ ...mail, risk: 'medium', labels: ['pii'] }], 'critical'],
    ['reading with confidential inputs', [{ ...read, labels: ['confidential'] }], 'medium'],
    ['sending internal data', [{ ...mail, labels: ['internal'] }], 'high'],
  ] as const)('%s', (_, tools, level) => {
    const risk = assessRisk(tools as readonly RiskyTool[])
    expect(risk.level).toBe(level)
    expect(risk.reasons.length > 0).toBe(level !== 'low')
  })

  test('the most serious reason comes first, and none twice', () => {
    const risk = assessRisk([read, mail, { ...mail, labels: ['pii'] }, read])
    expect(risk.reasons).toEqual([
      '`mail_send` sends pii data out',
      '`mail_send` delivers content to people or places',
      '`docs_read` reads company data',
    ])
  })

  test('levels compare', () => {
    expect(isAtLeast('high', 'medium')).toBe(true)
    expect(isAtLeast('high', 'high')).toBe(true)
    expect(isAtLeast('medium', 'critical')).toBe(false)
  })
})
