import { h, type ComponentChild } from 'preact'
import type { ApprovalView } from '../../governance/approvals/read.ts'
import { LongText } from './words.ts'

type PreviewDiff = NonNullable<NonNullable<ApprovalView['preview']>['diff']>

/** The text before the change and after it. */
export function Diff({ diff: { before, after, skipped } }: { readonly diff: PreviewDiff }): ComponentChild {
  return h('div', { class: 'diff' }, [
    skipped === 0
      ? null
      : h(
          'p',
          { class: 'quiet small' },
          `The first ${skipped.toLocaleString('en')} characters are the same in both.`,
        ),
    h('h3', null, 'Now'),
    before === null
      ? h('p', { class: 'quiet' }, 'There is nothing yet.')
      : h('div', { class: 'before' }, h(LongText, { text: before })),
    h('h3', null, 'After the call'),
    h('div', { class: 'after' }, h(LongText, { text: after })),
  ])
}
