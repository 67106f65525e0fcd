import { h, type ComponentChild } from 'preact'
import type { StepView } from '../../governance/runs/read/read.ts'
import { effectWord } from '../../policy/explain.ts'
import { capital, Words } from './words.ts'

/*
 * A state is shown as a word and an icon. The colour only repeats the meaning of the word.
 */

export type Tone = 'wait' | 'good' | 'bad' | 'off' | 'warn' | 'hold' | 'go'

/** Each icon is a path in a box of 16 by 16. */
const icons = {
  wait: 'M8 1.5a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13Zm0 3V8l2.5 1.5',
  good: 'M3 8.5 6.5 12 13 4.5',
  bad: 'M4 4l8 8M12 4l-8 8',
  off: 'M3 8h10',
  hold: 'M5.5 3.5v9M10.5 3.5v9',
  go: 'M5 3.2v9.6L12.5 8Z',
  warn: 'M8 2 1.5 13.5h13L8 2Zm0 4.5v3.5m0 1.7v.3',
  person: 'M8 8a3 3 0 1 0 0-6 3 3 0 0 0 0 6Zm-6 6.5c.6-3 3-4.5 6-4.5s5.4 1.5 6 4.5',
  filter: 'M2 4h12M4.5 8h7M7 12h2',
} as const satisfies Record<Tone | 'person' | 'filter', string>

export function Icon({ name }: { readonly name: keyof typeof icons }): ComponentChild {
  return h(
    'svg',
    { class: 'icon', viewBox: '0 0 16 16', width: 16, height: 16, 'aria-hidden': 'true', focusable: 'false' },
    h('path', {
      d: icons[name],
      fill: 'none',
      stroke: 'currentColor',
      'stroke-width': 1.8,
      'stroke-linecap': 'round',
      'stroke-linejoin': 'round',
    }),
  )
}

export function Badge({ tone, word }: { readonly tone: Tone; readonly word: string }): ComponentChild {
  return h('span', { class: `badge ${tone}` }, [h(Icon, { name: tone }), word])
}

const approvalStates: Readonly<Record<string, readonly [Tone, string]>> = {
  pending: ['wait', 'Waiting for a decision'],
  approved: ['good', 'Approved'],
  rejected: ['bad', 'Rejected'],
  cancelled: ['off', 'Withdrawn'],
  expired: ['off', 'Expired'],
}

export function ApprovalState({ status }: { readonly status: string }): ComponentChild {
  const [tone, word] = approvalStates[status] ?? ['off', status]
  return h(Badge, { tone, word })
}

const riskTones: Readonly<Record<string, Tone>> = {
  low: 'off',
  medium: 'warn',
  high: 'warn',
  critical: 'bad',
}

export function Risk({ level }: { readonly level: string }): ComponentChild {
  return h(Badge, {
    tone: riskTones[level] ?? 'warn',
    word: `${capital(level)} risk`,
  })
}

const runStates: Readonly<Record<string, readonly [Tone, string]>> = {
  queued: ['wait', 'Queued'],
  awaiting_approval: ['hold', 'Awaits approval'],
  running: ['go', 'Running'],
  paused: ['hold', 'Paused'],
  completed: ['good', 'Completed'],
  failed: ['bad', 'Failed'],
  denied: ['bad', 'Denied'],
  rejected: ['bad', 'Rejected'],
  expired: ['off', 'Expired'],
  cancelled: ['off', 'Cancelled'],
  pending: ['off', 'Not started'],
  held: ['hold', 'Waits for approval'],
  waiting: ['wait', 'Waits'],
  skipped: ['off', 'Skipped'],
  unknown_outcome: ['warn', 'Outcome unknown'],
  intent: ['go', 'Starting'],
  sent: ['go', 'Running'],
  retry: ['wait', 'Tried again'],
  superseded: ['off', 'Ended without an outcome'],
}

/** Returns the word for the state of a run, a step or a call. */
export const wordOf = (status: string): string => runStates[status]?.[1] ?? status

export const toneOf = (status: string): Tone => runStates[status]?.[0] ?? 'off'

/** Returns the state of a step as pages show it: only a step with a tool is held for an approval. */
export const stateOf = ({ kind, status }: Pick<StepView, 'kind' | 'status'>): string =>
  kind !== 'tool' && status === 'held' ? 'waiting' : status

/** Shows the state of a run, or of one of its steps or calls. */
export function RunState({ status }: { readonly status: string }): ComponentChild {
  return h(Badge, { tone: toneOf(status), word: wordOf(status) })
}

/** Shows a host. It runs from left to right, whatever stands around it. */
export const Host = ({ host }: { readonly host: string }): ComponentChild =>
  h('bdi', { dir: 'ltr' }, h(Words, { text: host, most: 253 }))

/** A call with this side effect needs no warning, because it only reads. */
const harmless = 'read'

/** Returns the title of a side effect. The explanations of rules use the same words. */
export const effectTitle = (effect: string): string => capital(effectWord(effect))

export const Effect = ({ effect }: { readonly effect: string }): ComponentChild =>
  h(Badge, { tone: effect === harmless ? 'off' : 'warn', word: effectTitle(effect) })
