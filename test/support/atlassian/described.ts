import { readFileSync } from 'node:fs'

/*
 * Checks requests to the stand-ins for Jira and Trello against Atlassian's OpenAPI descriptions. A path, query
 * parameter or field that is missing in the descriptions is an issue. The values themselves, and what Atlassian does
 * with them, are not checked.
 */

export interface Operation {
  readonly id: string
  readonly method: string
  /** `{}` stands for any one part of the path. Example: `/rest/api/3/project/{}`. */
  readonly path: string
  readonly query: readonly string[]
  /** The names of the fields of a JSON body, or of the parts of a form. */
  readonly body: readonly string[]
}

export const describedIn = (name: 'jira' | 'trello'): readonly Operation[] =>
  JSON.parse(readFileSync(new URL(`${name}.json`, import.meta.url), 'utf8')) as Operation[]

export interface Asked {
  readonly method: string
  readonly url: string
  readonly headers: Headers
  clone(): Pick<Response, 'text' | 'formData'>
}

/**
 * Returns the parts of a request that its operation does not describe. `beyond` adds query parameters that Atlassian
 * describes on other pages. The keys of `beyond` are ids of operations.
 */
export async function issuesOf(
  operations: readonly Operation[],
  asked: Asked,
  beyond: Readonly<Record<string, readonly string[]>> = {},
): Promise<string[]> {
  const { pathname, searchParams } = new URL(asked.url)
  const operation = operations.find(
    ({ method, path }) => method === asked.method && patternOf(path).test(pathname),
  )
  if (operation === undefined) return [`no operation ${asked.method} ${pathname}`]
  const query = new Set([...operation.query, ...(beyond[operation.id] ?? [])])
  // Trello accepts the values of query parameters also in the body.
  const body = new Set(operation.body.length === 0 ? operation.query : operation.body)
  return [
    ...[...searchParams.keys()]
      .filter((name) => !query.has(name))
      .map((name) => `no query parameter ${name}`),
    ...(await fieldsOf(asked)).filter((name) => !body.has(name)).map((name) => `no field ${name}`),
  ].map((issue) => `${operation.id}: ${issue}`)
}

const patternOf = (path: string): RegExp =>
  new RegExp(`^${path.replaceAll(/[.*+?^$()|[\]\\]/g, String.raw`\$&`).replaceAll('{}', '[^/]+')}$`)

async function fieldsOf(asked: Asked): Promise<string[]> {
  if (asked.method === 'GET') return []
  const copy = asked.clone()
  if (asked.headers.get('content-type')?.startsWith('multipart/form-data') === true)
    return [...(await copy.formData()).keys()]
  const text = await copy.text()
  return text === '' ? [] : Object.keys(JSON.parse(text) as object)
}
