import { createHmac, timingSafeEqual } from 'node:crypto'
import type { Request } from 'express'
import type { Config } from '../../shared/config.ts'
import { requireSameOrigin } from '../auth.ts'
import { readBytes } from '../body-bytes.ts'
import { ApiError } from '../errors.ts'

/**
 * Maximum size of a form, in bytes. The largest forms contain a long comment, or name up to 200 approvals for one
 * decision.
 */
const formLimit = 64 * 1024

/**
 * Reads a submitted form. Throws if the form comes from another site. The check reads `Origin`, and also
 * `Sec-Fetch-Site` if the browser sends it.
 */
export async function readForm(config: Config, request: Request): Promise<URLSearchParams> {
  const site = request.headers['sec-fetch-site']
  if (site !== undefined && site !== 'same-origin')
    throw new ApiError(
      'unauthenticated',
      'this form was sent from another site: open the page here, and send it again',
    )
  requireSameOrigin(config, request)
  const { 'content-type': type = '', 'content-encoding': encoding = 'identity' } = request.headers
  if (!/^application\/x-www-form-urlencoded\s*(;|$)/i.test(type) || encoding !== 'identity')
    throw new ApiError('bad_request', 'the form cannot be read: send it as a browser does')
  const body = await readBytes(request, { bytes: formLimit, tooLarge })
  return new URLSearchParams(body.whole().toString())
}

const tooLarge = (): ApiError =>
  new ApiError('too_large', `the form is larger than ${formLimit} bytes: send less`)

/**
 * Returns the token for the forms of a page. The token binds these forms to the sign-in session that loaded the page.
 */
export function formToken(config: Config, sessionId: string): string {
  return createHmac('sha256', config.sessionSecret)
    .update(JSON.stringify(['form', sessionId]))
    .digest('base64url')
}

export function requireToken(config: Config, sessionId: string, form: URLSearchParams): void {
  const [given, right] = [form.get('token') ?? '', formToken(config, sessionId)].map((each) =>
    Buffer.from(each),
  )
  if (
    given === undefined ||
    right === undefined ||
    given.length !== right.length ||
    !timingSafeEqual(given, right)
  )
    throw new ApiError(
      'unauthenticated',
      'this form belongs to another sign-in: load the page again, and send it once more',
    )
}

export const queryOf = (request: Request): URLSearchParams =>
  new URLSearchParams(request.originalUrl.split('?', 2)[1] ?? '')
