import type { Request } from 'express'
import { z } from 'zod'
import type { Directory } from '../../governance/signin/scim.ts'
import { ApiError, validate } from '../errors.ts'
import { readJsonBody } from '../json-body.ts'

/* What requests about people and about groups have in common (RFC 7644). */

export const urn = 'urn:ietf:params:scim'
/** A group has up to 500 members. */
const bodyLimit = 128 * 1024
export const mostListed = 100

const operation = z.looseObject({
  op: z.string(),
  path: z.string().max(200).optional(),
  value: z.unknown().optional(),
})
export const patch = z.looseObject({ Operations: z.array(operation).max(100) })
export type Operation = z.output<typeof operation>

export type Handler = (request: Request, directory: Directory) => Promise<{ status: number; body?: object }>

export type On = (method: 'get' | 'post' | 'put' | 'patch' | 'delete', path: string, handle: Handler) => void

/** Directories send `application/scim+json`, which is JSON. */
export async function bodyOf<S extends z.ZodType>(request: Request, schema: S): Promise<z.output<S>> {
  if (/^application\/scim\+json\s*(;|$)/i.test(request.headers['content-type'] ?? ''))
    request.headers['content-type'] = 'application/json'
  return validate(schema, await readJsonBody(request, bodyLimit), 'the body') as z.output<S>
}

/** No id contains a NUL, which PostgreSQL cannot compare. */
export const idOf = ({ params }: Request): string => String(params['id']).replaceAll('\u0000', '')

/** Which part of a list a request asks for, of whom, and whether without the lists of members. */
export function asked(request: Request) {
  const query = new URLSearchParams(request.originalUrl.split('?', 2)[1] ?? '')
  const start = wholeOf(query.get('startIndex'), 1, 1_000_000)
  const limit = Math.min(wholeOf(query.get('count'), mostListed, 1_000_000), mostListed)
  const excluded = (query.get('excludedAttributes') ?? '').toLowerCase().split(/[\s,]+/)
  return { start, limit, filter: query.get('filter'), withMembers: !excluded.includes('members') }
}

function wholeOf(text: string | null, usual: number, most: number): number {
  const number = text === null || !/^\d{1,9}$/.test(text) ? usual : Number(text)
  return Math.min(Math.max(number, 1), most)
}

/** Directories look for a person or group by one of `names`, before they add it. */
export function filterOf<Name extends string>(
  text: string | null,
  names: readonly Name[],
): { readonly by: Name; readonly value: string } | null {
  if (text === null || text === '') return null
  const [, by, value] = /^\s*(\w+)\s+eq\s+"((?:[^"\\]|\\.){0,500})"\s*$/i.exec(text) ?? []
  const known = names.find((name) => name.toLowerCase() === by?.toLowerCase())
  if (known === undefined || value === undefined)
    throw new ApiError('bad_request', `this filter is not supported: use \`${names[0]} eq "…"\``)
  return { by: known, value: value.replaceAll(/\\(.)/g, '$1').replaceAll('\u0000', '') }
}

/** SCIM ignores the case of names, and a path may begin with the schema. `other`: one that does not change here. */
export function nameOfPath<Name extends string>(
  path: string,
  schema: string,
  names: readonly Name[],
): Name | 'other' {
  const given = path.toLowerCase()
  const isIt = (name: string) => [name, `${schema}:${name}`].some((each) => each.toLowerCase() === given)
  return names.find(isIt) ?? 'other'
}

/** The value of an operation without a path, with the names as we write them. */
export const named = <Name extends string>(
  value: unknown,
  schema: string,
  names: readonly Name[],
): unknown =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
    ? Object.fromEntries(Object.entries(value).map(([name, each]) => [nameOfPath(name, schema, names), each]))
    : value

/** Entra ID writes it in capitals. */
export function opOf({ op }: Operation): 'add' | 'replace' | 'remove' {
  const known = (['add', 'replace', 'remove'] as const).find((each) => each === op.toLowerCase())
  if (known !== undefined) return known
  throw new ApiError('bad_request', `the operation \`${op.slice(0, 20)}\` is not known`)
}

export const listOf = (resources: readonly object[], total: number, start: number): object => ({
  schemas: [`${urn}:api:messages:2.0:ListResponse`],
  totalResults: total,
  startIndex: start,
  itemsPerPage: resources.length,
  Resources: resources,
})
