import { h, type ComponentChild } from 'preact'
import type { JsonObject } from '../../policy/types.ts'
import { Inputs } from './inputs.ts'
import type { RunSummary } from './outcome.ts'
import { shownWhat } from '../../steps/index.ts'
import { After } from './steps.ts'
import { lengthOf, Values } from './values.ts'
import { mostShown, Words } from './words.ts'

/* Shows what an approval of a whole run covers: the steps with what they call, and the inputs. */

/**
 * At most this many steps are unfolded at first. All other steps are folded, but they are on the page too, because an
 * approval covers all steps.
 */
const mostOpen = 100

/** The parameters of a step are unfolded if they are short, and if the run has few steps. */
const unfolded = { steps: 10, characters: 1_000 } as const

export function WholeRun({
  run,
  mayDecide,
}: {
  readonly run: RunSummary | null
  /** Whether the reader's role may decide the approval. */
  readonly mayDecide: boolean
}): ComponentChild {
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

/** The parameters of a step. The value is `too long` if the page has no more room after the earlier steps. */
type StepCall = JsonObject | 'too long'

/** Returns the parameters of each step as the definition has them. Returns null if the definition is not known. */
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

const StepRows = ({ steps, start, calls }: StepRowsProps): ComponentChild =>
  h(
    'ol',
    { class: 'rows', start },
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
  )

function Called({
  call,
  count,
}: {
  readonly call: StepCall | null
  /** The number of steps of the run. */
  readonly count: number
}): ComponentChild {
  if (call === null) return null
  if (call === 'too long') return h('p', { class: 'alert' }, 'What this step calls is not on this page.')
  const isOpen = count <= unfolded.steps && lengthOf(call) <= unfolded.characters
  return h('details', { open: isOpen }, [h('summary', null, 'Parameters'), h(Values, { values: call })])
}
