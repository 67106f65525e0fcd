import type { ApprovalView } from '../visit.ts'
import type { ComponentChild } from 'preact'
import { diffLines, diffWordsWithSpace, type Change } from 'diff'
import type { JsonObject } from '../../policy/types.ts'
import { shownOfShell } from '../../policy/shell-params.ts'
import { Facts, Hidden, Values, lengthOf, Inputs, type Fields } from './values.tsx'
import { Host } from './state.tsx'
import type { RunSummary } from './outcome.tsx'
import { visible, noteOn } from '../../policy/readers/look-alikes.ts'
import { LongText, Words, mostShown, capital, Plain } from './words.tsx'
import { shownWhat } from '../../steps/index.ts'
import { After } from './steps.tsx'

const past: Readonly<Record<string, string>> = { read: 'read', write: 'changed', egress: 'sent' }

/** Claims only what is known: that the call was asked for, approved or made. */
function headingOf({ kind, status, side_effect }: ApprovalView, isDone: boolean): string {
  const what = past[side_effect ?? 'write'] ?? 'done'
  if (kind === 'run') return status === 'pending' ? 'What would run' : 'What was asked for'
  const isAgents = kind === 'agent_call'
  if (isDone) return isAgents ? 'What the agent did, as its client reports' : `What was ${what}`
  if (status === 'approved') return isAgents ? 'What the agent may do' : 'What was approved'
  if (status !== 'pending' || kind === 'revision') return 'What was asked for'
  return isAgents ? 'What the agent would do' : `What would be ${what}`
}

/** Like the heading, claims only what is known. */
function exactTitle({ kind, status }: ApprovalView, isDone: boolean): string {
  if (isDone) return kind === 'agent_call' ? 'Exactly as it was allowed' : 'Exactly as it ran'
  if (kind === 'revision') return 'Exactly as it was asked for'
  if (status === 'pending') return 'Exactly as it will run'
  return status === 'approved' ? 'Exactly as it was approved' : 'Exactly as it was asked for'
}

interface ContentsProps {
  readonly approval: ApprovalView
  /** Only for an approval of a whole run. null if it was not read. */
  readonly run: RunSummary | null
  readonly mayDecide: boolean
  readonly isDone: boolean
  /** The connection that the call would use is there no more. */
  readonly isDisconnected?: boolean
}

/** Exactly what the approval covers: the parameters of a call, or the steps and inputs of a whole run. */
export function Contents(props: ContentsProps) {
  return (
    <section aria-labelledby="contents">
      <h2 id="contents">{headingOf(props.approval, props.isDone)}</h2>
      {props.approval.kind === 'run' ? <WholeRun {...props} /> : <OneCall {...props} />}
    </section>
  )
}

function OneCall({ approval, isDone, isDisconnected = false }: ContentsProps) {
  const { params, params_hash, tool, summary, preview, values_hidden: hidden } = approval
  const note = preview?.note === undefined ? null : <Words text={preview.note} most={1_000} />
  // The note on an agent's difference explains it, and stands below. Other notes are warnings, and stand above.
  const isDrawn = approval.kind === 'agent_call' && (preview?.diff?.before ?? null) !== null
  return (
    <>
      {summary === null ? null : (
        <p class="quiet">
          The workflow says of this step: <Words text={summary} most={500} />
        </p>
      )}
      {hidden === undefined ? null : <Hidden hidden={hidden} />}
      {params === undefined ? null : (
        <>
          {note !== null && !isDrawn ? <p class="note">{note}</p> : null}
          {preview?.diff === undefined ? null : (
            <Diff diff={preview.diff} sides={sidesOf(approval.kind === 'agent_call')} />
          )}
          {note !== null && isDrawn ? <p class="quiet small">{note}</p> : null}
          <Parameters approval={approval} params={params} />
          <Around approval={approval} params={params} />
          {isDisconnected ? (
            <p class="alert">This connection was revoked: if it is approved, the call fails.</p>
          ) : null}
          <details class="exact">
            <summary>{exactTitle(approval, isDone)}</summary>
            <p>
              Tool{' '}
              <code>
                <Words text={tool ?? ''} />
              </code>
            </p>
            <LongText text={JSON.stringify(params, null, 2)} kind="json" />
            <p class="quiet small">
              SHA-256 of tool and parameters: <code>{params_hash}</code>
            </p>
          </details>
        </>
      )}
    </>
  )
}

/** A text that the difference above already shows is folded. */
function Parameters({ approval, params }: { approval: ApprovalView; params: Fields }) {
  const { before, after, skipped } = approval.preview?.diff ?? { before: null, after: '', skipped: 0 }
  const isAbove = ([, value]: readonly [string, unknown]): boolean =>
    before !== null && skipped === 0 && (value === before || value === after)
  const shown = approval.kind === 'agent_call' ? shownOfShell(approval.tool, params as JsonObject) : params
  const all = Object.entries(inOrder(approval, shown))
  const [above, others] = [all.filter(isAbove), all.filter((entry) => !isAbove(entry))]
  return (
    <>
      {others.length === 0 ? null : <Values values={Object.fromEntries(others)} />}
      {above.length === 0 ? null : (
        <details class="exact">
          <summary>{`In full: ${above.map(([name]) => visible(name).slice(0, 40)).join(' and ')}`}</summary>
          <Values values={Object.fromEntries(above)} />
        </details>
      )}
    </>
  )
}

/** What was read for the approvers besides the parameters: the connection, and what the service says. */
function Around({ approval: { preview }, params }: { approval: ApprovalView; params: Fields }) {
  const fields = (preview?.fields ?? []).filter(
    ({ name, said_by: host }) =>
      host !== undefined || (name === 'connection' && !Object.hasOwn(params, name)),
  )
  if (fields.length === 0) return null
  return (
    <Facts
      facts={fields.map(({ name, value, said_by: host }): readonly [string, ComponentChild] => {
        const text = <Words text={value} most={500} />
        if (host === undefined) return [name, text]
        return [
          name,
          [
            <span class="quiet">
              <Host host={host} /> says:{' '}
            </span>,
            text,
          ],
        ]
      })}
    />
  )
}

function inOrder({ preview }: ApprovalView, params: Fields): Fields {
  const names = (preview?.fields ?? []).map(({ name }) => name).filter((name) => Object.hasOwn(params, name))
  return Object.fromEntries(
    [...new Set([...names, ...Object.keys(params)])].map((name) => [name, params[name] ?? null]),
  )
}

/* What an approval of a whole run covers: the steps with what they call, and the inputs. */

/** The other steps are folded, but on the page too, because an approval covers all steps. */
const mostOpen = 100

/** In a run with few steps, short parameters are unfolded. */
const unfolded = { steps: 10, characters: 1_000 } as const

function WholeRun({ run, mayDecide }: { run: RunSummary | null; mayDecide: boolean }) {
  const rest = 'A rule may still hold a single call.'
  if (run === null) return <p>{`All steps of the workflow. ${rest}`}</p>
  const { steps } = run
  const calls = callsOf(run)
  const folded = steps.slice(mostOpen)
  return (
    <>
      <p>{`${steps.length === 1 ? 'This step' : `These ${steps.length} steps`}. ${rest}`}</p>
      {hasTemplates(calls) ? (
        <p class="quiet small">
          Words in <code>{'{{…}}'}</code> stand for inputs, and for results that are known only during the
          run.
        </p>
      ) : null}
      <StepRows steps={steps.slice(0, mostOpen)} start={1} calls={calls} />
      {folded.length === 0 ? null : (
        <details>
          <summary>{`${folded.length.toLocaleString('en')} more steps`}</summary>
          <StepRows steps={folded} start={mostOpen + 1} calls={calls} />
        </details>
      )}
      {mayDecide && calls === null ? (
        <p class="note">What the steps call could not be read. Load the page again.</p>
      ) : null}
      <h3>Inputs of the run</h3>
      <Inputs run={run} />
    </>
  )
}

/** `too long` if the page has no more room after the earlier steps. */
type StepCall = Fields | 'too long'

function callsOf({ definition }: RunSummary): ReadonlyMap<string, StepCall> | null {
  if (!definition) return null
  let left = mostShown
  return new Map(
    definition.steps.map(({ id, params, when, for_each: forEach }) => {
      // A definition has come from JSON, so its parts are JSON too.
      const call = {
        ...params,
        ...(forEach === undefined ? {} : { 'once for each item of': forEach }),
        ...(when === undefined ? {} : { 'only if': when }),
      } as Fields
      left -= lengthOf(call)
      return [id, left < 0 ? 'too long' : call] as const
    }),
  )
}

const hasTemplates = (calls: ReadonlyMap<string, StepCall> | null): boolean =>
  calls !== null && [...calls.values()].some((call) => JSON.stringify(call).includes('{{'))

interface StepRowsProps {
  readonly steps: RunSummary['steps']
  /** The number of the first of these steps in the run, counted from 1. */
  readonly start: number
  readonly calls: ReadonlyMap<string, StepCall> | null
}

const StepRows = ({ steps, start, calls }: StepRowsProps) => (
  <ol class="rows" start={start}>
    {steps.map((step) => (
      <li class="row">
        <p>
          <strong>
            <Words text={step.id} most={100} />
          </strong>{' '}
          <code>
            <Words text={shownWhat(step)} most={100} />
          </code>
        </p>
        {step.summary === null ? null : (
          <p>
            <Words text={step.summary} most={500} />
          </p>
        )}
        <div class="meta">
          <After step={step} />
        </div>
        <Called call={calls?.get(step.id) ?? null} count={calls?.size ?? 0} />
      </li>
    ))}
  </ol>
)

function Called({ call, count }: { readonly call: StepCall | null; readonly count: number }) {
  if (call === null) return null
  if (call === 'too long') return <p class="alert">What this step calls is not on this page.</p>
  const isOpen = count <= unfolded.steps && lengthOf(call) <= unfolded.characters
  return (
    <details open={isOpen}>
      <summary>Parameters</summary>
      <Values values={call} />
    </details>
  )
}

type PreviewDiff = NonNullable<NonNullable<ApprovalView['preview']>['diff']>

/** With more added and removed lines, texts are shown one below the other; so the words of two lines. */
const mostEdits = 400
/** Equal lines above and below a difference. */
const around = 3

/** An agent's old text comes from the agent. Any other was read when the call was held. */
const sidesOf = (isAgents: boolean): Sides => ({
  ...(isAgents
    ? { before: 'the old text', nothing: '' }
    : { before: 'as it was when the call was held', nothing: 'There was nothing when the call was held. ' }),
  after: 'after the call',
})

/** What the texts of a difference are, in words. */
export interface Sides {
  readonly before: string
  readonly nothing: string
  readonly after: string
}

/** `json`: both texts are JSON that the service itself has indented. */
export function Diff({
  diff: { before, after, skipped },
  sides,
  kind = 'text',
}: {
  readonly diff: PreviewDiff
  readonly sides: Sides
  readonly kind?: DiffKind
}) {
  return (
    <div class="diff">
      {skipped === 0 ? null : (
        <p class="quiet small">{`The first ${skipped.toLocaleString('en')} characters are the same in both.`}</p>
      )}
      {before === after ? (
        <>
          <p class="quiet">It stays the same:</p>
          <LongText text={after} kind={kind} />
        </>
      ) : before === null ? (
        <>
          <p class="quiet">{`${sides.nothing}${capital(sides.after)}:`}</p>
          <div class="added">
            <LongText text={after} kind={kind} />
          </div>
        </>
      ) : (
        <Compared before={before} after={after} sides={sides} kind={kind} />
      )}
    </div>
  )
}

type DiffKind = 'text' | 'json'

function Compared(props: { before: string; after: string; sides: Sides; kind: DiffKind }) {
  const { before, after, sides, kind } = props
  const parts = diffLines(before, after, { maxEditLength: mostEdits })
  if (parts === undefined)
    return (
      <>
        <h3>{capital(sides.before)}</h3>
        <div class="removed">
          <LongText text={before} kind={kind} />
        </div>
        <h3>{capital(sides.after)}</h3>
        <div class="added">
          <LongText text={after} kind={kind} />
        </div>
      </>
    )
  return (
    <>
      <p class="quiet small">
        <span class="sign">−</span>
        {` ${sides.before}, `}
        <span class="sign">+</span>
        {` ${sides.after}`}
      </p>
      <div class="diff-lines">{rowsOf(parts, kind)}</div>
    </>
  )
}

const linesOf = ({ value }: Change): string[] => value.replace(/\n$/, '').split('\n')

function rowsOf(parts: readonly Change[], kind: DiffKind): ComponentChild[] {
  const plain = plainLine[kind]
  return parts.map((part, index) => {
    const next = parts[index + 1]
    if (part.removed && next?.added === true) return changedLines(linesOf(part), linesOf(next), plain)
    // Already shown with the lines that they replace.
    if (part.added && parts[index - 1]?.removed === true) return null
    if (part.removed) return linesOf(part).map((line) => <Row kind="removed" children={plain(line)} />)
    if (part.added) return linesOf(part).map((line) => <Row kind="added" children={plain(line)} />)
    return sameLines(linesOf(part), plain, index === 0, index === parts.length - 1)
  })
}

/** The blanks at the beginning of a line of JSON are ours: a line break in a value is written as `\\n`. */
const plainLine = {
  text: (line: string) => <Plain text={line} />,
  json: (line: string) => {
    const words = line.trimStart()
    return (
      <>
        {line.slice(0, line.length - words.length)}
        <Plain text={words} />
      </>
    )
  },
} as const
type PlainLine = (typeof plainLine)[DiffKind]

/** If both have the same number of lines, the changed words are marked. */
function changedLines(
  before: readonly string[],
  after: readonly string[],
  plain: PlainLine,
): ComponentChild[] {
  const pairs =
    before.length === after.length
      ? before.map((line, at) => wordsOf(line, after[at] ?? '', plain === plainLine.json))
      : null
  return [
    ...before.map((line, at) => <Row kind="removed" children={pairs?.[at]?.removed ?? plain(line)} />),
    ...after.map((line, at) => <Row kind="added" children={pairs?.[at]?.added ?? plain(line)} />),
  ]
}

/**
 * null if a line has something that readers could overlook or take for something else: its words alone could hide it.
 */
function wordsOf(
  before: string,
  after: string,
  isJson: boolean,
): Record<'removed' | 'added', ComponentChild> | null {
  if ([before, after].some((line) => noteOn(isJson ? line.trimStart() : line) !== undefined)) return null
  const words = diffWordsWithSpace(before, after, { maxEditLength: mostEdits })
  if (words === undefined) return null
  const side = (kind: 'removed' | 'added', other: 'removed' | 'added') =>
    words.flatMap((word) => (word[other] ? [] : [word[kind] ? <mark>{word.value}</mark> : word.value]))
  return { removed: side('removed', 'added'), added: side('added', 'removed') }
}

function sameLines(
  lines: readonly string[],
  plain: PlainLine,
  isFirst: boolean,
  isLast: boolean,
): ComponentChild {
  const head = isFirst ? 0 : around
  const tail = isLast ? 0 : around
  const row = (line: string) => <Row kind="same" children={plain(line)} />
  if (lines.length <= head + tail + 1) return lines.map(row)
  const left = lines.length - head - tail
  return (
    <>
      {lines.slice(0, head).map(row)}
      <p class="quiet small">{`… ${left} equal lines`}</p>
      {lines.slice(lines.length - tail).map(row)}
    </>
  )
}

const signs = {
  removed: ['−', 'removed: ', 'del'],
  added: ['+', 'added: ', 'ins'],
  same: [' ', '', 'span'],
} as const

function Row({ kind, children }: { kind: keyof typeof signs; children: ComponentChild }) {
  const [sign, words, Line] = signs[kind]
  return (
    <div class={`diff-line ${kind}`}>
      <span class="sign" aria-hidden="true">
        {sign}
      </span>
      <Line>
        <span class="unseen">{words}</span>
        {children}
      </Line>
    </div>
  )
}
