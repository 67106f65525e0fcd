import { describe, expect, test } from '@jest/globals'
import { composeMail, messageIdOf } from '../../../src/activities/tools/mail-message.ts'
import { rejection, toolCall } from './call.ts'

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
    const mail = await composeMail(
      toolCall({ ...params, to: '"Ünal, <Bo>" <a@x.com>', subject: 'Grüße €' }),
      from,
    )
    expect(headers(mail.raw)).toMatch(/^[\x20-\x7e\r\n]*$/)
    expect(headers(mail.raw)).toMatch(/^To: =\?UTF-8\?.*\?= <a@x\.com>$/m)
  })

  test('text that looks like a file or a URL is sent unchanged', async () => {
    const mail = await composeMail(
      toolCall({ ...params, text: 'file:///etc/passwd', html: 'http://x.example/' }),
      from,
    )
    expect(mail.raw.toString()).toContain('file:///etc/passwd')
    expect(mail.raw.toString()).toContain('http://x.example/')
  })

  test.each(['subject', 'to', 'cc', 'bcc'])('a line break in %s', async (field) => {
    const call = toolCall({ ...params, [field]: 'a@x.com\r\nX-Evil: 1' })
    const error = await rejection(composeMail(call, from))
    expect(error).toMatchObject({ code: 'mail_header_invalid' })
    expect((error as Error).message).toContain(`\`${field}\``)
  })

  test.each(['=?utf-8?q?the_c=6Fnfidential_x?=', 'x =?UTF-8?B?Y29uZmlkZW50aWFs?= y'])(
    'a subject with an encoded word: %j',
    async (subject) => {
      const error = await rejection(composeMail(toolCall({ ...params, subject }), from))
      expect(error).toMatchObject({ code: 'mail_header_invalid', retryable: false })
    },
  )

  test('a subject with plain question marks is accepted', async () => {
    const mail = await composeMail(toolCall({ ...params, subject: 'a=?b? really?=' }), from)
    expect(headers(mail.raw)).toContain('Subject: a=?b? really?=')
  })

  test.each(['', 'nobody', 'a@x.com, b@x.com', 'a@x.com\r\nBcc: b@x.com'])(
    'MAIL_FROM %j',
    async (mailFrom) => {
      const error = await rejection(composeMail(toolCall(params), mailFrom))
      expect(error).toMatchObject({ code: 'mail_not_configured', retryable: false })
      expect((error as Error).message).toContain('MAIL_FROM')
    },
  )
})
