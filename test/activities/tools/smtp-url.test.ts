import { describe, expect, test } from '@jest/globals'
import { parseSmtpUrl } from '../../../src/activities/tools/smtp-url.ts'

describe('parseSmtpUrl', () => {
  test('the usual forms', () => {
    expect(parseSmtpUrl('smtp://mail.example')).toMatchObject({
      login: null,
      options: {
        host: 'mail.example',
        port: 587,
        secure: false,
        requireTLS: false,
        tls: { rejectUnauthorized: true },
      },
    })
    expect(parseSmtpUrl('smtps://us%40er:p%3Aw@mail.example')).toMatchObject({
      login: { user: 'us@er', pass: 'p:w' },
      options: { port: 465, secure: true, requireTLS: false },
    })
    expect(parseSmtpUrl('smtp://[::1]:2525').options).toMatchObject({ host: '::1', port: 2525 })
    expect(
      parseSmtpUrl('smtp://h.example?requireTLS=true&tls.rejectUnauthorized=false&tls.servername=s&name=n')
        .options,
    ).toMatchObject({ requireTLS: true, name: 'n', tls: { rejectUnauthorized: false, servername: 's' } })
  })

  const tls: [string, boolean][] = [
    ['smtp://u:p@mail.example', true],
    ['smtp://u:p@mail.example?ignoreTLS=true', true],
    ['smtp://u:p@127.evil.example', true],
    ['smtp://u:p@localhost', false],
    ['smtp://u:p@127.0.0.1:2525', false],
    ['smtp://mail.example', false],
  ]
  test.each(tls)('a password is sent to another machine only over TLS: %s', (url, requireTLS) => {
    expect(parseSmtpUrl(url).options.requireTLS).toBe(requireTLS)
  })

  const refused = [
    null,
    '',
    'mail.example:25',
    'http://u:hunter2@mail.example',
    'smtp://',
    'smtp://u:hunter2@mail.example:99999',
    'smtp://u:hunter2%@mail.example',
    'smtp://u:hunter2@mail.example?logger=true',
    'smtp://u:hunter2@mail.example?requireTLS=maybe',
  ]
  test.each(refused)('refuses %s without repeating it', (url) => {
    let error: unknown
    try {
      parseSmtpUrl(url)
    } catch (thrown) {
      error = thrown
    }
    expect(error).toMatchObject({ name: 'ToolError', code: 'mail_not_configured', retryable: false })
    expect((error as Error).message).toContain('SMTP_URL')
    expect((error as Error).message).not.toContain('hunter2')
  })
})
