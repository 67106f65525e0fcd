import { readFileSync } from 'node:fs'

/*
 * Lists the stand-in that the tests use for each service. Says which parts of the stand-in are checked against the
 * vendor's published description.
 */

const read = (path: string): unknown =>
  JSON.parse(readFileSync(new URL(`../${path}`, import.meta.url), 'utf8')) as unknown

const { dependencies, devDependencies } = read('package.json') as Readonly<
  Record<'dependencies' | 'devDependencies', Readonly<Record<string, string>>>
>
const named = (name: string): string =>
  `\`${name}\` ${dependencies[name] ?? devDependencies[name] ?? 'is missing'}`

interface StandIn {
  readonly service: string
  readonly standIn: string
  /** The published description, and the part of the stand-in that is checked against it. */
  readonly checked: string
  readonly not: string
}

const ids = (all: readonly { readonly id: string }[]): string => all.map(({ id }) => `\`${id}\``).join(', ')

const ofGoogle = (['calendar.v3', 'docs.v1', 'drive.v3', 'sheets.v4'] as const).map((name): StandIn => {
  const { source, revision, methods } = read(`test/support/google/descriptions/${name}.json`) as {
    readonly source: string
    readonly revision: string
    readonly methods: readonly { readonly id: string }[]
  }
  return {
    service: `Google ${name}`,
    standIn: 'our own',
    checked: `Google’s discovery document of revision ${revision}, from \`${source.replace(' ', '` ')}: paths, parameters, fields, types and values of each request and answer of ${ids(methods)}`,
    not: 'what the document says in words: limits, rights, which fields go together',
  }
})

const slack = read('test/support/slack-described.json') as {
  readonly source: string
  readonly methods: readonly { readonly id: string }[]
}

const operationsOf = (name: 'jira' | 'trello'): string =>
  ids(read(`test/support/atlassian/${name}.json`) as { readonly id: string }[])

export const standIns: readonly StandIn[] = [
  ...ofGoogle,
  {
    service: 'Jira',
    standIn: 'our own',
    checked: `Atlassian’s OpenAPI description, as ${named('jira.js')} is generated from it: methods, paths, parameters and names of fields of each request, and the whole answer, of ${operationsOf('jira')}`,
    not: 'the forms of values in requests, texts in version 2 of the API, and what a query means',
  },
  {
    service: 'Trello',
    standIn: 'our own',
    checked: `Trello’s OpenAPI description, as ${named('trello.js')} is generated from it: methods, paths and names of values of each request, and the whole answer, of ${operationsOf('trello')}`,
    not: 'the forms of values in requests, parameters of the cards of a board, which the description leaves out, and which actions a board keeps',
  },
  {
    service: 'GitHub',
    standIn: named('emulate'),
    checked: `GitHub’s OpenAPI description, as the types of ${named('@octokit/rest')} are generated from it: the compiler checks paths, parameters and fields of each request, and the fields that are read in each answer`,
    not: 'the rest of the stand-in. The statuses of refusals were compared by hand',
  },
  {
    service: 'Slack',
    standIn: `${named('emulate')}, behind a check of our own`,
    checked: `Slack’s OpenAPI description of 2020, from \`${slack.source.replace(' ', '` ')}: names of arguments of each request, and the fields that are read in its examples of answers, of ${ids(slack.methods)}`,
    not: 'the forms of values in requests. Error codes, and the arguments `metadata` and `include_all_metadata`, were compared by hand with docs.slack.dev',
  },
  {
    service: 'Resend',
    standIn: named('emulate'),
    checked: 'nothing',
    not: 'all of it',
  },
  {
    service: 'language models',
    standIn: named('@copilotkit/aimock'),
    checked: 'nothing of ours: the clients of the AI SDK read its answers',
    not: 'what a model writes',
  },
  {
    service: 'Tavily',
    standIn: named('@copilotkit/aimock'),
    checked: 'nothing of ours: the tool reads its answers',
    not: 'the requests, and what a search finds',
  },
  {
    service: 'SearXNG, Brave',
    standIn: 'answers written in the tests',
    checked: 'nothing',
    not: 'all of it',
  },
]
