import { integrationNamed } from '../../../src/tools/integrations.ts'
import type { Json } from '../../../src/policy/types.ts'
import { emulatorToken } from '../../support/emulators.ts'
import type { Ask, FaultService } from './service.ts'

/** The credential of a connection to the stand-in at `url`. */
export const credentialAt = (service: FaultService, url: string): object =>
  service.credential?.(url) ?? { token: emulatorToken, base_url: url }

/** Sends a request straight to the service at `url`, past its proxy. */
export function askAt(
  service: FaultService,
  url: string,
  credential = credentialAt(service, url),
  token: string = emulatorToken,
): Ask {
  const asJson = service.takesForms !== true
  return async (method, path, body) => {
    const headers = integrationNamed(service.name)?.headers(credential, token)
    const answer = await fetch(`${url}${path}`, {
      method,
      headers: { ...headers, ...(asJson ? { 'content-type': 'application/json' } : {}) },
      body: body === undefined ? null : asJson ? JSON.stringify(body) : new URLSearchParams({ ...body }),
    })
    return (await answer.json()) as Json
  }
}
