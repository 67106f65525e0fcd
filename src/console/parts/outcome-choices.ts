import { h, type ComponentChild } from 'preact'
import { OnceField, PostForm } from './layout.ts'

/**
 * The choices for a call whose outcome is unknown. Each choice has a value, the text of its button, and the class of
 * its button.
 */
export const outcomeChoices = [
  ['done', 'It happened: go on', ''],
  ['retry', 'It did not: make it again', ''],
  ['fail', 'Count it as failed', 'danger'],
] as const

/**
 * Shows the form with the buttons of `outcomeChoices`. The browser sends the form to the run's page, so the person sees
 * the run afterwards.
 */
export function OutcomeChoices({
  runId,
  token,
  fields,
  question = 'Look at the service it was sent to, then choose:',
  of = '',
}: {
  readonly runId: string
  readonly token: string
  /** Names and values of the fields that identify the calls. */
  readonly fields: readonly (readonly [string, string])[]
  readonly question?: string
  /** This text distinguishes the buttons of several forms. Only screen readers read the text. */
  readonly of?: string
}): ComponentChild {
  return h(PostForm, { action: `/console/runs/${runId}`, token, class: 'stack' }, [
    h(OnceField, null),
    fields.map(([name, value]) => h('input', { type: 'hidden', name, value })),
    h('p', null, question),
    h(
      'div',
      { class: 'buttons' },
      outcomeChoices.map(([outcome, words, kind]) =>
        h(
          'button',
          { name: 'outcome', value: outcome, ...(kind === '' ? {} : { class: kind }) },
          of === '' ? words : [words, h('span', { class: 'unseen' }, of)],
        ),
      ),
    ),
  ])
}

/** Returns the form fields that name a call and its attempt. The outcome of this attempt is unknown. */
export const callFields = ({
  attempt,
  step_id,
  item_index,
}: {
  readonly attempt: number | null
  readonly step_id: string | null
  readonly item_index: number | null
}): readonly (readonly [string, string])[] => [
  ['step', step_id ?? ''],
  ['attempt', String(attempt ?? '')],
  ...(item_index === null ? [] : [['item_index', String(item_index)] as const]),
]
