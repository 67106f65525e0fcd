import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import { OutcomeUnknown, ToolError } from '../../../src/activities/tools/executor.ts'
import { messageIdOf } from '../../../src/activities/tools/mail-message.ts'
import { sendMail } from '../../../src/activities/tools/mail-send.ts'
import { startSmtpSink, type SinkBehaviour, type SmtpSink } from '../../support/smtp-sink.ts'
import { rejection, toolCall, toolContext } from './call.ts'

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

describe('mail_send', () => {
  test('delivers once, to everybody, with a stable Message-ID, after the point of no return', async () => {
    const ctx = context()
    const result = await sendMail(
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

  // Per row: the outcome of the call, the number of times the point of no return was passed, and the number of
  // deliveries.
  const matrix: [string, SinkBehaviour, 'ok' | 'retry' | 'final' | 'unknown', number, number, string][] = [
    ['accepts', { kind: 'accept' }, 'ok', 1, 1, ''],
    ['takes the mail and cuts the connection', { kind: 'drop', taken: true }, 'unknown', 1, 1, ''],
    ['loses the mail and cuts the connection', { kind: 'drop', taken: false }, 'unknown', 1, 0, ''],
    [
      'is closing at the greeting',
      { kind: 'refuse', at: 'connect', code: 421 },
      'retry',
      0,
      0,
      'mail_refused',
    ],
    ['refuses the greeting', { kind: 'refuse', at: 'connect', code: 554 }, 'final', 0, 0, 'mail_refused'],
    ['defers the sender', { kind: 'refuse', at: 'mail', code: 451 }, 'retry', 0, 0, 'mail_refused'],
    ['refuses the sender', { kind: 'refuse', at: 'mail', code: 550 }, 'final', 0, 0, 'mail_refused'],
    ['closes at the sender', { kind: 'refuse', at: 'mail', code: 421 }, 'retry', 0, 0, 'mail_refused'],
    [
      'defers all recipients',
      { kind: 'refuse', at: 'rcpt', code: 450 },
      'retry',
      0,
      0,
      'mail_recipients_refused',
    ],
    [
      'refuses all recipients',
      { kind: 'refuse', at: 'rcpt', code: 550 },
      'final',
      0,
      0,
      'mail_recipients_refused',
    ],
    [
      'defers one recipient',
      { kind: 'refuse', at: 'rcpt', code: 450, only: 'b@larkspur.example' },
      'retry',
      0,
      0,
      'mail_recipients_refused',
    ],
    [
      'refuses one recipient',
      { kind: 'refuse', at: 'rcpt', code: 550, only: 'b@larkspur.example' },
      'final',
      0,
      0,
      'mail_recipients_refused',
    ],
    ['refuses DATA', { kind: 'refuse', at: 'data', code: 500 }, 'final', 0, 0, 'mail_refused'],
    ['defers the message', { kind: 'refuse', at: 'dot', code: 451 }, 'retry', 1, 0, 'mail_refused'],
    ['refuses the message', { kind: 'refuse', at: 'dot', code: 554 }, 'final', 1, 0, 'mail_refused'],
    ['closes at the message', { kind: 'refuse', at: 'dot', code: 421 }, 'retry', 1, 0, 'mail_refused'],
  ]
  test.each(matrix)('the server %s', async (_, behaviour, kind, marks, deliveries, code) => {
    sink.behaviour = behaviour
    const ctx = context()
    const outcome: unknown = await sendMail(toolCall(params), ctx).catch((error: unknown) => error)
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
    sink.behaviour = { kind: 'refuse', at: 'rcpt', code: 550, only: 'b@larkspur.example' }
    const error = await rejection(sendMail(toolCall(params), context()))
    expect((error as Error).message).toContain('refused 1 of 2 recipients (answer 550)')
  })

  test('a server that does not listen makes the call retryable', async () => {
    await sink.close()
    const ctx = context()
    expect(await rejection(sendMail(toolCall(params), ctx))).toMatchObject({
      code: 'mail_unreachable',
      retryable: true,
    })
    expect(ctx.marks).toBe(0)
  })

  test('without a server the call fails', async () => {
    const error = await rejection(sendMail(toolCall(params), toolContext()))
    expect(error).toMatchObject({ code: 'mail_not_configured', retryable: false })
    expect((error as Error).message).toContain('SMTP_URL')
  })

  test('a large message arrives whole', async () => {
    const text = `${'x'.repeat(70)}\n..\n`.repeat(13_000)
    await sendMail(toolCall({ ...params, text }), context())
    expect(sink.deliveries[0]!.raw).toContain(text.replaceAll('\n', '\r\n'))
  })
})
