import { z } from 'zod'
import type {
  Ask,
  CheckAnswer,
  Checked,
  IntegrationDeclaration,
} from '../../catalog/integrations/integration.ts'
import { headlineWithField, readAs } from '../../policy/issues.ts'
import type { Config } from '../../shared/config.ts'
import { OutgoingError, type Outgoing } from '../../shared/outgoing/outgoing.ts'
import { retryAfterOf } from '../../shared/outgoing/retry-after.ts'
import { isNamed, portOf, type NamedHost } from '../../shared/outgoing/hosts.ts'
import { DomainError } from '../errors.ts'
import type { FirstAccess } from './access-token.ts'

/** The configuration and the HTTP client for reading and checking a credential. */
export interface Checking {
  readonly config: Pick<Config, 'connections'>
  readonly outgoing: Outgoing
}

const patienceMilliseconds = 15_000
const largestAnswer = 1024 * 1024

/** Makes the error for a wrong credential. The message never repeats a value of the credential. */
export const invalid = (path: string, message: string): DomainError =>
  new DomainError('validation_error', `the credential cannot be used: \`${path}\` ${message}`, [
    { path, message },
  ])

/**
 * Checks a credential against the fields that the integration declares. Returns the credential and the addresses of the
 * service.
 *
 * - Throws `validation_error` for wrong or unknown fields. The error names each of these fields.
 * - Throws `validation_error` if the credential contains an address that may not be reached.
 * - Throws `bad_request` if the operator has set no address for the service, or an address that may not be reached.
 */
export function readCredential(
  { config, outgoing }: Checking,
  declaration: IntegrationDeclaration,
  given: unknown,
): { readonly credential: unknown; readonly addresses: readonly string[] } {
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
  const [base] = addresses
  if (base === undefined)
    throw new DomainError('bad_request', `${declaration.title} has no address: ${declaration.missingAddress}`)
  const why = outgoing.refusalOf(base)
  if (why !== null && declaration.addressSetting !== undefined)
    throw new DomainError(
      'bad_request',
      `${declaration.title} is at an address that is refused: the operator must change ${declaration.addressSetting} (${why})`,
    )
  if (why !== null) throw invalid('credential.base_url', `is refused: ${why}`)
  const foreign =
    declaration.grant?.foreignAddress(credential) ?? declaration.foreignAddress?.(credential) ?? null
  if (foreign !== null) requireNamed(config.connections.hosts, foreign)
  return { credential, addresses }
}

/**
 * Checks an address that a credential contains, if it is not an address of the service itself. Throws
 * `validation_error` if the operator has not named this address in CONNECTION_HOSTS.
 */
function requireNamed(
  hosts: readonly NamedHost[],
  { path, address }: { readonly path: string; readonly address: string },
): void {
  const url = new URL(address)
  if (isNamed(hosts, url.hostname, portOf(url))) return
  throw invalid(
    `credential.${path}`,
    `is not an address of the service: let the operator name \`${url.host}\` in CONNECTION_HOSTS, or use the service’s own`,
  )
}

/**
 * Checks a credential with a harmless call to the service. Returns the credential's account. Throws `validation_error`
 * if the service refuses the credential, if the service's address is not allowed, or if the answer is not understood.
 * Throws `unavailable` if the service is busy or cannot be reached.
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
    milliseconds: patienceMilliseconds,
    bytes: largestAnswer,
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
  if (error.problem === 'unreachable')
    return new DomainError('unavailable', `${message}: check \`base_url\` if you gave one, and the network`)
  return new DomainError('unavailable', message)
}
