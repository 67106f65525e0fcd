import type { Call } from '../../src/policy/decide.ts'
import type { JsonObject } from '../../src/policy/types.ts'

/**
 * Texts that name places, and their readings by a careful person. People wrote these readings, not our code: the
 * oracles compare our code with them.
 */

export const kinds = ['repository', 'channel', 'issue', 'card', 'file'] as const
export type Kind = (typeof kinds)[number]

/** The tool and the parameter of a workflow's call that name a place of this kind. */
export const placeOfKind: Readonly<Record<Kind, readonly [tool: string, param: string]>> = {
  repository: ['github_comment', 'repo'],
  channel: ['slack_send_message', 'channel'],
  issue: ['jira_comment', 'issue'],
  card: ['trello_comment', 'card'],
  file: ['docs_read', 'document'],
}

/** The kind of place that a parameter of a call names. Parameters of agents' tools name none. */
export function kindOf({ source, tool }: Pick<Call, 'source' | 'tool'>, param: string): Kind | null {
  if (source !== 'workflows') return null
  return kinds.find((kind) => placeOfKind[kind][0] === tool && placeOfKind[kind][1] === param) ?? null
}

/** A text, the host to which it leads, and the place that it names. A place is null if the tool refuses the text. */
type Row = readonly [text: string, host: string | null, place: string | null]

const rows: Readonly<Record<Kind, readonly Row[]>> = {
  repository: [
    ['acme/secret', null, 'acme/secret'],
    ['Acme/Secret', null, 'acme/secret'],
    ['https://github.com/acme/secret', 'github.com', 'acme/secret'],
    ['https://github.com/Acme/Secret/issues/7', 'github.com', 'acme/secret'],
    ['acme/open', null, 'acme/open'],
    ['https://github.com/acme/open#acme/secret', 'github.com', 'acme/open'],
    ['https://github.com/acme/open/../secret', 'github.com', null],
    ['http://github.com/acme/secret', 'github.com', null],
    ['https://git.acme.test/acme/secret', 'git.acme.test', null],
    ['git.acme.test/acme/open', 'git.acme.test', null],
    ['secret', null, null],
  ],
  channel: [
    ['#announcements', null, '#announcements'],
    ['announcements', null, '#announcements'],
    ['#random', null, '#random'],
    ['C0123ABCD', null, 'C0123ABCD'],
    ['https://acme.slack.com/archives/C0123ABCD', 'acme.slack.com', 'C0123ABCD'],
    ['https://acme.slack.com/archives/C0123ABCD#x', 'acme.slack.com', null],
    ['https://app.slack.com/client/T0123ABCD/C0123ABCD/details', 'app.slack.com', 'C0123ABCD'],
    ['https://app.slack.com/client/T0123ABCD', 'app.slack.com', null],
    ['https://acme.enterprise.slack.com/archives/C0123ABCD', 'acme.enterprise.slack.com', 'C0123ABCD'],
    ['Announcements', null, null],
  ],
  issue: [
    ['OPS-2', null, 'OPS-2'],
    ['ops-2', null, 'OPS-2'],
    ['https://jira.example/browse/ops-2', 'jira.example', 'OPS-2'],
    ['https://jira.example/boards/1?selectedIssue=OPS-2', 'jira.example', 'OPS-2'],
    ['OPS-22', null, 'OPS-22'],
    ['DEV-2', null, 'DEV-2'],
    ['OPS-02', null, null],
    [' OPS-2', null, null],
  ],
  card: [
    ['AbCdEf12', null, 'AbCdEf12'],
    ['https://trello.com/c/AbCdEf12/7-title', 'trello.com', 'AbCdEf12'],
    ['https://www.trello.com/c/AbCdEf12', 'www.trello.com', 'AbCdEf12'],
    ['abcdef12', null, 'abcdef12'],
    ['https://trello.com/c/abcdef12', 'trello.com', 'abcdef12'],
    ['0123456789abcdef01234567', null, '0123456789abcdef01234567'],
    ['http://trello.com/c/AbCdEf12', 'trello.com', null],
  ],
  file: [
    ['FILE9', null, 'FILE9'],
    ['https://docs.google.com/document/d/FILE9', 'docs.google.com', 'FILE9'],
    ['FILE8', null, 'FILE8'],
    ['no file', null, null],
    ['https://docs.google.com/', 'docs.google.com', null],
  ],
}

/** Links to a Google file, with the file's id. */
export const links: readonly (readonly [text: string, id: string, host: string])[] = [
  ['https://docs.google.com/document/d/FILE1/edit', 'FILE1', 'docs.google.com'],
  ['https://docs.google.com/spreadsheets/u/0/d/FILE1/edit#gid=0', 'FILE1', 'docs.google.com'],
  ['https://drive.google.com/open?id=FILE1', 'FILE1', 'drive.google.com'],
  ['https://drive.google.com/uc?export=download&id=FILE2', 'FILE2', 'drive.google.com'],
  ['https://drive.google.com/drive/folders/FILE2?usp=sharing', 'FILE2', 'drive.google.com'],
  ['docs.google.com/presentation/d/FILE2/mobilepresent', 'FILE2', 'docs.google.com'],
  ['https://docs.google.com/document/d/FILE2/../FILE1/edit', 'FILE1', 'docs.google.com'],
  ['https://sheets.googleapis.com/v4/spreadsheets/FILE1/values/A1', 'FILE1', 'sheets.googleapis.com'],
  ['https://docs.google.com.evil.net/document/d/FILE1', '', 'docs.google.com.evil.net'],
]

/** What the texts of other parameters would be as places. The tools refuse all other ones. */
const ordinary: Readonly<Record<Kind, Readonly<Record<string, string>>>> = {
  repository: {},
  channel: { hello: '#hello', x: '#x', '1': '#1' },
  issue: {},
  card: {},
  file: {
    ...Object.fromEntries(['FILE', 'FILE1', 'FILE2', 'hello', 'x', 'X', '1'].map((id) => [id, id])),
    ...Object.fromEntries(links.flatMap(([text, id]) => (id === '' ? [] : [[text, id]]))),
  },
}

/** The numbers of issues in links to a repository. */
const numberOf: Readonly<Record<string, number>> = { 'https://github.com/Acme/Secret/issues/7': 7 }

/** The parameters of a call as the tool reads them: `repo` can name the issue too. */
export function readParams({ source, tool, params }: Call): JsonObject {
  const [commenting, repo] = placeOfKind.repository
  const text = params[repo]
  const number = typeof text === 'string' ? numberOf[text] : undefined
  return source === 'workflows' && tool === commenting && number !== undefined
    ? { number, ...params }
    : params
}

const placeOf = (kind: Kind, text: string): string | null => {
  const row = rows[kind].find(([each]) => each === text)
  return row === undefined ? (ordinary[kind][text] ?? null) : row[2]
}

/** Texts of rules that are a part of a place, with this part. */
const parts: Readonly<Record<Kind, Readonly<Record<string, string>>>> = {
  repository: {
    'acme/': 'acme/',
    'https://github.com/Acme/': 'acme/',
    'https://git.acme.test/acme/': 'https://git.acme.test/acme/',
    SECRET: 'secret',
  },
  channel: { '#ann': '#ann', ann: 'ann' },
  issue: { 'ops-': 'OPS-', 'https://jira.example/browse/OPS-': 'OPS-' },
  card: { AbC: 'AbC', 'https://trello.com/c/AbC': 'AbC' },
  file: { FILE: 'FILE' },
}

/** The author of a rule surely means the channel without capital letters. A list of exceptions is read strictly. */
const meant: Readonly<Record<string, string>> = { Announcements: '#announcements', X: '#x' }

/**
 * Links in rules to a host that only the connection of an organization knows. The repository or the part of one that
 * they name if this is the host of the connection.
 */
const onHostOfConnection: Readonly<Record<string, { readonly whole: string | null; readonly part: string }>> =
  {
    'http://github.com/acme/secret': { whole: 'acme/secret', part: 'acme/secret' },
    'https://git.acme.test/acme/secret': { whole: 'acme/secret', part: 'acme/secret' },
    'git.acme.test/acme/open': { whole: 'acme/open', part: 'acme/open' },
    'https://git.acme.test/acme/': { whole: null, part: 'acme/' },
  }

export const placeTexts = (kind: Kind): readonly string[] => rows[kind].map(([text]) => text)
export const partTexts = (kind: Kind): readonly string[] => Object.keys(parts[kind])

/** Every text with its host and, for a file, its id. */
export const placeRows: readonly {
  readonly text: string
  readonly host: string | null
  readonly id: string
}[] = kinds.flatMap((kind) =>
  rows[kind].map(([text, host, place]) => ({ text, host, id: kind === 'file' ? (place ?? text) : text })),
)

export interface PlaceReading {
  readonly kind: Kind
  /** null if the tool refuses the text. */
  readonly whole: string | null
  /** The spellings of the place in which a part is looked for. */
  readonly spellings: readonly string[]
}

/** The place that a text of a call names. */
export function placeReading(kind: Kind, text: string): PlaceReading {
  const whole = placeOf(kind, text)
  if (whole === null) return { kind, whole, spellings: [] }
  return { kind, whole, spellings: whole.startsWith('#') ? [whole, whole.slice(1)] : [whole] }
}

export interface WantedPlace {
  /** The place that the text of a rule names. */
  readonly whole: string | null
  /** The same in a list of exceptions. */
  readonly exactly: string | null
  readonly parts: readonly string[]
  /** Places and parts that the text also names where this restricts. */
  readonly restricting: { readonly wholes: readonly string[]; readonly parts: readonly string[] }
}

/** A text of a rule, compared with places of this kind. */
export function wantedPlace(kind: Kind, text: string): WantedPlace {
  const exactly = placeOf(kind, text)
  const whole = exactly ?? (kind === 'channel' ? (meant[text] ?? null) : null)
  const part = parts[kind][text] ?? folded(kind, text)
  return {
    whole,
    exactly,
    parts: whole === null ? [part] : [part, whole],
    restricting: restricting(kind, text),
  }
}

function restricting(kind: Kind, text: string): WantedPlace['restricting'] {
  const linked = kind === 'repository' ? onHostOfConnection[text] : undefined
  if (linked === undefined) return { wholes: [], parts: [] }
  return { wholes: linked.whole === null ? [] : [linked.whole], parts: [linked.part] }
}

/** Repositories do not differ by case, and keys of issues are in capital letters. */
function folded(kind: Kind, text: string): string {
  if (kind === 'repository') return text.toLowerCase()
  return kind === 'issue' ? text.toUpperCase() : text
}
