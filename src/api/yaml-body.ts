import type { ErrorDetail } from '../governance/errors.ts'
import { readYaml, YamlMistake, type ReadYaml } from '../shared/yaml.ts'
import { ApiError } from './errors.ts'

/* A definition as YAML, as far as shared/yaml.ts reads it. */

/** Bytes. Reading blocks the process. */
export const mostYaml = 64 * 1024

const yamlTypes: ReadonlySet<string> = new Set(['application/yaml', 'application/x-yaml', 'text/yaml'])

export const isYamlType = (header: string | undefined): boolean =>
  yamlTypes.has((header ?? '').split(';', 1)[0]?.trim().toLowerCase() ?? '')

/** Where the values of a body stand in its text. */
const places = new WeakMap<object, (path: string) => string | null>()

/** Throws 400 and 413 with the place. */
function readBody(bytes: Uint8Array): ReadYaml {
  if (bytes.length > mostYaml)
    throw new ApiError(
      'too_large',
      `a definition as YAML has at most ${mostYaml / 1024} KiB: send it as JSON`,
    )
  try {
    return readYaml(bytes)
  } catch (error) {
    if (!(error instanceof YamlMistake)) throw error
    const place = error.place === null ? '' : `${error.place}: `
    throw new ApiError('bad_request', `the YAML cannot be read: ${place}${error.message}`)
  }
}

/** The body has the document as `definition`. */
export function bodyOfYaml(bytes: Uint8Array, parse: (json: string) => unknown): object {
  const { json, placeOf } = readBody(bytes)
  const body = { definition: parse(json) }
  places.set(body, (path) => placeOf(path.replace(/^definition\.?/, '')))
  return body
}

/** Each detail of an error about a body that was YAML begins with its line and column. */
export function withPlaces(error: unknown, body: unknown): unknown {
  const placeOf = typeof body === 'object' && body !== null ? places.get(body) : undefined
  const { code, message, details } = error as ApiError
  if (placeOf === undefined || !Array.isArray(details) || details.length === 0) return error
  const placed = (details as readonly ErrorDetail[]).map((detail) => {
    const place = placeOf(detail.path)
    return place === null ? detail : { ...detail, message: `${place}: ${detail.message}` }
  })
  const first = placeOf((details[0] as ErrorDetail).path)
  return new ApiError(code, first === null ? message : `${message} (${first})`, placed)
}
