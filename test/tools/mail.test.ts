import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import * as fc from 'fast-check'
import { rejection, toolCall, toolContext } from './call.ts'
import { OutcomeUnknown, ToolError } from '../../src/tools/kit/executor.ts'
import {
  envelopeRecipients,
  parseMailbox,
  parseRecipients,
  refuseHeaderBreaks,
} from '../../src/tools/mail/addresses.ts'
import { composeMail, messageIdOf } from '../../src/tools/mail/message.ts'
import { run } from '../../src/tools/mail/run.ts'
import { Budget } from '../../src/policy/budget.ts'
import { fillInMe } from '../../src/policy/me.ts'
import { hostsIn } from '../../src/policy/readers/recipients.ts'
import { type SinkBehaviour, type SmtpSink, startSmtpSink } from '../support/smtp-sink.ts'

const addresses = (value: string | string[]) => parseRecipients('to', value).map((mailbox) => mailbox.address)

describe('parseRecipients', () => {
  const accepted: [string | string[], string[]][] = [
    ['a@x.com', ['a@x.com']],
    [' a@x.com ', ['a@x.com']],
    ['Name <a@x.com>', ['a@x.com']],
    ['"Doe, Jane; Dr." <a@x.com>', ['a@x.com']],
    ['"a@x.com" <a@x.com>', ['a@x.com']],
    ['<a@x.com>', ['a@x.com']],
    ['a@x.com, b@y.com', ['a@x.com', 'b@y.com']],
    ['a@x.com; b@y.com;', ['a@x.com', 'b@y.com']],
    [
      ['a@x.com, c@z.com', 'B <b@y.com>'],
      ['a@x.com', 'c@z.com', 'b@y.com'],
    ],
    ['a@x.com, A <a@X.com>', ['a@x.com']],
    ['a@X.COM', ['a@x.com']],
    ['a@bücher.example', ['a@xn--bcher-kva.example']],
    ["o'neil+tag@x-y.co.uk", ["o'neil+tag@x-y.co.uk"]],
    ['a/b=c?@x.com', ['a/b=c?@x.com']],
    ['Sales / Support <a@x.com>', ['a@x.com']],
    ['"a = b? and/or: c" <a@x.com>', ['a@x.com']],
    ['"ａ＠x.com" <a@x.com>', ['a@x.com']],
  ]
  test.each(accepted)('%j', (value, expected) => {
    expect(addresses(value)).toEqual(expected)
  })

  const x = 'a@x.com'
  const withoutHost = ['a', 'me', 'Me', 'a@', '@x.com', 'a@.com']
  const ofNoHost = ['a@x..com', 'a@x.com.', 'a@x。com', 'a@x.com%evil.com']
  const ofAddress = ['a@[127.0.0.1]', 'a@127.0.0.1', 'a@0x7f.1', 'a@2130706433']
  const ofNoPerson = [
    '.a@x.com',
    'a.@x.com',
    'a..b@x.com',
    'a b@x.com',
    '"a b"@x.com',
    `${'a'.repeat(250)}@x.com`,
  ]
  const ofTwo = [`${x} b@y.com`, 'a@x.com@y.com', '"a@x.com"@evil.com', `Name <b@y.com> <${x}>`]
  const withMore = ['a(comment)@x.com', `${x} (comment)`, `Group: ${x};`, `Name <${x}> trailing`]
  const half = [`Name <${x}`, `Name ${x}>`, `"open <${x}>`, `a"b <${x}>`, `<@route.com:${x}>`]
  const paths = ['//acme.com/b@evil.com', '//a@acme.com', '/a@acme.com', 'Ann </a@acme.com>']
  const likeAnother = ['boss@acme.com', '"boss@acme.com"', 'ceo＠acme.com', '"ceo﹫acme.com"']
  const inWideLetters = ['"ｃｅｏ＠x.com"', '"＝？utf-8?b?Y2VvQGFjbWUuY29t?="', '／／acme.com/']
  const encoded = ['=?utf-8?q?ceo=40acme.com?=', '"=?utf-8?b?Y2VvQGFjbWUuY29t?="']
  const links = ['"https://acme.com/"', '"https://acme.com/a, b"', '"see https://acme.com/"', '//acme.com/']
  const refusedItems = [
    ...[...withoutHost, ...ofNoHost, ...ofAddress, ...ofNoPerson, ...ofTwo, ...withMore, ...half, ...paths],
    ...[...likeAnother, ...inWideLetters, ...encoded, ...links].map((name) => `${name} <a@evil.com>`),
  ]
  test.each(refusedItems)('refuses %s, also in a list', (item) => {
    for (const value of [item, `ok@x.com, ${item}`, ['ok@x.com', item]]) {
      expect(() => addresses(value)).toThrow(
        expect.objectContaining({ code: 'mail_address_invalid', retryable: false }),
      )
    }
  })

  test('rules read the same hosts from the text, so no recipient escapes a domain rule', () => {
    const links = ['//', 'https://', 'http:', '//x.com/', 'https://x.com/']
    const words = ['a', 'B', '＠', 'x.com', 'evil.org', 'ü', 'me']
    const piece = fc.constantFrom(...words, ...links, ...`@ <>",;\\():.%'/?#=[]`.split(''))
    const noise = fc.array(piece, { maxLength: 8 }).map((pieces) => pieces.join(''))
    const address = fc.tuple(
      fc.constantFrom('a', "b'c", 'ü', 'a/b', '//x.com/a', '//a', 'a?b', 'a#', 'mailto', '%40'),
      fc.constantFrom('x.com', 'EVIL.org', 'bücher.de', 'y.x.com', 'intra'),
    )
    const plain = address.map((parts) => parts.join('@'))
    const named = fc.tuple(noise, plain).map(([name, at]) => `${name} <${at}>`)
    const quoted = fc.tuple(noise, plain).map(([name, at]) => `"${name.replaceAll(/["\\]/g, '')}" <${at}>`)
    const list = fc.array(fc.oneof(plain, named, quoted, noise), { minLength: 1, maxLength: 4 })
    let accepted = 0
    fc.assert(
      fc.property(list, fc.constantFrom(', ', ';', ' ,'), (items, separator) => {
        const written = items.join(separator)
        const { to: value } = fillInMe({ to: written }, ['to'], 'ann@larkspur.example') as { to: string }
        let sent: string[]
        try {
          sent = addresses(value)
        } catch {
          return
        }
        accepted++
        const seen = hostsIn(value, new Budget())
        for (const address of sent) {
          const host = address.slice(address.indexOf('@') + 1)
          // Rules read a host without a dot as null, which is outside every domain.
          expect(seen).toContain(host.includes('.') ? host : null)
        }
      }),
      { numRuns: 10_000 },
    )
    expect(accepted).toBeGreaterThan(500)
  })

  test('a hostile list is refused quickly', () => {
    const hostile = ['"\\'.repeat(16_000), 'a '.repeat(16_000), '<'.repeat(32_000), 'a.'.repeat(16_000)]
    for (const value of hostile) expect(() => addresses(value)).toThrow(ToolError)
  })
})

describe('header injection', () => {
  const controls = ['\n', '\r', '\0', '\x0b', '\x0c', '\x1b', '\x7f', '\x85', '\u2028', '\u2029']
  test.each(['\r\nBcc: x@evil.com', ...controls])('%j is refused everywhere', (text) => {
    const values = [
      `a@x.com${text}`,
      `${text}a@x.com`,
      `Na${text}me <a@x.com>`,
      `"Na${text}me" <a@x.com>`,
      `a@x${text}.com`,
    ]
    for (const value of values) {
      const refusal = expect.objectContaining({ code: 'mail_header_invalid', retryable: false })
      expect(() => addresses(value)).toThrow(refusal)
      expect(() => addresses(['ok@x.com', value])).toThrow(refusal)
    }
    expect(() => refuseHeaderBreaks('subject', `Hello${text}`)).toThrow(
      expect.objectContaining({ message: expect.not.stringContaining('Hello') }),
    )
  })
})

describe('parseMailbox', () => {
  test('keeps the name', () => {
    expect(parseMailbox('to', 'Jane Doe <a@x.com>')).toEqual({ name: 'Jane Doe', address: 'a@x.com' })
    expect(parseMailbox('to', String.raw`"J \"Doe\" \\" <a@x.com>`)).toEqual({
      name: 'J "Doe" \\',
      address: 'a@x.com',
    })
  })
})

describe('envelopeRecipients', () => {
  const boxes = (count: number, from = 0) =>
    Array.from({ length: count }, (_, index) => ({ name: '', address: `a${from + index}@x.com` }))

  test('each address once', () => {
    expect(envelopeRecipients(boxes(2), boxes(2, 1))).toEqual(['a0@x.com', 'a1@x.com', 'a2@x.com'])
  })
  test('at most a hundred', () => {
    expect(envelopeRecipients(boxes(60), boxes(40, 60))).toHaveLength(100)
    expect(() => envelopeRecipients(boxes(60), boxes(41, 60))).toThrow(
      expect.objectContaining({ code: 'mail_too_many_recipients' }),
    )
  })
  test('`to` needs at least one recipient', () => {
    expect(() => envelopeRecipients([], boxes(1))).toThrow(
      expect.objectContaining({ code: 'mail_address_invalid' }),
    )
  })
})

const params = { to: 'a@x.com', subject: 'Hello', text: 'Text' }
const from = 'Countersign <c@larkspur.example>'
const headers = (raw: Buffer) => raw.toString().split('\r\n\r\n')[0]!

describe('composeMail', () => {
  test('the Message-ID is the same for all attempts of a call, and differs between calls', async () => {
    const [first, again, other] = await Promise.all([
      composeMail(toolCall(params), from),
      composeMail(toolCall(params), from),
      composeMail(toolCall(params, { idempotencyKey: 'run_1/step/1' }), from),
    ])
    expect(first.messageId).toMatch(/^<[0-9a-f]{40}@countersign>$/)
    expect(again.messageId).toBe(first.messageId)
    expect(other.messageId).not.toBe(first.messageId)
    expect(headers(first.raw)).toContain(`Message-ID: ${first.messageId}`)
    expect(messageIdOf('run_1/step/')).not.toContain('run_1')
  })

  test('bcc is only in the envelope', async () => {
    const mail = await composeMail(toolCall({ ...params, cc: 'b@x.com', bcc: 'hidden@x.com' }), from)
    expect(mail.recipients).toEqual(['a@x.com', 'b@x.com', 'hidden@x.com'])
    expect(mail.raw.toString()).not.toContain('hidden')
  })

  test('names and subjects beyond ASCII are encoded and show no second address', async () => {
    const call = toolCall({ ...params, to: '"Ünal, <Bo>" <a@x.com>', subject: 'Grüße €' })
    const mail = await composeMail(call, from)
    expect(headers(mail.raw)).toMatch(/^[\x20-\x7e\r\n]*$/)
    expect(headers(mail.raw)).toMatch(/^To: =\?UTF-8\?.*\?= <a@x\.com>$/m)
  })

  test('text that looks like a file or a URL is sent unchanged', async () => {
    const call = toolCall({ ...params, text: 'file:///etc/passwd', html: 'http://x.example/' })
    const mail = await composeMail(call, from)
    expect(mail.raw.toString()).toContain('file:///etc/passwd')
    expect(mail.raw.toString()).toContain('http://x.example/')
  })

  test.each(['subject', 'to', 'cc', 'bcc'])('a line break in %s', async (field) => {
    const call = toolCall({ ...params, [field]: 'a@x.com\r\nX-Evil: 1' })
    const error = await rejection(composeMail(call, from))
    expect(error).toMatchObject({ code: 'mail_header_invalid' })
    expect((error as Error).message).toContain(`\`${field}\``)
  })

  const encodedSubjects = ['=?utf-8?q?the_c=6Fnfidential_x?=', 'x =?UTF-8?B?Y29uZmlkZW50aWFs?= y']
  test.each(encodedSubjects)('a subject with an encoded word: %j', async (subject) => {
    const error = await rejection(composeMail(toolCall({ ...params, subject }), from))
    expect(error).toMatchObject({ code: 'mail_header_invalid', retryable: false })
  })

  test('a subject with plain question marks is accepted', async () => {
    const mail = await composeMail(toolCall({ ...params, subject: 'a=?b? really?=' }), from)
    expect(headers(mail.raw)).toContain('Subject: a=?b? really?=')
  })

  const wrongSenders = ['', 'nobody', 'a@x.com, b@x.com', 'a@x.com\r\nBcc: b@x.com']
  test.each(wrongSenders)('MAIL_FROM %j', async (mailFrom) => {
    const error = await rejection(composeMail(toolCall(params), mailFrom))
    expect(error).toMatchObject({ code: 'mail_not_configured', retryable: false })
    expect((error as Error).message).toContain('MAIL_FROM')
  })
})

describe('mail_send', () => {
  let sink: SmtpSink
  beforeEach(async () => {
    sink = await startSmtpSink()
  })
  afterEach(() => sink.close())

  const params = {
    to: ['a@larkspur.example', 'b@larkspur.example'],
    subject: 'Q3',
    text: 'The figures.\n.\nRegards',
  }
  const context = (over: Parameters<typeof toolContext>[1] = {}) => toolContext({ smtpUrl: sink.url }, over)

  test('delivers once, to everybody, with a stable Message-ID, after the point of no return', async () => {
    const ctx = context()
    const result = await run.mail_send.body(
      toolCall({
        ...params,
        cc: 'requester@larkspur.example',
        bcc: 'Zoë <z@larkspur.example>; b@larkspur.example',
        html: '<p>The figures.',
      }),
      ctx,
    )
    const recipients = [...params.to, 'requester@larkspur.example', 'z@larkspur.example']
    expect(result.output).toEqual({ message_id: messageIdOf('run_1/step/'), accepted: recipients })
    expect(ctx.marks).toBe(1)
    expect(sink.count(messageIdOf('run_1/step/'))).toBe(1)
    const [mail] = sink.deliveries
    expect(mail).toMatchObject({ from: 'countersign@larkspur.example', recipients, subject: 'Q3' })
    expect(mail!.raw).toContain('From: Countersign <countersign@larkspur.example>\r\n')
    expect(mail!.raw).toContain('The figures.\r\n.\r\nRegards\r\n')
    expect(mail!.raw).not.toContain('z@larkspur.example')
  })

  const refuse = (
    at: 'connect' | 'mail' | 'rcpt' | 'data' | 'dot',
    code: number,
    only?: string,
  ): SinkBehaviour => {
    return { kind: 'refuse', at, code, ...(only !== undefined && { only }) }
  }
  const one = 'b@larkspur.example'
  const all = 'mail_recipients_refused'
  // Per row: the outcome of the call, the number of times the point of no return was passed, and the number of
  // deliveries.
  const matrix: [string, SinkBehaviour, 'ok' | 'retry' | 'final' | 'unknown', number, number, string?][] = [
    ['accepts', { kind: 'accept' }, 'ok', 1, 1],
    ['takes the mail and cuts the connection', { kind: 'drop', taken: true }, 'unknown', 1, 1],
    ['loses the mail and cuts the connection', { kind: 'drop', taken: false }, 'unknown', 1, 0],
    ['is closing at the greeting', refuse('connect', 421), 'retry', 0, 0],
    ['refuses the greeting', refuse('connect', 554), 'final', 0, 0],
    ['defers the sender', refuse('mail', 451), 'retry', 0, 0],
    ['refuses the sender', refuse('mail', 550), 'final', 0, 0],
    ['closes at the sender', refuse('mail', 421), 'retry', 0, 0],
    ['defers all recipients', refuse('rcpt', 450), 'retry', 0, 0, all],
    ['refuses all recipients', refuse('rcpt', 550), 'final', 0, 0, all],
    ['defers one recipient', refuse('rcpt', 450, one), 'retry', 0, 0, all],
    ['refuses one recipient', refuse('rcpt', 550, one), 'final', 0, 0, all],
    ['refuses DATA', refuse('data', 500), 'final', 0, 0],
    ['defers the message', refuse('dot', 451), 'retry', 1, 0],
    ['refuses the message', refuse('dot', 554), 'final', 1, 0],
    ['closes at the message', refuse('dot', 421), 'retry', 1, 0],
  ]
  test.each(matrix)('the server %s', async (_, behaviour, kind, marks, deliveries, code = 'mail_refused') => {
    sink.behaviour = behaviour
    const ctx = context()
    const outcome: unknown = await run.mail_send.body(toolCall(params), ctx).catch((error: unknown) => error)
    if (kind === 'ok') expect(outcome).toHaveProperty('output')
    else if (kind === 'unknown') expect(outcome).toBeInstanceOf(OutcomeUnknown)
    else {
      expect(outcome).toBeInstanceOf(ToolError)
      expect(outcome).toMatchObject({ code, retryable: kind === 'retry' })
      expect((outcome as Error).message).not.toMatch(/larkspur|figures/)
    }
    expect(ctx.marks).toBe(marks)
    expect(sink.dots).toBe(marks)
    expect(sink.deliveries).toHaveLength(deliveries)
  })

  test('the error names the number of refused recipients and the answer, but no address', async () => {
    sink.behaviour = refuse('rcpt', 550, one)
    const error = await rejection(run.mail_send.body(toolCall(params), context()))
    expect((error as Error).message).toContain('refused 1 of 2 recipients (answer 550)')
  })

  test('a server that does not listen makes the call retryable', async () => {
    await sink.close()
    const ctx = context()
    expect(await rejection(run.mail_send.body(toolCall(params), ctx))).toMatchObject({
      code: 'mail_unreachable',
      retryable: true,
    })
    expect(ctx.marks).toBe(0)
  })

  test('without a server the call fails', async () => {
    const error = await rejection(run.mail_send.body(toolCall(params), toolContext()))
    expect(error).toMatchObject({ code: 'mail_not_configured', retryable: false })
    expect((error as Error).message).toContain('SMTP_URL')
  })

  test('a large message arrives whole', async () => {
    const text = `${'x'.repeat(70)}\n..\n`.repeat(13_000)
    await run.mail_send.body(toolCall({ ...params, text }), context())
    expect(sink.deliveries[0]!.raw).toContain(text.replaceAll('\n', '\r\n'))
  })
})
