import { h, type ComponentChild } from 'preact'
import { diffLines, diffWordsWithSpace, type Change } from 'diff'
import type { ApprovalView } from '../../governance/approvals/read.ts'
import { shownOfShell } from '../../policy/shell-params.ts'
import type { JsonObject } from '../../policy/types.ts'
import { Facts, Values, lengthOf, Inputs } from './values.ts'
import { Host } from './state.ts'
import type { RunSummary } from './outcome.ts'
import { visible, noteOn } from '../../policy/readers/look-alikes.ts'
import { LongText, Words, mostShown, capital, Plain } from './words.ts'
import { shownWhat } from '../../steps/index.ts'
import { After } from './steps.ts'

const past: Readonly<Record<string, string>> = { read: 'read', write: 'changed', egress: 'sent' }

/** Claims only what is known: that the call was asked for, approved or made. */
function headingOf({ kind, status, side_effect }: ApprovalView, isDone: boolean): string {
  const what = past[side_effect ?? 'write'] ?? 'done'
  if (kind === 'run') return status === 'pending' ? 'What would run' : 'What was asked for'
  const isAgents = kind === 'agent_call'
  if (isDone) return isAgents ? 'What the agent did, as its client reports' : `What was ${what}`
  if (status === 'approved') return isAgents ? 'What the agent may do' : 'What was approved'
  if (status !== 'pending') return 'What was asked for'
  return isAgents ? 'What the agent would do' : `What would be ${what}`
}

/** Like the heading, claims only what is known. */
function exactTitle({ kind, status }: ApprovalView, isDone: boolean): string {
  if (isDone) return kind === 'agent_call' ? 'Exactly as it was allowed' : 'Exactly as it ran'
  if (status === 'pending') return 'Exactly as it will run'
  return status === 'approved' ? 'Exactly as it was approved' : 'Exactly as it was asked for'
}

interface ContentsProps {
  readonly approval: ApprovalView
  /** Only for an approval of a whole run. null if it was not read. */
  readonly run: RunSummary | null
  readonly mayDecide: boolean
  readonly isDone: boolean
}

/** Exactly what the approval covers: the parameters of a call, or the steps and inputs of a whole run. */
export function Contents(props: ContentsProps) {
  return h('section', { 'aria-labelledby': 'contents' }, [
    h('h2', { id: 'contents' }, headingOf(props.approval, props.isDone)),
    h(props.approval.kind === 'run' ? WholeRun : OneCall, props),
  ])
}

function OneCall({ approval, isDone }: ContentsProps) {
  const { params, params_hash, tool, summary, preview } = approval
  const note = preview?.note === undefined ? null : h(Words, { text: preview.note, most: 1_000 })
  // The note on an agent's difference explains it, and stands below. Other notes are warnings, and stand above.
  const isDrawn = approval.kind === 'agent_call' && (preview?.diff?.before ?? null) !== null
  return [
    summary === null
      ? null
      : h('p', { class: 'quiet' }, [
          'The workflow says of this step: ',
          h(Words, { text: summary, most: 500 }),
        ]),
    params === undefined
      ? h('p', { class: 'quiet' }, 'Only people who may decide see the parameters.')
      : [
          note !== null && !isDrawn ? h('p', { class: 'note' }, note) : null,
          preview?.diff === undefined
            ? null
            : h(Diff, { diff: preview.diff, isAgents: approval.kind === 'agent_call' }),
          note !== null && isDrawn ? h('p', { class: 'quiet small' }, note) : null,
          h(Parameters, { approval, params }),
          h(Around, { approval, params }),
          h('details', { class: 'exact' }, [
            h('summary', null, exactTitle(approval, isDone)),
            h('p', null, ['Tool ', h('code', null, h(Words, { text: tool ?? '' }))]),
            h(LongText, { text: JSON.stringify(params, null, 2), kind: 'json' }),
            h('p', { class: 'quiet small' }, [
              'SHA-256 of tool and parameters: ',
              h('code', null, params_hash),
            ]),
          ]),
        ],
  ]
}

/** A text that the difference above already shows is folded. */
function Parameters({ approval, params }: { approval: ApprovalView; params: JsonObject }) {
  const { before, after, skipped } = approval.preview?.diff ?? { before: null, after: '', skipped: 0 }
  const isAbove = ([, value]: readonly [string, unknown]): boolean =>
    before !== null && skipped === 0 && (value === before || value === after)
  const shown = approval.kind === 'agent_call' ? shownOfShell(approval.tool, params) : params
  const all = Object.entries(inOrder(approval, shown))
  const [above, others] = [all.filter(isAbove), all.filter((entry) => !isAbove(entry))]
  return [
    others.length === 0 ? null : h(Values, { values: Object.fromEntries(others) }),
    above.length === 0
      ? null
      : h('details', { class: 'exact' }, [
          h('summary', null, `In full: ${above.map(([name]) => visible(name).slice(0, 40)).join(' and ')}`),
          h(Values, { values: Object.fromEntries(above) }),
        ]),
  ]
}

/** What was read for the approvers besides the parameters: the connection, and what the service says. */
function Around({ approval: { preview }, params }: { approval: ApprovalView; params: JsonObject }) {
  const fields = (preview?.fields ?? []).filter(
    ({ name, said_by: host }) =>
      host !== undefined || (name === 'connection' && !Object.hasOwn(params, name)),
  )
  if (fields.length === 0) return null
  return h(Facts, {
    facts: fields.map(({ name, value, said_by: host }): readonly [string, ComponentChild] => {
      const text = h(Words, { text: value, most: 500 })
      if (host === undefined) return [name, text]
      return [name, [h('span', { class: 'quiet' }, [h(Host, { host }), ' says: ']), text]]
    }),
  })
}

function inOrder({ preview }: ApprovalView, params: JsonObject): JsonObject {
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
  if (run === null) return h('p', null, `All steps of the workflow. ${rest}`)
  const { steps } = run
  const calls = callsOf(run)
  const folded = steps.slice(mostOpen)
  return [
    h('p', null, `${steps.length === 1 ? 'This step' : `These ${steps.length} steps`}. ${rest}`),
    hasTemplates(calls)
      ? h('p', { class: 'quiet small' }, [
          'Words in ',
          h('code', null, '{{…}}'),
          ' stand for inputs, and for results that are known only during the run.',
        ])
      : null,
    h(StepRows, { steps: steps.slice(0, mostOpen), start: 1, calls }),
    folded.length === 0
      ? null
      : h('details', null, [
          h('summary', null, `${folded.length.toLocaleString('en')} more steps`),
          h(StepRows, { steps: folded, start: mostOpen + 1, calls }),
        ]),
    mayDecide && calls === null
      ? h('p', { class: 'note' }, 'What the steps call could not be read. Load the page again.')
      : null,
    h('h3', null, 'Inputs of the run'),
    h(Inputs, { run, areShown: mayDecide }),
    mayDecide
      ? null
      : h('p', { class: 'quiet' }, 'Only people who may decide see the parameters and the values of inputs.'),
  ]
}

/** `too long` if the page has no more room after the earlier steps. */
type StepCall = JsonObject | 'too long'

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
      } as JsonObject
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

const StepRows = ({ steps, start, calls }: StepRowsProps) =>
  h('ol', { class: 'rows', start }, [
    steps.map((step) =>
      h('li', { class: 'row' }, [
        h('p', null, [
          h('strong', null, h(Words, { text: step.id, most: 100 })),
          ' ',
          h('code', null, h(Words, { text: shownWhat(step), most: 100 })),
        ]),
        step.summary === null ? null : h('p', null, h(Words, { text: step.summary, most: 500 })),
        h('div', { class: 'meta' }, h(After, { step })),
        h(Called, { call: calls?.get(step.id) ?? null, count: calls?.size ?? 0 }),
      ]),
    ),
  ])

function Called({ call, count }: { readonly call: StepCall | null; readonly count: number }) {
  if (call === null) return null
  if (call === 'too long') return h('p', { class: 'alert' }, 'What this step calls is not on this page.')
  const isOpen = count <= unfolded.steps && lengthOf(call) <= unfolded.characters
  return h('details', { open: isOpen }, [h('summary', null, 'Parameters'), h(Values, { values: call })])
}

type PreviewDiff = NonNullable<NonNullable<ApprovalView['preview']>['diff']>

/** With more added and removed lines, texts are shown one below the other; so the words of two lines. */
const mostEdits = 400
/** Equal lines above and below a difference. */
const around = 3

/** An agent's old text comes from the agent. Any other was read when the call was held. */
const sidesOf = (isAgents: boolean) =>
  isAgents
    ? { before: 'the old text', nothing: '' }
    : { before: 'as it was when the call was held', nothing: 'There was nothing when the call was held. ' }

function Diff({
  diff: { before, after, skipped },
  isAgents,
}: {
  readonly diff: PreviewDiff
  /** Whether the texts come from an agent: then the service does not know if the file has the old text. */
  readonly isAgents: boolean
}) {
  const sides = sidesOf(isAgents)
  return h('div', { class: 'diff' }, [
    skipped === 0
      ? null
      : h('p', { class: 'quiet small' }, [
          `The first ${skipped.toLocaleString('en')} characters are the same in both.`,
        ]),
    before === null
      ? [
          h('p', { class: 'quiet' }, `${sides.nothing}After the call:`),
          h('div', { class: 'added' }, h(LongText, { text: after })),
        ]
      : h(Compared, { before, after, name: sides.before }),
  ])
}

function Compared({ before, after, name }: { before: string; after: string; name: string }) {
  const parts = diffLines(before, after, { maxEditLength: mostEdits })
  if (parts === undefined)
    return [
      h('h3', null, capital(name)),
      h('div', { class: 'removed' }, h(LongText, { text: before })),
      h('h3', null, 'After the call'),
      h('div', { class: 'added' }, h(LongText, { text: after })),
    ]
  return [
    h('p', { class: 'quiet small' }, [
      h('span', { class: 'sign' }, '−'),
      ` ${name}, `,
      h('span', { class: 'sign' }, '+'),
      ' after the call',
    ]),
    h('div', { class: 'diff-lines' }, rowsOf(parts)),
  ]
}

const linesOf = ({ value }: Change): string[] => value.replace(/\n$/, '').split('\n')

function rowsOf(parts: readonly Change[]): ComponentChild[] {
  return parts.map((part, index) => {
    const next = parts[index + 1]
    if (part.removed && next?.added === true) return changedLines(linesOf(part), linesOf(next))
    // Already shown with the lines that they replace.
    if (part.added && parts[index - 1]?.removed === true) return null
    if (part.removed) return linesOf(part).map((line) => h(Row, { kind: 'removed', children: plain(line) }))
    if (part.added) return linesOf(part).map((line) => h(Row, { kind: 'added', children: plain(line) }))
    return sameLines(linesOf(part), index === 0, index === parts.length - 1)
  })
}

const plain = (text: string) => h(Plain, { text })

/** If both have the same number of lines, the changed words are marked. */
function changedLines(before: readonly string[], after: readonly string[]): ComponentChild[] {
  const pairs =
    before.length === after.length ? before.map((line, at) => wordsOf(line, after[at] ?? '')) : null
  return [
    ...before.map((line, at) => h(Row, { kind: 'removed', children: pairs?.[at]?.removed ?? plain(line) })),
    ...after.map((line, at) => h(Row, { kind: 'added', children: pairs?.[at]?.added ?? plain(line) })),
  ]
}

/**
 * null if a line has something that readers could overlook or take for something else: its words alone could hide it.
 */
function wordsOf(before: string, after: string): Record<'removed' | 'added', ComponentChild> | null {
  if ([before, after].some((line) => noteOn(line) !== undefined)) return null
  const words = diffWordsWithSpace(before, after, { maxEditLength: mostEdits })
  if (words === undefined) return null
  const side = (kind: 'removed' | 'added', other: 'removed' | 'added') =>
    words.flatMap((word) => (word[other] ? [] : [word[kind] ? h('mark', null, word.value) : word.value]))
  return { removed: side('removed', 'added'), added: side('added', 'removed') }
}

function sameLines(lines: readonly string[], isFirst: boolean, isLast: boolean): ComponentChild[] {
  const head = isFirst ? 0 : around
  const tail = isLast ? 0 : around
  const row = (line: string) => h(Row, { kind: 'same', children: plain(line) })
  if (lines.length <= head + tail + 1) return lines.map(row)
  const left = lines.length - head - tail
  return [
    ...lines.slice(0, head).map(row),
    h('p', { class: 'quiet small' }, `… ${left} equal lines`),
    ...lines.slice(lines.length - tail).map(row),
  ]
}

const signs = {
  removed: ['−', 'removed: ', 'del'],
  added: ['+', 'added: ', 'ins'],
  same: [' ', '', 'span'],
} as const

function Row({ kind, children }: { kind: keyof typeof signs; children: ComponentChild }) {
  const [sign, words, element] = signs[kind]
  return h('div', { class: `diff-line ${kind}` }, [
    h('span', { class: 'sign', 'aria-hidden': 'true' }, sign),
    h(element, null, [h('span', { class: 'unseen' }, words), children]),
  ])
}
