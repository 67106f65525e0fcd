import { ToolError } from '../kit/executor.ts'

/** Fields that nodemailer adds to an error: the failure, the command, and the server's answer. */
export interface SmtpFailure {
  readonly code?: string
  readonly originalCode?: string
  readonly command?: string
  readonly responseCode?: number
  /** The address that the server refused. */
  readonly recipient?: string
  readonly rejectedErrors?: readonly SmtpFailure[]
}

const certificate = /CERT|SELF_SIGNED|UNABLE_TO|ALTNAME|^ERR_(?:TLS|SSL)|^ETLS$/

/**
 * Converts an error that came before the final dot of the message. Nothing was delivered, so temporary errors are
 * retryable. The message and the cause contain the server's code, but not the server's text, because this text often
 * repeats addresses.
 */
export function failureBeforeDot(error: unknown, recipients = 0): ToolError {
  const failure = error as SmtpFailure
  const { code = '', originalCode = '', responseCode } = failure
  const cause = bare(failure)
  const final = (name: string, message: string) => new ToolError(name, message, { retryable: false, cause })
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

/**
 * Makes the error of a mail for which the server refused some recipients. Such a mail is sent to no recipient. The
 * error is retryable if every refusal is temporary.
 */
export function recipientsRefused(refusals: readonly SmtpFailure[], recipients: number): ToolError {
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

/**
 * Returns an error if the server's answer to the final dot certainly refuses the message. Otherwise returns undefined.
 */
export function definiteRefusal(error: unknown): ToolError | undefined {
  const failure = error as SmtpFailure
  const { code, responseCode = 0 } = failure
  // EMESSAGE marks a complete answer to the message. If the connection broke during the answer, the received part
  // proves nothing.
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

/** Makes an error that contains only codes, for the operator's log. */
function bare({ code, originalCode, command, responseCode }: SmtpFailure): Error {
  const words = [code, originalCode, command?.split(' ')[0], responseCode].filter(
    (word) => word !== undefined,
  )
  return new Error(`smtp: ${words.join(' ')}`)
}
