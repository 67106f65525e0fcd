import type { ComponentChild } from 'preact'
import { serviceDomain } from '../../contract/ids.ts'
import {
  connectionsPath,
  groupsPath,
  inboxPath,
  keysPath,
  labelRulePath,
  rulesPath,
  secondFactorPath,
  settingsPath,
  toolsPath,
} from '../../contract/pages.ts'
import {
  isListOfPointers,
  piecesOf,
  visible,
  type Part,
  type TextKind,
} from '../../policy/readers/look-alikes.ts'
import { Moment } from './time.tsx'

export function Alert({ message }: { message: string | null }) {
  return message === null ? null : (
    <p class="alert" role="alert">
      <Message text={message} />
    </p>
  )
}

/*
 * Text from outside the service is always plain text, and cannot change how the rest of the page looks. Whatever a
 * reader could overlook or take for something else has a mark (src/policy/readers/look-alikes.ts).
 */

/** If a text has more, the notes of all marks are written as plain text. */
const mostMarks = 2_000

function marked(text: string, kind: TextKind): ComponentChild[] {
  const pieces = piecesOf(text, kind, mostMarks)
  if (pieces === null) return [visible(text, kind)]
  return pieces.map(({ isLeftToRight, parts }) =>
    isLeftToRight ? <bdi dir="ltr">{parts.map(partIn)}</bdi> : parts.map(partIn),
  )
}

function partIn(part: Part): ComponentChild {
  if (part.kind === 'plain') return part.text
  if (part.kind === 'letters')
    return (
      <span class="look-alike" title="look closely at these letters">
        {part.text}
      </span>
    )
  const title = part.kind === 'hidden' ? 'what the eye does not see here' : 'what the word before is'
  return (
    <span class="hidden-character" title={title}>
      {part.note}
    </span>
  )
}

export function Words({ text, most = 300, kind = 'name' }: { text: string; most?: number; kind?: TextKind }) {
  const cut = text.length > most ? `${text.slice(0, most).toWellFormed()}…` : text
  const line = cut.replaceAll(/[\n\t]/g, ' ')
  return (
    <bdi
      class={unbroken.test(line) ? 'words unbroken' : 'words'}
      {...(isListOfPointers(line) ? { dir: 'ltr' } : {})}
    >
      {marked(line, kind)}
    </bdi>
  )
}

/** A table breaks so long a word. Most mail addresses are shorter. */
const unbroken = /\S{29}/

export const Plain = ({ text }: { text: string }) => <bdi class="words">{marked(text, 'text')}</bdi>

/** The pages where people do what the API's messages name as a route or a setting. */
const pages: readonly (readonly [said: RegExp, path: (id: string) => string, words: string])[] = [
  [/^\w+ \/tools\/[^/]+\/connect$/, () => connectionsPath, 'Connections'],
  [/^GET \/tools$/, () => toolsPath, 'Policies and tools'],
  [/^GET \/integrations$/, () => connectionsPath, 'Connections'],
  [/^GET \/scopes$/, () => keysPath, 'Keys'],
  [/^POST \/organizations\/[^/]+\/groups$/, () => groupsPath, 'Groups'],
  [/^PATCH \/organizations\/[^/]+\/governance$/, () => settingsPath, 'Settings'],
  [/^external_tools$/, () => `${settingsPath}#setting-external_tools`, 'Settings'],
  [/^PATCH \/organizations\/[^/]+\/rules\/(\w+)$/, (id) => `${rulesPath}/${id}`, 'Rules'],
  [/^PATCH \/organizations\/[^/]+\/label-rules\/(\w+)$/, labelRulePath, 'Rules'],
  [/^POST \/approvals\/(\w+)\/\w+$/, (id) => `${inboxPath}/${id}`, 'Approvals'],
  [/^POST \/api-keys\/[^/]+\/confirm$/, () => keysPath, 'Keys'],
  [/^POST \/agent-sessions\/(\w+)\/revoke$/, (id) => `/console/sessions/${id}`, 'Agents'],
  [/^POST \/api\/auth\/two-factor\/\S+$/, () => secondFactorPath, 'Second factor'],
]

/** A name or a value; a link if it says where something is done. */
function Quoted({ text }: { text: string }) {
  for (const [said, path, words] of pages) {
    const found = said.exec(text)
    if (found !== null)
      return (
        <>
          the page <a href={path(found[1] ?? '')}>{words}</a>
        </>
      )
  }
  return (
    <code class="quoted">
      <Words text={text} />
    </code>
  )
}

/** A sentence of the service, with names and values in backticks. A route that it names is a link to the page. */
export function Sentence({ text }: { text: string }) {
  const parts = text.slice(0, 4_000).toWellFormed().split('`')
  const isPaired = parts.length % 2 === 1
  return (
    <span>
      {parts.map((part, index) =>
        isPaired && index % 2 === 1 ? (
          <Quoted text={part} />
        ) : (
          (isPaired || index === 0 ? part : `\`${part}`)
            .split(moment)
            .map((each, at) =>
              at % 2 === 1 ? <Moment at={each} /> : <Words text={each} most={4_000} kind="sentence" />,
            )
        ),
      )}
    </span>
  )
}

const moment = /(\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?Z)/

/** A mail address at the beginning stays as it is. */
export const capital = (text: string): string =>
  /^\S+@/.test(text) ? text : text.charAt(0).toUpperCase() + text.slice(1)

/** The name in the address of a service account; any other address as it is. */
export const whoOf = (email: string): string =>
  email.endsWith(`@${serviceDomain}`) ? email.replace(/-[a-z0-9]{8}@.*$/, '') : email

/** With a capital letter and a full stop. */
export function Message({ text, most = 4_000 }: { text: string; most?: number }) {
  const cut = text.length > most ? `${text.slice(0, most).toWellFormed()}…` : text
  const whole = cut === '' || /[.!?…]`?$/.test(cut) ? cut : `${cut}.`
  return <Sentence text={capital(whole)} />
}

/** A longer text is folded to its `beginning`, which is much less, so that folding always hides a large part. */
const mostUnfolded = { characters: 800, lines: 16 } as const
const beginning = { characters: 500, lines: 10 } as const

/** Characters in one part of a page. A longer part would be slow to render and to read. */
export const mostShown = 1_500_000

/** A tab, a line that begins and ends with `|`, or a gap of three spaces: a table needs characters of equal width. */
const table = /\t|^\|.*\|$|\S {3,}\S/m

/** JSON is shown as the service writes it. */
export type LongKind = Extract<TextKind, 'command' | 'json' | 'text'>

/** Exact, with its line breaks. A long text is folded. */
export function LongText(props: { text: string; most?: number; kind?: LongKind }) {
  const { text, most = mostShown, kind = 'text' } = props
  if (text.length > most)
    return (
      <div class="long">
        <CutText text={text} most={most} kind={kind} />
      </div>
    )
  const isCommand = kind === 'command'
  const look = isCommand || table.test(text.slice(0, 5_000)) ? 'text code' : 'text'
  const given = { class: look, dir: isCommand || isListOfPointers(text) ? 'ltr' : 'auto' } as const
  const lines = text.split('\n', mostUnfolded.lines + 1)
  if (text.length <= mostUnfolded.characters && lines.length <= mostUnfolded.lines)
    return <div {...given}>{marked(text, kind)}</div>
  const shown = lines.slice(0, beginning.lines).join('\n').slice(0, beginning.characters).toWellFormed()
  return (
    <div class="long">
      <div {...given}>{marked(shown, kind)}…</div>
      <details>
        <summary>{`Show all ${text.length.toLocaleString('en')} characters`}</summary>
        <div {...given}>{marked(text, kind)}</div>
      </details>
    </div>
  )
}

function CutText({ text, most, kind }: { text: string; most: number; kind: LongKind }) {
  const missing = (text.length - most).toLocaleString('en')
  return (
    <>
      <LongText text={text.slice(0, most).toWellFormed()} kind={kind} />
      <p class="alert">{`${missing} more characters are not on this page.`}</p>
    </>
  )
}

/** The name alone could look like the product's. */
export const OrganizationName = ({ name }: { name: string }) => (
  <>
    Organization: <Words text={name} />
  </>
)

/** If an id is longer, only the first and the last `end` characters are shown. */
const most = 20
const end = 8

/** As its client gave it. Several ids can begin with the same characters, so the end is shown too. */
export function SessionId({ id }: { id: string }) {
  const text = id.length <= most ? id : `${id.slice(0, end).toWellFormed()}…${id.slice(-end).toWellFormed()}`
  return (
    <code>
      <Words text={text} />
    </code>
  )
}
