import { h, type ComponentChild } from 'preact'
import { OnceField, PostForm } from './layout.ts'
import { Live } from './live.ts'

/**
 * Shows a button for an action that ends something, such as a run. The button opens a form that asks for a reason.
 * Shows nothing if the action is not offered (`isOffered`).
 */
export function Ask({
  name,
  isOffered,
  ...form
}: { readonly name: string; readonly isOffered: boolean } & AskForm): ComponentChild {
  return h(Live, { name, version: String(isOffered) }, isOffered ? h(Form, form) : null)
}

interface AskForm {
  readonly action: string
  readonly token: string
  /** The value of the field `action`. */
  readonly value: string
  /** The text of the button that opens the form. */
  readonly open: string
  readonly explanation: string
  /** The text of the button that sends the form. */
  readonly sure: string
}

function Form({ action, token, value, open, explanation, sure }: AskForm): ComponentChild {
  return h(PostForm, { action, token }, [
    h(OnceField, null),
    h('details', { class: 'ask' }, [
      h('summary', { class: 'button danger' }, open),
      h('div', { class: 'note stack' }, [
        h('p', null, explanation),
        h('label', { for: 'reason' }, 'Reason'),
        h('textarea', { id: 'reason', name: 'reason', rows: 2, maxlength: 500 }),
        h('button', { name: 'action', value, class: 'danger' }, sure),
      ]),
    ]),
  ])
}

/** Returns the reason from the form. If the person gave none, the result has no field `reason`. */
export const reasonOf = (form: URLSearchParams): { readonly reason?: string } => {
  const reason = (form.get('reason') ?? '').replaceAll('\r\n', '\n').trim()
  return reason === '' ? {} : { reason }
}

/** A page's answer to a form that was sent without a known button. */
export const nothingDone = {
  ok: false,
  status: 422,
  code: 'validation_error',
  message: 'Nothing was done: press one of the buttons.',
} as const

/**
 * Returns the idempotency key of a form. With this key, a form takes effect only once, even if a second tap sends it
 * again.
 */
export const onceOf = (form: URLSearchParams): { readonly idempotencyKey?: string } => {
  const once = form.get('once') ?? ''
  return /^[\w-]{8,80}$/.test(once) ? { idempotencyKey: once } : {}
}
