import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { afterEach, describe, expect, test } from '@jest/globals'
import { SMTPServer, type SMTPServerOptions } from 'smtp-server'
import { rejection, toolCall, toolContext } from './call.ts'
import { OutcomeUnknown, ToolError } from '../../src/tools/kit/executor.ts'
import type { Mail } from '../../src/tools/mail/message.ts'
import { run } from '../../src/tools/mail/run.ts'
import { parseSmtpUrl } from '../../src/tools/mail/smtp-url.ts'
import { defaultTimeouts, deliver, type SmtpHooks, type SmtpTimeouts } from '../../src/tools/mail/smtp.ts'

/** The server's answer to a command or to `dot`. null gives no answer; a function acts on the connection. */
type Script = Partial<Record<'greeting' | 'EHLO' | 'AUTH' | 'MAIL' | 'RCPT' | 'DATA' | 'dot', Line>>
type Line = string | null | ((socket: Socket) => void)

const usual = {
  greeting: '220 scripted',
  EHLO: '250 scripted',
  AUTH: '235 welcome',
  MAIL: '250 ok',
  RCPT: '250 ok',
  DATA: '354 go on',
  dot: '250 taken',
} as const

/** A mail server that answers exactly as scripted, even wrongly. The server checks no rules of SMTP. */
async function startScripted(script: Script) {
  const lines: Required<Script> = { ...usual, ...script }
  const sockets = new Set<Socket>()
  let received = ''
  let waiting: { text: string; resolve: () => void }[] = []

  const server = createServer((socket) => {
    sockets.add(socket)
    let unread = ''
    let inData = false
    const say = (line: Line) => {
      if (typeof line === 'function') line(socket)
      else if (line !== null) socket.write(`${line}\r\n`)
    }
    socket.on('error', () => {})
    socket.on('data', (chunk: Buffer) => {
      const text = chunk.toString('latin1')
      received += text
      unread += text
      for (const waiter of waiting.filter((entry) => received.includes(entry.text))) waiter.resolve()
      waiting = waiting.filter((entry) => !received.includes(entry.text))
      for (let end = unread.indexOf('\r\n'); end !== -1; end = unread.indexOf('\r\n')) {
        const line = unread.slice(0, end)
        unread = unread.slice(end + 2)
        if (inData && line !== '.') continue
        const command = inData ? 'dot' : (line.split(' ')[0] as keyof Script)
        inData = command === 'DATA' && lines.DATA !== null && String(lines.DATA).startsWith('354')
        say(lines[command] ?? null)
      }
    })
    say(lines.greeting)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `smtp://127.0.0.1:${(server.address() as AddressInfo).port}`,
    /** Everything that the client has sent. */
    received: () => received,
    /** Resolves once the client's input contains this text. */
    saw: async (text: string): Promise<void> => {
      if (!received.includes(text)) await new Promise<void>((resolve) => waiting.push({ text, resolve }))
    },
    close: async (): Promise<void> => {
      const closed = new Promise((resolve) => server.close(resolve))
      for (const socket of sockets) socket.destroy()
      await closed
    },
  }
}
type ScriptedServer = Awaited<ReturnType<typeof startScripted>>

const dot = '\r\n.\r\n'
const mail: Mail = {
  messageId: '<1@countersign>',
  from: 'a@x.example',
  recipients: ['b@x.example', 'c@x.example'],
  raw: Buffer.from('Subject: s\r\n\r\nlast line'),
}

let server: ScriptedServer
afterEach(() => server?.close())

/**
 * Starts the script and a delivery to it. By default the point of no return commits at once, and nothing is
 * cancelled.
 */
async function start(script: Script, hooks: Partial<SmtpHooks> = {}, timeouts: Partial<SmtpTimeouts> = {}) {
  server = await startScripted(script)
  let marks = 0
  const delivery = deliver(
    parseSmtpUrl(server.url),
    mail,
    {
      signal: new AbortController().signal,
      ...hooks,
      pointOfNoReturn: async () => {
        marks++
        await hooks.pointOfNoReturn?.()
      },
    },
    { ...defaultTimeouts, ...timeouts },
  )
  delivery.catch(() => {})
  return { delivery, marks: () => marks }
}

const withHooks = (hooks: Partial<SmtpHooks>) => start({}, hooks)

describe('the point of no return and the final dot', () => {
  test('the whole message is sent before the point of no return, the dot only after it', async () => {
    let atMark = ''
    const { delivery } = await withHooks({
      pointOfNoReturn: async () => {
        await server.saw('last line')
        // A dot that was sent too early would arrive before another connection has ended its whole round trip.
        await roundTrip(server)
        atMark = server.received()
      },
    })
    await delivery
    expect(atMark).toContain('last line')
    expect(atMark).not.toContain(dot)
    expect(server.received()).toContain(`last line${dot}`)
  })

  test('if the point of no return fails, no dot is sent and its error is passed on', async () => {
    const superseded = new Error('superseded')
    const { delivery } = await start({}, { pointOfNoReturn: () => Promise.reject(superseded) })
    expect(await rejection(delivery)).toBe(superseded)
    expect(superseded).toEqual(new Error('superseded'))
    await roundTrip(server)
    expect(server.received()).not.toContain(dot)
  })

  test('cancelled during the point of no return: waits for it, then sends no dot', async () => {
    const cancel = new AbortController()
    const reason = new Error('cancelled')
    let committed = false
    const { delivery } = await withHooks({
      signal: cancel.signal,
      pointOfNoReturn: async () => {
        cancel.abort(reason)
        await roundTrip(server)
        committed = true
      },
    })
    expect(await rejection(delivery)).toBe(reason)
    expect(committed).toBe(true)
    await roundTrip(server)
    expect(server.received()).not.toContain(dot)
  })

  const commands = ['EHLO', 'MAIL', 'DATA'] as const
  test.each(commands)('cancelled while the server is silent at %s', async (command) => {
    const cancel = new AbortController()
    const reason = new Error('cancelled')
    const { delivery, marks } = await start({ [command]: null }, { signal: cancel.signal })
    await server.saw(command)
    cancel.abort(reason)
    expect(await rejection(delivery)).toBe(reason)
    expect(marks()).toBe(0)
  })

  test('cancelled before it begins: no connection', async () => {
    const reason = new Error('cancelled')
    const { delivery } = await start({}, { signal: AbortSignal.abort(reason) })
    expect(await rejection(delivery)).toBe(reason)
    expect(server.received()).toBe('')
  })

  test('cancelled after the dot: too late, the server’s answer decides', async () => {
    const cancel = new AbortController()
    const late: Line = (socket) => {
      cancel.abort(new Error('cancelled'))
      setImmediate(() => socket.write('250 taken\r\n'))
    }
    const { delivery } = await start({ dot: late }, { signal: cancel.signal })
    expect(await delivery).toEqual(['b@x.example', 'c@x.example'])
  })

  test('the connection breaks during the point of no return: certainly not sent', async () => {
    let cut = () => {}
    const goOn: Line = (socket) => {
      cut = () => socket.destroy()
      socket.write('354 go on\r\n')
    }
    const pointOfNoReturn = async () => (cut(), roundTrip(server))
    const { delivery } = await start({ DATA: goOn }, { pointOfNoReturn })
    expect(await rejection(delivery)).toMatchObject({ code: 'mail_unreachable', retryable: true })
    expect(server.received()).not.toContain(dot)
  })
})

describe('answers to the final dot', () => {
  const cases: [string, Script['dot'], 'unknown' | 'retry' | 'final'][] = [
    ['a deferral', '451 later', 'retry'],
    ['a refusal', '554 no', 'final'],
    ['a refusal of several lines', '554-no\r\n554 really', 'final'],
    ['an answer that is not SMTP', 'hello there', 'unknown'],
    ['a request to go on', '354 more', 'unknown'],
    ['half a refusal and a lost connection', (socket) => socket.end('554 n'), 'unknown'],
    ['half an acceptance and a lost connection', (socket) => socket.end('250 ta'), 'unknown'],
    ['a lost line', (socket) => socket.destroy(), 'unknown'],
    ['a reset', (socket) => socket.resetAndDestroy(), 'unknown'],
  ]
  test.each(cases)('%s', async (_, answer, kind) => {
    const { delivery, marks } = await start({ dot: answer! })
    const error = await rejection(delivery)
    if (kind === 'unknown') expect(error).toBeInstanceOf(OutcomeUnknown)
    else expect(error).toMatchObject({ name: 'ToolError', code: 'mail_refused', retryable: kind === 'retry' })
    expect(marks()).toBe(1)
  })

  test('no answer in time', async () => {
    const { delivery } = await start({ dot: null }, {}, { answer: 20 })
    expect(await rejection(delivery)).toBeInstanceOf(OutcomeUnknown)
  })
})

describe('before the final dot', () => {
  const cases: [string, Script, string, boolean][] = [
    ['hangs up instead of greeting', { greeting: (socket) => socket.end() }, 'mail_unreachable', true],
    ['hangs up at the sender', { MAIL: (socket) => socket.destroy() }, 'mail_unreachable', true],
    ['speaks another protocol', { greeting: 'SSH-2.0-x' }, 'mail_unreachable', true],
    ['defers DATA', { DATA: '451 later' }, 'mail_refused', true],
    ['refuses DATA', { DATA: '554 no' }, 'mail_refused', false],
    ['accepts a message that it has not got', { DATA: '354 go on\r\n250 taken' }, 'mail_unreachable', true],
    ['refuses a message that it has not got', { DATA: '354 go on\r\n552 too much' }, 'mail_refused', false],
    [
      'accepts fewer bytes than the message has',
      { EHLO: '250-scripted\r\n250 SIZE 10' },
      'mail_too_large',
      false,
    ],
  ]
  test.each(cases)('%s', async (_, script, code, retryable) => {
    // The point of no return commits only after an unexpected answer has had time to arrive.
    const { delivery } = await start(script, { pointOfNoReturn: () => roundTrip(server) })
    const error = await rejection(delivery)
    expect(error).toBeInstanceOf(ToolError)
    expect(error).toMatchObject({ code, retryable })
    expect(server.received()).not.toContain(dot)
  })

  const silences: [string, Script][] = [
    ['the greeting', { greeting: null }],
    ['the sender', { MAIL: null }],
    ['DATA', { DATA: null }],
    ['fails the TLS upgrade that it offered', { EHLO: '250-scripted\r\n250 STARTTLS' }],
  ]
  test.each(silences)('no answer to %s in time', async (_, script) => {
    const { delivery, marks } = await start(script, {}, { connect: 200, idle: 200 })
    expect(await rejection(delivery)).toMatchObject({ code: 'mail_timeout', retryable: true })
    expect(marks()).toBe(0)
  })

  test('with pipelining one refused recipient still stops the message', async () => {
    let recipients = 0
    const { delivery, marks } = await start({
      EHLO: '250-scripted\r\n250 PIPELINING',
      RCPT: (socket) => socket.write(++recipients === 1 ? '250 ok\r\n' : '550 c@x.example unknown\r\n'),
    })
    const error = await rejection(delivery)
    expect(error).toMatchObject({ code: 'mail_recipients_refused', retryable: false })
    expect(deepText(error)).not.toContain('x.example')
    expect(marks()).toBe(0)
    await roundTrip(server)
    expect(server.received()).not.toContain('last line')
  })

  test('a refused login leaves no trace of the password', async () => {
    server = await startScripted({ EHLO: '250-scripted\r\n250 AUTH PLAIN', AUTH: '535 hunter2 is wrong' })
    const url = server.url.replace('//', '//user:hunter2@')
    const error = await rejection(deliver(parseSmtpUrl(url), mail, idle))
    expect(error).toMatchObject({ code: 'mail_login_failed', retryable: false })
    expect(deepText(error)).not.toContain('hunter2')
  })

  test('SMTP_URL has a user, but the server offers no login', async () => {
    server = await startScripted({})
    const url = server.url.replace('//', '//user:secret@')
    expect(await rejection(deliver(parseSmtpUrl(url), mail, idle))).toMatchObject({
      code: 'mail_login_failed',
    })
    expect(server.received()).not.toContain('MAIL')
  })
})

const idle: SmtpHooks = { signal: new AbortController().signal, pointOfNoReturn: async () => {} }

/** Makes one whole exchange on another connection. After it, everything that was sent before has arrived. */
async function roundTrip(to: ScriptedServer): Promise<void> {
  const socket = connect(Number(new URL(to.url).port), '127.0.0.1')
  await once(socket, 'data')
  socket.destroy()
}

/** All text of an error and its causes. */
function deepText(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  return [error.message, error.stack, JSON.stringify(error), deepText(error.cause)].join('\n')
}

describe('secure connections', () => {
  /* The server package brings a self-signed certificate for `localhost`, which these tests use. */

  let server: SMTPServer
  let port: number
  let secured: boolean[]
  let users: unknown[]
  afterEach(() => new Promise<void>((resolve) => server.close(resolve)))

  async function start(options: SMTPServerOptions): Promise<void> {
    secured = []
    users = []
    server = new SMTPServer({
      authOptional: true,
      // Without this it warns on the console that its certificate is for tests.
      logger: false,
      disableReverseLookup: true,
      closeTimeout: 100,
      onAuth: (auth, _session, callback) => callback(null, { user: `${auth.username}:${auth.password}` }),
      onData: (stream, session, callback) => {
        secured.push(session.secure)
        users.push(session.user)
        stream.resume()
        stream.on('end', () => callback())
      },
      ...options,
    })
    server.on('error', () => {})
    server.listen(0, '127.0.0.1')
    await once(server.server, 'listening')
    port = (server.server.address() as AddressInfo).port
  }

  const send = async (smtpUrl: string) => {
    const context = toolContext({ smtpUrl })
    const outcome: unknown = await run.mail_send
      .body(toolCall({ to: 'a@x.com', subject: 's', text: 't' }), context)
      .catch((error: unknown) => error)
    return { outcome, marks: context.marks }
  }

  const kinds: [string, string, SMTPServerOptions][] = [
    ['from the start', 'smtps', { secure: true }],
    ['by STARTTLS', 'smtp', {}],
  ]
  test.each(kinds)('an untrusted certificate, %s: nothing is sent', async (_, scheme, options) => {
    await start(options)
    const { outcome, marks } = await send(`${scheme}://user:pass@127.0.0.1:${port}`)
    expect(outcome).toMatchObject({ name: 'ToolError', code: 'mail_tls_failed', retryable: false })
    expect(marks).toBe(0)
    expect(secured).toEqual([])
  })

  test.each(kinds)('accepted by setting, %s: mail and login are encrypted', async (_, scheme, options) => {
    await start(options)
    const { outcome } = await send(`${scheme}://user:p%40ss@127.0.0.1:${port}?tls.rejectUnauthorized=false`)
    expect(outcome).toHaveProperty('output')
    expect(secured).toEqual([true])
    expect(users).toEqual(['user:p@ss'])
  })

  test('TLS is required but not offered: nothing is sent', async () => {
    await start({ disabledCommands: ['STARTTLS'] })
    const { outcome, marks } = await send(`smtp://127.0.0.1:${port}?requireTLS=true`)
    expect(outcome).toMatchObject({ name: 'ToolError' })
    expect(marks).toBe(0)
    expect(secured).toEqual([])
  })

  test('a wrong password is not retryable', async () => {
    await start({ secure: true, onAuth: (_auth, _session, callback) => callback(new Error('no')) })
    const { outcome } = await send(`smtps://user:pass@127.0.0.1:${port}?tls.rejectUnauthorized=false`)
    expect(outcome).toMatchObject({ code: 'mail_login_failed', retryable: false })
  })
})

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

  const own = 'smtp://u:hunter2@mail.example'
  const wrong = [`${own}:99999`, `${own}?logger=true`, `${own}?requireTLS=maybe`, own.replace('@', '%@')]
  const others = [null, '', 'mail.example:25', 'http://u:hunter2@mail.example', 'smtp://']
  test.each([...others, ...wrong])('refuses %s without repeating it', (url) => {
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
