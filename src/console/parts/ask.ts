import { h, type ComponentChild } from 'preact'
import { PostForm } from './layout.ts'

/** An act that ends something: the button only opens its form, which asks for a reason. */
export function Ask({
  action,
  token,
  value,
  open,
  explanation,
  sure,
}: {
  readonly action: string
  readonly token: string
  /** The value of the field `action`. */
  readonly value: string
  /** The words that open the form. */
  readonly open: string
  readonly explanation: string
  /** The words of the button that acts. */
  readonly sure: string
}): ComponentChild {
  return h(PostForm, { action, token }, [
    h('input', { type: 'hidden', name: 'once', value: crypto.randomUUID() }),
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

/** A form that is sent twice, by a second tap, acts once. */
export const onceOf = (form: URLSearchParams): { readonly idempotencyKey?: string } => {
  const once = form.get('once') ?? ''
  return /^[\w-]{8,80}$/.test(once) ? { idempotencyKey: once } : {}
}
