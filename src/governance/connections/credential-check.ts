import { z } from 'zod'
import {
  destinationOf,
  type Ask,
  type CheckAnswer,
  type Checked,
  type Destination,
  type IntegrationDeclaration,
} from '../../tools/kit/integration.ts'
import { headlineWithField, readAs } from '../../policy/issues.ts'
import type { Config } from '../../shared/config.ts'
import { OutgoingError, type Outgoing } from '../../shared/outgoing/outgoing.ts'
import { retryAfterOf } from '../../shared/outgoing/retry-after.ts'
import { isNamed, portOf } from '../../shared/outgoing/hosts.ts'
import type { Role } from '../../policy/types.ts'
import { hasRole } from '../access/scopes.ts'
import { DomainError } from '../errors.ts'
import { type FirstAccess, freshSecondsOf, withClient } from './access-token.ts'
import { refreshTokens, serviceAccountToken, GrantRefused, TokenServerAway } from './token-server.ts'

export interface Checking {
  readonly config: Pick<Config, 'connections'>
  readonly outgoing: Outgoing
}

/** The message never repeats a value of the credential. */
const invalid = (path: string, message: string): DomainError =>
  new DomainError('validation_error', `the credential cannot be used: \`${path}\` ${message}`, [
    { path, message },
  ])

/** The addresses may get the credential. The first one is the base of the API. */
export interface ReadCredential {
  readonly credential: unknown
  readonly addresses: readonly string[]
  readonly destination: Destination
}

/**
 * Throws `validation_error` for wrong or unknown fields, for an address that may not be reached, and for one that is
 * not the service's own and whose host the operator has not named. Throws `insufficient_role` if a caller below admin
 * gives an address that is not the service's own, and `bad_request` if the operator has set no address, or one that may
 * not be reached.
 */
export function readCredential(
  { config, outgoing }: Checking,
  declaration: IntegrationDeclaration,
  given: unknown,
  role: Role,
): ReadCredential {
  const read = readAs(
    z.object({ credential: declaration.credential }),
    { credential: given },
    { quotes: false },
  )
  if (!read.ok) {
    const what = `the credential for ${declaration.title} is not valid`
    throw new DomainError('validation_error', headlineWithField(what, read.issues), read.issues)
  }
  const { credential } = read.value
  const addresses = declaration.addresses(credential, config.connections)
  const destination = destinationOf(declaration, credential, config.connections)
  const [base] = addresses
  if (base === undefined || destination === null)
    throw new DomainError('bad_request', `${declaration.title} has no address: ${declaration.missingAddress}`)
  if (!destination.isOwn && !hasRole(role, 'admin')) throw addressNeedsAdmin(declaration, role)
  const why = outgoing.refusalOf(base)
  if (why !== null && declaration.addressSetting !== undefined)
    throw new DomainError(
      'bad_request',
      `${declaration.title} is at an address that is refused: the operator must change ${declaration.addressSetting} (${why})`,
    )
  if (why !== null) throw invalid('credential.base_url', `is refused: ${why}`)
  const unnamed = unnamedOf(config, destination)
  if (unnamed !== null)
    throw invalid(
      `credential.${unnamed.path}`,
      `is not the service’s own address, which counts as a whole: let the operator name \`${new URL(unnamed.address).host}\` in CONNECTION_HOSTS, or use the service’s own`,
    )
  return { credential, addresses, destination }
}

const addressNeedsAdmin = ({ title }: IntegrationDeclaration, role: Role): DomainError =>
  new DomainError(
    'insufficient_role',
    `an address that is not one of ${title} itself needs the role \`admin\` in the organization, yours is \`${role}\`: let an admin connect it for the organization`,
    [{ path: 'admin', message: 'needs the role `admin`' }],
  )

/** Not the service's own, on a host that CONNECTION_HOSTS does not name. No credential may be sent there. */
export function unnamedOf({ connections: { hosts } }: Checking['config'], { foreign }: Destination) {
  return (
    foreign.find(({ address }) => {
      const url = new URL(address)
      return !isNamed(hosts, url.hostname, portOf(url))
    }) ?? null
  )
}

/**
 * Checks a credential with a harmless call. Throws `validation_error` if the service refuses it, if its address is not
 * allowed, or if the answer is not understood; `unavailable` if the service is busy or away.
 */
export async function checkCredential(
  { outgoing }: Checking,
  declaration: IntegrationDeclaration,
  { credential, accessToken }: Pick<FirstAccess, 'credential' | 'accessToken'>,
  addresses: readonly string[],
  signal: AbortSignal,
): Promise<{ readonly account: string | null }> {
  let last: Response | undefined
  const send = outgoing.fetchWithin({
    addresses,
    milliseconds: 15_000,
    bytes: 1024 * 1024,
    signal,
  })
  const ask: Ask = async ({ method, path }) => {
    const answer = await send(`${addresses[0]}${path}`, {
      method,
      headers: { 'user-agent': 'countersign', ...declaration.headers(credential, accessToken ?? undefined) },
    })
    last = answer
    return { status: answer.status, json: jsonOf(await answer.text()) }
  }
  try {
    const checked = await declaration.check(credential, ask)
    if (checked.kind === 'account') return { account: checked.account }
    if (checked.kind === 'refused')
      throw invalid('credential', `was refused by ${declaration.title}: ${checked.why}`)
    throw unclear(declaration, checked, last)
  } catch (error) {
    throw error instanceof OutgoingError ? refusalOf(declaration, error) : error
  }
}

function jsonOf(text: string): CheckAnswer['json'] {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function unclear(
  { title }: IntegrationDeclaration,
  { status, isBusy: saysBusy = false }: Extract<Checked, { kind: 'unclear' }>,
  answer: Response | undefined,
): DomainError {
  const seconds = answer === undefined ? null : retryAfterOf(answer.headers)
  const isBusy = saysBusy || status === 429 || status >= 500 || seconds !== null
  const advice = isBusy ? 'try again later' : 'check the address and the rights of the credential'
  const message = `${title} answered with status ${status}, so the credential could not be checked: ${advice}`
  return isBusy
    ? new DomainError('unavailable', message, [], seconds ?? undefined)
    : new DomainError('validation_error', message, [{ path: 'credential', message }])
}

function refusalOf({ title }: IntegrationDeclaration, error: OutgoingError): DomainError {
  if (error.problem === 'host_refused') return invalid('credential.base_url', error.message)
  const message = `${title} could not be asked about the credential: ${error.message}`
  if (error.problem === 'redirect_refused' || error.problem === 'answer_too_large')
    return new DomainError('validation_error', message, [{ path: 'credential.base_url', message }])
  return new DomainError('unavailable', message)
}

/** null if the integration has none. Throws `validation_error` if the server refuses, else `unavailable`. */
export async function firstAccess(
  { config, outgoing }: Checking,
  { grant: granting, title }: IntegrationDeclaration,
  credential: unknown,
  tool: string,
): Promise<FirstAccess> {
  if (granting === undefined) return { credential, accessToken: null, freshSeconds: 0, scopes: null }
  const grant = granting.of(credential, config.connections)
  return asDomainErrors(title, async () => {
    if (grant.kind === 'service_account') {
      await serviceAccountToken(outgoing, grant, granting.scopesOf(tool))
      return { credential, accessToken: null, freshSeconds: 0, scopes: null }
    }
    const tokens = await refreshTokens(outgoing, withClient(grant))
    const { accessToken, refreshToken } = tokens
    return {
      credential: refreshToken === null ? credential : granting.renewed(credential, refreshToken),
      accessToken,
      freshSeconds: freshSecondsOf(tokens),
      scopes: tokens.scopes,
    }
  })
}

const advice: Readonly<Record<string, string>> = {
  invalid_grant: 'the token or key has ended, was revoked or belongs to another client: make a new one',
  invalid_client: 'check `client_id` and `client_secret`',
  invalid_key: 'the private key cannot be read: give the whole key file again',
}

/** Turns errors of requests to an authorization server into errors of the API. */
export async function asDomainErrors<T>(title: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (error instanceof GrantRefused) {
      const hint = advice[error.code]
      throw invalid(
        'credential',
        `was refused by ${title} (${error.code})${hint === undefined ? '' : `: ${hint}`}`,
      )
    }
    if (error instanceof TokenServerAway)
      throw new DomainError(
        'unavailable',
        `${title} could not be asked for a token: ${error.message}`,
        [],
        error.retryAfterSeconds ?? undefined,
      )
    throw error
  }
}
