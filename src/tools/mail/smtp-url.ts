import { isIP } from 'node:net'
import type { SMTPConnectionOptions } from 'nodemailer/lib/smtp-connection'
import { ToolError } from '../kit/executor.ts'

export interface SmtpServer {
  readonly options: SMTPConnectionOptions
  readonly login: { readonly user: string; readonly pass: string } | null
}

/**
 * `smtp://user:password@host:port` (STARTTLS if offered) or `smtps://…`, with the options `requireTLS`, `ignoreTLS`,
 * `tls.rejectUnauthorized` (`true` or `false`), `tls.servername`, and `name` (in the greeting). A password goes to
 * another machine only over TLS. Throws `mail_not_configured` without the URL, which may have a password.
 */
export function parseSmtpUrl(smtpUrl: string | null): SmtpServer {
  if (smtpUrl === null) throw notConfigured('no mail server is configured; set SMTP_URL to smtp://host:port')
  const url = URL.canParse(smtpUrl) ? new URL(smtpUrl) : null
  if (url === null || (url.protocol !== 'smtp:' && url.protocol !== 'smtps:') || url.hostname === '') {
    throw notConfigured('SMTP_URL cannot be read; write smtp://host:port or smtps://user:password@host:port')
  }
  const host = url.hostname.replace(/^\[(.*)\]$/, '$1')
  const secure = url.protocol === 'smtps:'
  const login = url.username === '' ? null : { user: decode(url.username), pass: decode(url.password) }
  const query = readQuery(url.searchParams)
  return {
    login,
    options: {
      host,
      port: url.port === '' ? (secure ? 465 : 587) : Number(url.port),
      secure,
      ignoreTLS: query.ignoreTLS,
      requireTLS: !secure && (query.requireTLS || (login !== null && !isLoopback(host))),
      ...(query.name === undefined ? {} : { name: query.name }),
      tls: {
        rejectUnauthorized: query.rejectUnauthorized,
        ...(query.servername === undefined ? {} : { servername: query.servername }),
      },
    },
  }
}

function readQuery(query: URLSearchParams) {
  const flag = (name: string, otherwise: boolean) => {
    const value = query.get(name)
    if (value === null) return otherwise
    if (value !== 'true' && value !== 'false')
      throw notConfigured(`\`${name}\` in SMTP_URL must be true or false`)
    return value === 'true'
  }
  const known = ['requireTLS', 'ignoreTLS', 'tls.rejectUnauthorized', 'tls.servername', 'name']
  if ([...query.keys()].some((key) => !known.includes(key))) {
    throw notConfigured(`SMTP_URL has an unknown option; use only ${known.join(', ')}`)
  }
  return {
    requireTLS: flag('requireTLS', false),
    ignoreTLS: flag('ignoreTLS', false),
    rejectUnauthorized: flag('tls.rejectUnauthorized', true),
    servername: query.get('tls.servername') ?? undefined,
    name: query.get('name') ?? undefined,
  }
}

function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || (isIP(host) === 4 && host.startsWith('127.'))
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    throw notConfigured('the user or password in SMTP_URL is not percent-encoded; write `%` as `%25`')
  }
}

const notConfigured = (message: string) => new ToolError('mail_not_configured', message)
