import { diffLines, diffWordsWithSpace, type Change } from 'diff'
import { h, type ComponentChild } from 'preact'
import type { ApprovalView } from '../../governance/approvals/read.ts'
import { noteOn } from '../../policy/readers/look-alikes.ts'
import { capital, LongText, Plain } from './words.ts'

type PreviewDiff = NonNullable<NonNullable<ApprovalView['preview']>['diff']>

/**
 * If two texts differ by more added and removed lines than this, they are not compared, but shown one below the other.
 * The same limit applies to the added and removed words of two lines.
 */
const mostEdits = 400
/** The number of equal lines that are shown above and below a difference. */
const around = 3

/**
 * Returns the name of the old text (`before`), and a sentence for a call that has no old text (`nothing`). The old text
 * of an agent's call comes from the agent. Any other old text was read when the call was held, so it may be out of
 * date.
 */
const sidesOf = (isAgents: boolean) =>
  isAgents
    ? { before: 'the old text', nothing: '' }
    : { before: 'as it was when the call was held', nothing: 'There was nothing when the call was held. ' }

/** Shows the changes of the call, line by line. */
export function Diff({
  diff: { before, after, skipped },
  isAgents,
}: {
  readonly diff: PreviewDiff
  /**
   * Whether the texts come from an agent. In this case, the service does not know if the file really has the old text.
   */
  readonly isAgents: boolean
}): ComponentChild {
  const sides = sidesOf(isAgents)
  return h('div', { class: 'diff' }, [
    skipped === 0
      ? null
      : h(
          'p',
          { class: 'quiet small' },
          `The first ${skipped.toLocaleString('en')} characters are the same in both.`,
        ),
    before === null
      ? [
          h('p', { class: 'quiet' }, `${sides.nothing}After the call:`),
          h('div', { class: 'added' }, h(LongText, { text: after })),
        ]
      : h(Compared, { before, after, name: sides.before }),
  ])
}

function Compared({
  before,
  after,
  name,
}: {
  readonly before: string
  readonly after: string
  /** Words that describe the old text. */
  readonly name: string
}): ComponentChild {
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
    // These added lines are already shown together with the lines that they replace.
    if (part.added && parts[index - 1]?.removed === true) return null
    if (part.removed) return linesOf(part).map((line) => h(Row, { kind: 'removed', children: plain(line) }))
    if (part.added) return linesOf(part).map((line) => h(Row, { kind: 'added', children: plain(line) }))
    return sameLines(linesOf(part), index === 0, index === parts.length - 1)
  })
}

const plain = (text: string): ComponentChild => h(Plain, { text })

/**
 * Shows removed lines, and the added lines that replace them. If both have the same number of lines, the changed words
 * are marked.
 */
function changedLines(before: readonly string[], after: readonly string[]): ComponentChild[] {
  const pairs =
    before.length === after.length ? before.map((line, at) => wordsOf(line, after[at] ?? '')) : null
  return [
    ...before.map((line, at) => h(Row, { kind: 'removed', children: pairs?.[at]?.removed ?? plain(line) })),
    ...after.map((line, at) => h(Row, { kind: 'added', children: pairs?.[at]?.added ?? plain(line) })),
  ]
}

/**
 * Returns the words of both lines, with a mark on those that differ. Returns null if a line has something that readers
 * could overlook or take for something else: such a line is read as a whole, because its words alone could hide it.
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

function Row({
  kind,
  children,
}: {
  readonly kind: keyof typeof signs
  readonly children: ComponentChild
}): ComponentChild {
  const [sign, words, element] = signs[kind]
  return h('div', { class: `diff-line ${kind}` }, [
    h('span', { class: 'sign', 'aria-hidden': 'true' }, sign),
    h(element, null, [h('span', { class: 'unseen' }, words), children]),
  ])
}
