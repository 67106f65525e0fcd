import { expect, test } from '@jest/globals'
import fc from 'fast-check'
import { invitationMail, resetMail, signUpAgainMail, verifyMail } from '../../src/api/auth-mails.ts'
import { mailAbout } from '../../src/governance/notifications/mail-text.ts'
import type { Subject } from '../../src/governance/notifications/subjects.ts'
import { MailText, mailText, type ServiceMail } from '../../src/governance/service-mail.ts'
import { readSettings } from '../../src/policy/settings.ts'

const base = 'https://countersign.test'
/** The only links that a mail may have. */
const ownLink = /https:\/\/countersign\.test\/[\w/?=.-]*/g
const ownTime = /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z/g

/** What mail programs make links of, as generously as the most generous of them. */
const linkers: Readonly<Record<string, RegExp>> = {
  'a scheme': /\p{L}[\w+.-]*[:：﹕][^\s”]/u,
  'a host': /[\p{L}\p{N}][.。．｡․﹒][\p{L}\p{N}]/u,
  'an address': /\S[@＠﹫][^\s\]]/u,
  'a network path': /(?:\/\/|\\\\)[\p{L}\p{N}]/u,
  'a telephone number': /\p{Nd}(?:[ ().-]?\p{Nd}){6}/u,
  'a bracketed link': /<\S+>/,
}

const found = (text: string): string[] =>
  Object.entries(linkers).flatMap(([name, linker]) => (linker.test(text) ? [`${name} in ${text}`] : []))

const hostile = [
  'http://evil.example/login',
  'Please sign in again: http://evil.example/login',
  'hxxp://evil.example www.evil.example evil.example/pay',
  'evil。example evil．example evil․example xn--80ak6aa92e.com аррӏе.com',
  'e\u200Bvil.ex\u00ADample ｅｖｉｌ．ｅｘａｍｐｌｅ http：／／evil',
  'ann@evil.example ann＠evil.example mailto:ann@evil tel:+19005550100',
  'call +1 (900) 555-0100 or 0900 5550100 now',
  '\\\\evil\\share //evil/share <evil.example> <a href="http://evil.example">x</a>',
  'x”\r\nSubject: You won\r\n\r\nhttps://evil.example',
  '\u202Eelpmaxe.live//:ptth',
  `${'a'.repeat(500)}.example`,
  'https:evil.example javascript:alert(1) data:text/html,x',
  '1.2.3.4 [::1] 0x7f.1',
]

const subjectWith = (text: string, over: Partial<Subject> = {}): Subject => ({
  kind: 'approval',
  id: 'apr_1',
  round: 0,
  asks: 'agent_call',
  state: 'waits',
  changesRequested: false,
  runId: 'run_1',
  stepId: text,
  itemIndex: null,
  itemCount: null,
  sessionId: 'ses_1',
  destination: null,
  authors: [],
  tool: text,
  workflowName: text,
  agentName: text,
  ruleName: text,
  labels: [text],
  risk: { level: 'high', reasons: [`\`${text}\` sends pii data out`] },
  requestedBy: 'usr_1',
  requesterEmail: text,
  approver: 'admin',
  approvalsNeeded: 2,
  votes: [],
  createdAt: new Date(0),
  expiresAt: new Date(1e12),
  decidedBy: [],
  path: '/console/approvals/apr_1',
  ...over,
})

/** Every mail of the service, with this text in each of its slots. */
function everyMail(text: string): Omit<ServiceMail, 'to'>[] {
  const about = [
    subjectWith(text),
    subjectWith(text, { asks: 'run' }),
    subjectWith(text, { asks: 'step' }),
    subjectWith(text, { kind: 'call', asks: 'resolution' }),
  ].flatMap((subject) =>
    [false, true].flatMap((isReminder) =>
      [1, 2, 3].map((count) => mailAbout(subject, { count, isReminder, base, settings: readSettings({}) })),
    ),
  )
  return [
    verifyMail(base, 'token'),
    signUpAgainMail(base),
    resetMail(base, 'token'),
    invitationMail(base, 'token', { organization: text, role: 'viewer', inviter: text }),
    invitationMail(base, 'token', { organization: null, role: 'viewer', inviter: text }),
    ...about,
  ]
}

test.each(hostile)('no mail has a link, a line or a subject of %j', (text) => {
  for (const [index, { subject, text: body }] of everyMail(text).entries()) {
    expect(subject).toBe(everyMail('plain')[index]?.subject)
    const { plain } = body
    expect(found(plain.replaceAll(ownLink, '').replaceAll(ownTime, ''))).toEqual([])
    expect(plain).not.toMatch(/[^\P{Cc}\n]|[\u202a-\u202e]/u)
    expect(plain.split('\n')).toHaveLength(everyMail('plain')[index]?.text.plain.split('\n').length ?? 0)
    for (const line of plain.split('\n')) expect(line.length).toBeLessThan(1_500)
  }
})

test('no text becomes a link, however its parts are put together', () => {
  const parts = [
    ...[
      'evil',
      '.',
      'example',
      'com',
      'www',
      'http',
      ':',
      '/',
      '//',
      '\\',
      '@',
      '。',
      '．',
      '｡',
      '․',
      '：',
      '＠',
    ],
    ...[
      '\u200B',
      '\u00AD',
      '\u2060',
      '<',
      '>',
      '"',
      '”',
      '+1',
      '900',
      '5550100',
      ' ',
      '\n',
      '\u202E',
      'а',
      '[',
      ']',
      '(',
      ')',
    ],
    ...['mailto', 'U+', '…', '`', 'é', 'א'],
  ]
  const text = fc
    .array(fc.constantFrom(...parts), { minLength: 1, maxLength: 12 })
    .map((each) => each.join(''))
  fc.assert(
    fc.property(text, (value) => {
      const { plain } = mailText`Workflow: ${value}`
      expect(found(plain.slice('Workflow: '.length))).toEqual([])
      expect(plain.split('“')).toHaveLength(2)
      expect(plain.split('”')).toHaveLength(2)
      expect(plain).not.toContain('\n')
    }),
    { numRuns: 5_000, seed: 20_261_129 },
  )
})

test('a name stays readable, and a confirmed address stays as it is', () => {
  expect(mailText`${'Order 66 of Acme Inc.'}`.plain).toBe('“Order 66 of Acme Inc.”')
  expect(mailText`${'Release 1.2 of acme.com on 2026-11-29'}`.plain).toBe(
    '“Release 1[.]2 of acme[.]com on 2026-11-29”',
  )
  expect(MailText.address('ann.lee@acme.org').plain).toBe('ann.lee@acme.org')
  expect(MailText.address('www.evil.example@acme.org').plain).toBe('“www[.]evil[.]example[@]acme[.]org”')
  expect(MailText.address('evil.com@acme.org').plain).toBe('“evil[.]com[@]acme[.]org”')
  expect(MailText.address('ann@аcme.org').plain).toContain('[xn--cme-5cd[.]org')
})
