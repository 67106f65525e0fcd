import { Readable } from 'node:stream'
import SMTPConnection, { type SMTPEnvelope } from 'nodemailer/lib/smtp-connection'
import { OutcomeUnknown, ToolError } from '../kit/executor.ts'
import type { Mail } from './message.ts'
import { definiteRefusal, failureBeforeDot, recipientsRefused, type SmtpFailure } from './smtp-errors.ts'
import type { SmtpServer } from './smtp-url.ts'

/** Time limits in milliseconds. Each of them is shorter than the tool's own time limit. */
export interface SmtpTimeouts {
  /** Longest time of each of these steps: the name lookup, the connection, and the server's greeting. */
  readonly connect: number
  /** Longest silence of the server before the final dot. */
  readonly idle: number
  /** Longest wait for the answer to the final dot. */
  readonly answer: number
}
export const defaultTimeouts: SmtpTimeouts = { connect: 20_000, idle: 60_000, answer: 60_000 }

export interface SmtpHooks {
  readonly signal: AbortSignal
  /** Is awaited before the final dot is sent. Everything before the final dot has been sent already. */
  pointOfNoReturn(): Promise<void>
}

/*
 * The phases of one delivery. A delivery settles once.
 *
 * - `before`: nothing can have been delivered, because the server discards a message without its end. An error closes
 *   the connection. After an error, the message stream never ends, so no dot can follow.
 * - `marking`: `pointOfNoReturn` is committing.
 * - `after`: begins immediately before the stream ends, in the same turn of the event loop. From now on, only the
 *   server's answer tells the outcome. If the answer is lost or late, the result is OutcomeUnknown. Cancelling has no
 *   effect any more.
 *
 * In SMTP, the final dot ends a message. nodemailer writes the dot only when the message stream ends, so this code
 * delays the end of the stream.
 */

/**
 * Sends one message over its own connection, to all recipients or none.
 * @returns the recipients that the server accepted
 * @throws ToolError if the message was certainly not accepted. The error is retryable if a later try may succeed.
 * @throws OutcomeUnknown if the dot may have left and no answer came
 * @throws the unchanged error of `pointOfNoReturn`, or the signal's reason. In both cases no dot has left.
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
    // The socket is closed at once. So the bytes in its buffers are dropped, and do not leave later.
    socketCloseTimeout: 0,
    // Logs are off because the dialogue contains addresses and the message.
    logger: false,
    debug: false,
    transactionLog: false,
  })
  // An `error` event without a listener would end the process.
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

/** Connects, greets, and logs in if the URL has a user. */
async function open(connection: SMTPConnection, server: SmtpServer, signal: AbortSignal): Promise<void> {
  await step(connection, signal, (done) => connection.connect(done))
  const { login } = server
  if (login === null) return
  if (!connection.allowsAuth) {
    throw new ToolError(
      'mail_login_failed',
      'the mail server offers no login; remove the user from SMTP_URL',
      {
        retryable: false,
      },
    )
  }
  await step(connection, signal, (done) => connection.login({ ...login }, done))
}

/**
 * Makes one exchange with the server before the message is sent. Ends when `done` is called, the connection breaks or
 * the signal is aborted.
 */
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

/**
 * Sends the message of one delivery. All bytes of the message are sent before the point of no return, and the final dot
 * is sent after it.
 */
class Transmission {
  readonly #connection: SMTPConnection
  readonly #recipients: number
  readonly #hooks: SmtpHooks
  readonly #answerMilliseconds: number
  /**
   * nodemailer writes into this object which recipients the server has accepted or refused. nodemailer does this before
   * it reads the message.
   */
  readonly #envelope: SMTPEnvelope & { accepted?: string[]; rejectedErrors?: SmtpFailure[] }
  readonly #message: Readable
  readonly #settled = Promise.withResolvers<string[]>()
  #phase: 'before' | 'marking' | 'after' | 'settled' = 'before'
  /**
   * The error that broke the delivery while the point of no return was being saved. Is null if there was no such error.
   */
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

  /** Sends the message, and returns the recipients that the server accepted. */
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

  /**
   * Gives nodemailer the whole message. If `whole` is undefined, nodemailer has already got the whole message, and
   * waits for the end of the stream.
   */
  #give(whole: Buffer | undefined): void {
    if (whole === undefined) {
      if (this.#phase === 'before') void this.#finish()
      return
    }
    const { accepted = [], rejectedErrors = [] } = this.#envelope
    // The message is sent only if the server has accepted every recipient.
    if (accepted.length === this.#recipients) this.#message.push(whole)
    else this.#fail(recipientsRefused(rejectedErrors, this.#recipients))
  }

  /** Saves the point of no return, and then ends the message. */
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
    // The commit that stores the point of no return is in progress and may still succeed. So the error is reported
    // after this commit has ended.
    if (this.#phase === 'marking') {
      this.#brokenWhileMarking ??= { error }
      return
    }
    this.#phase = 'settled'
    this.#settled.reject(error)
  }
}

/** Reports a broken connection and an aborted signal. Returns a function that ends the watch. */
function watch(
  connection: SMTPConnection,
  signal: AbortSignal,
  lost: (cause: unknown) => void,
  cancelled: (reason: unknown) => void,
): () => void {
  // A closed connection is reported one microtask later. nodemailer may close the connection before it gives its
  // reason. With this delay, the reason is reported first.
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
