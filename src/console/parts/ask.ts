import { h, type ComponentChild } from 'preact'
import { OnceField, PostForm } from './layout.ts'
import { Live } from './live.ts'

/** An act that ends something, as long as it is offered: the button only opens its form, which asks for a reason. */
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
  /** The words that open the form. */
  readonly open: string
  readonly explanation: string
  /** The words of the button that acts. */
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

/** The fields of such a form: a reason only if there is one. */
export const reasonOf = (form: URLSearchParams): { readonly reason?: string } => {
  const reason = (form.get('reason') ?? '').replaceAll('\r\n', '\n').trim()
  return reason === '' ? {} : { reason }
}

/** What a page answers to a form without a button that it knows. */
export const nothingDone = {
  ok: false,
  status: 422,
  code: 'validation_error',
  message: 'Nothing was done: press one of the buttons.',
} as const

/** A form that is sent twice, by a second tap, acts once. */
export const onceOf = (form: URLSearchParams): { readonly idempotencyKey?: string } => {
  const once = form.get('once') ?? ''
  return /^[\w-]{8,80}$/.test(once) ? { idempotencyKey: once } : {}
}
