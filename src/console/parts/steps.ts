import { h, type ComponentChild } from 'preact'
import type { StepView } from '../../governance/runs/read/read.ts'
import { shownWhat } from '../../steps/index.ts'
import { itemWords } from './items.ts'
import { Labels } from './labels.ts'
import { Live } from './live.ts'
import type { RunShown } from '../run-fields.ts'
import { RunState, stateOf } from './state.ts'
import { duration, Time } from './time.ts'
import { Message, Words } from './words.ts'

/** Maximum number of steps on one page. */
export const stepsPerPage = 100

/**
 * Shows the steps as a list, in the order of the definition. The list says in words everything that the picture shows.
 */
export function Steps({
  run,
  part,
  path,
  version,
  now,
}: {
  readonly run: Pick<RunShown, 'steps'>
  /** The index of the shown part of a long list. The first part has the index 0. */
  readonly part: number
  /** The path of the run's page. */
  readonly path: string
  readonly version: string
  readonly now: Date
}): ComponentChild {
  const from = part * stepsPerPage
  const shown = run.steps.slice(from, from + stepsPerPage)
  return h(Live, { name: 'run-steps', version: `${part}/${version}` }, [
    h('section', { class: 'card', 'aria-labelledby': 'steps' }, [
      h(
        'h2',
        { id: 'steps' },
        run.steps.length === 1 ? 'Step' : `Steps (${run.steps.length.toLocaleString('en')})`,
      ),
      h(
        'ol',
        { class: 'rows', start: from + 1 },
        shown.map((step) => h(Step, { step, address: `${path}/steps/${step.id}`, now })),
      ),
      h(Parts, { count: run.steps.length, part, path }),
    ]),
  ])
}

/** Says when a step that waits for a time goes on. */
export function GoesOn({ step, now }: { readonly step: StepView; readonly now: Date }): ComponentChild {
  if (step.waits_until === null) return null
  return h('span', null, ['goes on ', h(Time, { at: step.waits_until, now, exact: true })])
}

function Step({
  step,
  address,
  now,
}: {
  readonly step: StepView
  readonly address: string
  readonly now: Date
}): ComponentChild {
  const items = itemWords(step)
  return h('li', { class: 'row' }, [
    h('p', { class: 'split' }, [
      h('a', { class: 'item-link', href: address }, h(Words, { text: step.id, most: 100 })),
      h(RunState, { status: stateOf(step) }),
    ]),
    step.summary === null ? null : h('p', { class: 'small' }, h(Words, { text: step.summary, most: 200 })),
    items === null ? null : h('p', { class: 'small' }, items.whole),
    h('div', { class: 'meta' }, [
      h('code', null, h(Words, { text: shownWhat(step), most: 100 })),
      h(After, { step }),
      h(GoesOn, { step, now }),
      step.duration_ms === null || step.status === 'skipped'
        ? null
        : h('span', null, `took ${duration(step.duration_ms)}`),
      step.attempts > 1 ? h('span', null, `${step.attempts} attempts`) : null,
      step.labels.length === 0 ? null : h(Labels, { labels: step.labels }),
    ]),
    step.error === null
      ? null
      : h('p', { class: 'small' }, h(Message, { text: step.error.message, most: 400 })),
  ])
}

/** The row of a step names at most this many steps after the word "after". */
const mostNamed = 8

/**
 * Shows the ids of the steps that this step waits for, but at most `mostNamed` ids. The picture shows lines from these
 * steps, but leaves out lines that follow from other lines.
 */
export function After({ step: { depends_on: needed } }: { readonly step: StepView }): ComponentChild {
  if (needed.length === 0) return null
  return h('span', null, [
    'after ',
    needed
      .slice(0, mostNamed)
      .map((id, index) => [index === 0 ? null : ', ', h(Words, { text: id, most: 60 })]),
    needed.length > mostNamed ? ` and ${needed.length - mostNamed} more` : null,
  ])
}

function Parts({
  count,
  part,
  path,
}: {
  readonly count: number
  readonly part: number
  readonly path: string
}): ComponentChild {
  const parts = Math.ceil(count / stepsPerPage)
  if (parts < 2) return null
  return h('nav', { class: 'pager', 'aria-label': 'Parts of the list of steps' }, [
    Array.from({ length: parts }, (_, index) =>
      h(
        'a',
        {
          class: 'button',
          href: `${path}?steps=${index + 1}#steps`,
          ...(index === part ? { 'aria-current': 'page' } : {}),
        },
        `${index * stepsPerPage + 1}–${Math.min(count, (index + 1) * stepsPerPage)}`,
      ),
    ),
  ])
}
