import { Readable } from 'node:stream'
import SMTPConnection, { type SMTPEnvelope } from 'nodemailer/lib/smtp-connection'
import { OutcomeUnknown, ToolError } from '../kit/executor.ts'
import type { Mail } from './message.ts'
import type { SmtpServer } from './smtp-url.ts'

/** In milliseconds, each shorter than the tool's own limit. */
export interface SmtpTimeouts {
  /** Each of name lookup, connection and greeting. */
  readonly connect: number
  /** Silence before the final dot. */
  readonly idle: number
  /** After the final dot. */
  readonly answer: number
}
export const defaultTimeouts: SmtpTimeouts = { connect: 20_000, idle: 60_000, answer: 60_000 }

export interface SmtpHooks {
  readonly signal: AbortSignal
  /** Awaited before the final dot, after everything else has left. */
  pointOfNoReturn(): Promise<void>
}

/*
 * A delivery settles once.
 * - `before`: nothing can have been delivered, because the server discards a message without its end. An error closes
 *   the connection, and the message stream never ends, so no dot can follow.
 * - `marking`: `pointOfNoReturn` is committing.
 * - `after`: from immediately before the stream ends, in the same turn of the event loop. Only the server's answer
 *   tells the outcome; lost or late, it is OutcomeUnknown. Cancelling has no effect.
 * nodemailer writes the final dot, which ends a message, only when the stream ends, so this code delays its end.
 */

/**
 * To all recipients or none, over an own connection. Throws ToolError if the message was certainly not accepted
 * (retryable if a later try may succeed), OutcomeUnknown if the dot may have left and no answer came, and, before the
 * dot, the error of `pointOfNoReturn` or the signal's reason.
 */
export async function deliver(
  server: SmtpServer,
  mail: Mail,
  hooks: SmtpHooks,
  timeouts: SmtpTimeouts = defaultTimeouts,
): Promise<string[]> {
  hooks.signal.throwIfAborted()
  const connection = new SMTPConnection({
    ...server.options,
    connectionTimeout: timeouts.connect,
    greetingTimeout: timeouts.connect,
    dnsTimeout: timeouts.connect,
    socketTimeout: timeouts.idle,
    // Closed at once, so that bytes in its buffers are dropped, and do not leave later.
    socketCloseTimeout: 0,
    // The dialogue contains addresses and the message.
    logger: false,
    debug: false,
    transactionLog: false,
  })
  // Without a listener it would end the process.
  connection.on('error', () => {})
  try {
    await open(connection, server, hooks.signal)
    const accepted = await new Transmission(connection, mail, hooks, timeouts).run()
    connection.quit()
    return accepted
  } finally {
    connection.close()
  }
}

async function open(connection: SMTPConnection, server: SmtpServer, signal: AbortSignal): Promise<void> {
  await step(connection, signal, (done) => connection.connect(done))
  const { login } = server
  if (login === null) return
  if (!connection.allowsAuth) {
    throw new ToolError('mail_login_failed', 'the mail server offers no login; remove the user from SMTP_URL')
  }
  await step(connection, signal, (done) => connection.login({ ...login }, done))
}

/** One exchange before the message, until `done`, a broken connection or the signal. */
async function step(
  connection: SMTPConnection,
  signal: AbortSignal,
  act: (done: (error?: unknown) => void) => void,
): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const unwatch = watch(connection, signal, (error) => reject(failureBeforeDot(error)), reject)
  try {
    act((error) => (error ? reject(failureBeforeDot(error)) : resolve()))
    await promise
  } finally {
    unwatch()
  }
}

/** All bytes of the message leave before the point of no return, the final dot after it. */
class Transmission {
  readonly #connection: SMTPConnection
  readonly #recipients: number
  readonly #hooks: SmtpHooks
  readonly #answerMilliseconds: number
  /** nodemailer writes whom the server has accepted or refused, before it reads the message. */
  readonly #envelope: SMTPEnvelope & { accepted?: string[]; rejectedErrors?: SmtpFailure[] }
  readonly #message: Readable
  readonly #settled = Promise.withResolvers<string[]>()
  #phase: 'before' | 'marking' | 'after' | 'settled' = 'before'
  /** What broke the delivery while the point of no return was being saved. */
  #brokenWhileMarking: { readonly error: unknown } | null = null
  #answerTimer: NodeJS.Timeout | undefined

  constructor(connection: SMTPConnection, mail: Mail, hooks: SmtpHooks, { answer }: SmtpTimeouts) {
    this.#connection = connection
    this.#recipients = mail.recipients.length
    this.#hooks = hooks
    this.#answerMilliseconds = answer
    this.#envelope = { from: mail.from, to: [...mail.recipients], size: mail.raw.length }
    const whole = [mail.raw]
    this.#message = new Readable({ read: () => this.#give(whole.shift()) })
  }

  async run(): Promise<string[]> {
    const cancelled = (reason: unknown): void => {
      if (this.#phase === 'before') this.#fail(reason)
    }
    const unwatch = watch(this.#connection, this.#hooks.signal, (cause) => this.#lost(cause), cancelled)
    try {
      this.#connection.send(this.#envelope, this.#message, (error, info) => {
        if (error) return this.#lost(error)
        if (this.#phase !== 'after') return this.#lost(new Error('an unexpected answer'))
        this.#phase = 'settled'
        this.#settled.resolve(info.accepted)
      })
      return await this.#settled.promise
    } finally {
      clearTimeout(this.#answerTimer)
      unwatch()
    }
  }

  /** `whole` is undefined when nodemailer has got it, and waits for the end of the stream. */
  #give(whole: Buffer | undefined): void {
    if (whole === undefined) {
      if (this.#phase === 'before') void this.#finish()
      return
    }
    const { accepted = [], rejectedErrors = [] } = this.#envelope
    // Only if the server has accepted every recipient.
    if (accepted.length === this.#recipients) this.#message.push(whole)
    else this.#fail(recipientsRefused(rejectedErrors, this.#recipients))
  }

  async #finish(): Promise<void> {
    this.#phase = 'marking'
    let stop: { readonly error: unknown } | null = null
    try {
      await this.#hooks.pointOfNoReturn()
      this.#hooks.signal.throwIfAborted()
    } catch (error) {
      stop = { error }
    }
    stop ??= this.#brokenWhileMarking
    this.#phase = 'before'
    if (stop !== null) return this.#fail(stop.error)
    this.#phase = 'after'
    this.#answerTimer = setTimeout(() => this.#fail(unknown()), this.#answerMilliseconds)
    this.#message.push(null)
  }

  #lost(cause: unknown): void {
    if (this.#phase === 'after') this.#fail(definiteRefusal(cause) ?? unknown())
    else this.#fail(failureBeforeDot(cause, this.#recipients))
  }

  #fail(error: unknown): void {
    if (this.#phase === 'settled') return
    this.#connection.close()
    // The commit may still succeed, so the error is reported after it.
    if (this.#phase === 'marking') {
      this.#brokenWhileMarking ??= { error }
      return
    }
    this.#phase = 'settled'
    this.#settled.reject(error)
  }
}

/** Returns a function that ends the watch. */
function watch(
  connection: SMTPConnection,
  signal: AbortSignal,
  lost: (cause: unknown) => void,
  cancelled: (reason: unknown) => void,
): () => void {
  // nodemailer may close the connection before it gives its reason, which must be reported first.
  const ended = () => queueMicrotask(() => lost(new Error('closed')))
  const aborted = () => cancelled(signal.reason)
  connection.on('error', lost)
  connection.on('end', ended)
  signal.addEventListener('abort', aborted)
  if (signal.aborted) aborted()
  return () => {
    connection.off('error', lost)
    connection.off('end', ended)
    signal.removeEventListener('abort', aborted)
  }
}

const unknown = () =>
  new OutcomeUnknown('the mail server did not confirm the message; check its log before sending it again')

/** As nodemailer adds them to an error. */
interface SmtpFailure {
  readonly code?: string
  readonly originalCode?: string
  readonly command?: string
  readonly responseCode?: number
  readonly recipient?: string
  readonly rejectedErrors?: readonly SmtpFailure[]
}

const certificate = /CERT|SELF_SIGNED|UNABLE_TO|ALTNAME|^ERR_(?:TLS|SSL)|^ETLS$/

/** Nothing was delivered. The server's text often repeats addresses, so only its code is kept. */
function failureBeforeDot(error: unknown, recipients = 0): ToolError {
  const failure = error as SmtpFailure
  const { code = '', originalCode = '', responseCode } = failure
  const cause = bare(failure)
  const final = (name: string, message: string) => new ToolError(name, message, { cause })
  const passing = (name: string, message: string) => new ToolError(name, message, { retryable: true, cause })

  if (failure.rejectedErrors !== undefined) return recipientsRefused(failure.rejectedErrors, recipients)
  if (code === 'EAUTH') {
    return refused(
      'mail_login_failed',
      'did not accept the login; check user and password in SMTP_URL',
      failure,
    )
  }
  if (responseCode !== undefined)
    return refused('mail_refused', 'refused the message; nothing was sent', failure)
  if (code === 'EMESSAGE') {
    return final('mail_too_large', 'the message is larger than the mail server takes; shorten it')
  }
  if (certificate.test(originalCode) || certificate.test(code)) {
    return final(
      'mail_tls_failed',
      'no secure connection to the mail server; check its certificate and the options of SMTP_URL',
    )
  }
  if (code === 'EENVELOPE') {
    return final('mail_refused', 'the mail server cannot accept this sender or these recipients; check them')
  }
  if (code === 'ETIMEDOUT') {
    return passing('mail_timeout', 'the mail server did not answer in time; nothing was sent')
  }
  return passing('mail_unreachable', 'the connection to the mail server failed; nothing was sent')
}

/** Such a mail is sent to nobody. Retryable if every refusal is temporary. */
function recipientsRefused(refusals: readonly SmtpFailure[], recipients: number): ToolError {
  const codes = [...new Set(refusals.map((refusal) => refusal.responseCode ?? 0))].sort((a, b) => a - b)
  return new ToolError(
    'mail_recipients_refused',
    `the mail server refused ${refusals.length} of ${recipients} recipients (answer ${codes.join(', ')}); ` +
      'correct or remove them; nothing was sent',
    {
      retryable: codes.length > 0 && codes.every(isTransient),
      detail: {
        refused_recipients: refusals.map(({ recipient, responseCode }) => ({
          address: recipient ?? null,
          answer: responseCode ?? null,
        })),
      },
    },
  )
}

/** If the answer to the final dot certainly refuses the message. */
function definiteRefusal(error: unknown): ToolError | undefined {
  const failure = error as SmtpFailure
  const { code, responseCode = 0 } = failure
  // EMESSAGE marks a complete answer. Part of one proves nothing.
  if (code !== 'EMESSAGE' || responseCode < 400 || responseCode > 599) return undefined
  return refused('mail_refused', 'did not take the message; nothing was sent', failure)
}

function refused(code: string, what: string, failure: SmtpFailure): ToolError {
  const { responseCode } = failure
  const server = responseCode === undefined ? 'the mail server' : `the mail server (answer ${responseCode})`
  return new ToolError(code, `${server} ${what}`, {
    retryable: isTransient(responseCode ?? 0),
    cause: bare(failure),
  })
}

/** 4xx codes are temporary, 5xx codes are final (RFC 5321, section 4.2.1). */
function isTransient(responseCode: number): boolean {
  return responseCode >= 400 && responseCode < 500
}

/** Only codes, for the operator's log. */
function bare({ code, originalCode, command, responseCode }: SmtpFailure): Error {
  const words = [code, originalCode, command?.split(' ')[0], responseCode].filter(
    (word) => word !== undefined,
  )
  return new Error(`smtp: ${words.join(' ')}`)
}
