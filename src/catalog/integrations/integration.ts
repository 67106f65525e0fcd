import { z } from 'zod'
import type { Integration } from '../tool.ts'
import type { Authorization, Grant } from './grant.ts'

/** What the operator sets. */
export interface IntegrationSettings {
  /** `TRACKER_BASE_URL`; null: not set. */
  readonly trackerBaseUrl: string | null
  readonly google: {
    /** This installation as a client of Google's sign-in; null: not set. */
    readonly client: { readonly id: string; readonly secret: string } | null
    /** `GOOGLE_BASE_URL`; null: Google's own addresses. */
    readonly baseUrl: string | null
  }
}

/** One request of a check. It is sent with the credential's headers to the base address of the integration's API. */
export interface CheckRequest {
  readonly method: 'GET' | 'POST'
  /** Begins with a slash. */
  readonly path: string
}

export interface CheckAnswer {
  readonly status: number
  /** The body as JSON; undefined if it is not JSON. */
  readonly json: unknown
}

/** Sends a request of a check. Throws if no answer came. */
export type Ask = (request: CheckRequest) => Promise<CheckAnswer>

/**
 * - `account`: the service knows the credential; null if it does not say whose it is.
 * - `refused`: the service does not accept the credential; `why` is one clause for the person who gave it.
 * - `unclear`: the answer says nothing about the credential. `isBusy`: asking later helps, whatever the status.
 */
export type Checked =
  | { readonly kind: 'account'; readonly account: string | null }
  | { readonly kind: 'refused'; readonly why: string }
  | { readonly kind: 'unclear'; readonly status: number; readonly isBusy?: boolean }

/** What the service must know about an integration: its credential, where that may go, and how it is checked. */
export interface IntegrationDeclaration<Credential = unknown> {
  readonly name: Integration
  /** As people write it. */
  readonly title: string
  readonly credential: z.ZodType<Credential>
  /** The credential as it is kept, if it has forms that nobody can give; default: `credential`. */
  readonly kept?: z.ZodType<Credential>
  /**
   * The addresses to which a credential may be sent, without a closing slash. The first is the base of the API. Empty: the
   * operator has not set it.
   */
  addresses(credential: Credential, settings: IntegrationSettings): readonly string[]
  /** What to set if there is no address. */
  readonly missingAddress?: string
  /**
   * An address that the credential names and that is none of the service's own, with its field. The operator must have named
   * its host. null: there is none.
   */
  foreignAddress?(credential: Credential): { readonly path: string; readonly address: string } | null
  /** How a credential that is no access token itself is exchanged for one. */
  readonly grant?: GrantDeclaration<Credential>
  /**
   * Headers of a request that is made with the credential. `accessToken` is what the exchange gave, with `grant`.
   */
  headers(credential: Credential, accessToken?: string): Readonly<Record<string, string>>
  /** Makes a harmless call with the credential. */
  check(credential: Credential, ask: Ask): Promise<Checked>
}

export interface GrantDeclaration<Credential> {
  of(credential: Credential, settings: IntegrationSettings): Grant
  /** The same credential with the refresh token that the server gave in exchange for the last one. */
  renewed(credential: Credential, refreshToken: string): Credential
  /**
   * The address of a token endpoint that the credential names and that is none of the service's own, with the field that
   * names it. The operator must have named its host. null: there is none.
   */
  foreignAddress(credential: Credential): { readonly path: string; readonly address: string } | null
  /** The smallest scopes with which the tool works. */
  scopesOf(tool: string): readonly string[]
  /** The scopes that the tool lacks with these. A wider scope includes others. */
  missingScopes(tool: string, granted: readonly string[]): readonly string[]
  /** How a person authorizes in their browser; null: the operator has not set it up. */
  authorization(settings: IntegrationSettings): Authorization | null
  /** What to set if there is no authorization. */
  readonly missingAuthorization: string
  /** The credential of an authorization. */
  authorized(refreshToken: string, settings: IntegrationSettings): Credential
}

export function defineIntegration<Credential>(
  declaration: IntegrationDeclaration<Credential>,
): IntegrationDeclaration<Credential> {
  return declaration
}

/** A secret that goes into a header: no spaces, no line breaks. */
export const secret = z
  .string()
  .min(1)
  .max(8192)
  .regex(/^[\x21-\x7e]+$/, 'must be printable ASCII without spaces: copy it again')

export const baseUrl = z
  .string()
  .max(2048)
  .transform((text, context) => {
    const url = URL.canParse(text) ? new URL(text) : null
    const isPlain =
      url !== null &&
      (url.protocol === 'https:' || url.protocol === 'http:') &&
      url.username + url.password + url.search + url.hash === ''
    if (isPlain) return url.href.replace(/\/+$/, '')
    context.addIssue({
      code: 'custom',
      message:
        'must be an https address without user, query and fragment, such as `https://git.acme.com/api/v3`',
    })
    return z.NEVER
  })

/** The text at `path` in an answer; null if there is none. */
export function textIn(json: unknown, ...path: readonly string[]): string | null {
  let value = json
  for (const name of path) {
    if (typeof value !== 'object' || value === null) return null
    value = (value as Readonly<Record<string, unknown>>)[name]
  }
  return typeof value === 'string' && value !== '' ? value.slice(0, 200) : null
}

/** For services that answer with a status: 2xx is the account, 401 a refusal, anything else says nothing. */
export function byStatus({ status, json }: CheckAnswer, account: (json: unknown) => string | null): Checked {
  if (status === 401)
    return { kind: 'refused', why: 'it answered 401: the credential is wrong, has ended or was revoked' }
  if (status >= 200 && status < 300 && json !== undefined) return { kind: 'account', account: account(json) }
  return { kind: 'unclear', status }
}

const lacksTheCall: ReadonlySet<number> = new Set([404, 405, 501])

/**
 * Reads the answer of an API that several products offer, as for language models. Some of them lack the call that
 * checks a credential. Their answer says so, and the credential then counts as checked.
 */
export function ifItHasTheCall(answer: CheckAnswer, account: (json: unknown) => string | null): Checked {
  if (answer.status === 403)
    return { kind: 'refused', why: 'it answered 403: the credential does not allow this call' }
  return lacksTheCall.has(answer.status)
    ? { kind: 'account', account: account(undefined) }
    : byStatus(answer, account)
}
