import { readFileSync } from 'node:fs'

/*
 * Checks requests to the stand-in for Slack against Slack's published description of its Web API. A method or argument
 * that is missing in the description is an issue. Slack has not changed the description since 2020, so `newer` adds
 * arguments that only Slack's pages describe. The values of arguments are not checked.
 */

interface Method {
  /** The name, for example `chat.postMessage`. */
  readonly id: string
  readonly arguments: readonly string[]
  /** An example of an answer of the method, from the description. */
  readonly answer: unknown
}

export const described = JSON.parse(
  readFileSync(new URL('slack-described.json', import.meta.url), 'utf8'),
) as {
  readonly source: string
  readonly methods: readonly Method[]
}
const { methods } = described

/** Arguments that only the method's page on docs.slack.dev describes. */
const newer: Readonly<Record<string, readonly string[]>> = {
  'chat.postMessage': ['metadata'],
  'chat.update': ['metadata'],
  'conversations.history': ['include_all_metadata'],
  'conversations.replies': ['include_all_metadata'],
}

/** Returns the parts of a request that Slack does not describe. `form` is the body of the request. */
export function issuesOf(id: string, form: string): string[] {
  const method = methods.find((each) => each.id === id)
  if (method === undefined) return [`no method ${id}`]
  const known = new Set([...method.arguments, ...(newer[id] ?? [])])
  return [...new URLSearchParams(form).keys()]
    .filter((name) => !known.has(name))
    .map((name) => `${id}: no argument ${name}`)
}

/** Returns the example of an answer of the method, from the description. */
export const exampleOf = (id: string): unknown => methods.find((each) => each.id === id)?.answer
