import { h, type ComponentChild } from 'preact'

export interface FieldProps {
  readonly name: string
  readonly label: string
  readonly type?: 'text' | 'email' | 'password'
  readonly autocomplete: string
  readonly most: number
  readonly least?: number
  readonly value?: string
  readonly help?: string
}

/** Shows a required field with its label. The help text is optional. */
export function Field({
  name,
  label,
  type = 'text',
  most,
  least,
  help,
  ...rest
}: FieldProps): ComponentChild {
  const helpId = `${name}-help`
  return h('div', { class: 'stack' }, [
    h('label', { for: name }, label),
    h('input', {
      id: name,
      name,
      type,
      required: true,
      maxlength: most,
      autocomplete: rest.autocomplete,
      spellcheck: false,
      value: rest.value ?? '',
      ...(least === undefined ? {} : { minlength: least }),
      ...(help === undefined ? {} : { 'aria-describedby': helpId }),
    }),
    help === undefined ? null : h('p', { id: helpId, class: 'quiet small' }, help),
  ])
}

/** The field for a new password. */
export const NewPassword = (): ComponentChild =>
  h(Field, {
    name: 'password',
    label: 'New password',
    type: 'password',
    autocomplete: 'new-password',
    least: 8,
    most: 128,
    help: 'At least 8 characters. A long one is better than a strange one.',
  })

export const Email = ({ value }: { readonly value: string }): ComponentChild =>
  h(Field, {
    name: 'email',
    label: 'E-mail address',
    type: 'email',
    autocomplete: 'username',
    most: 254,
    value,
  })

/** The field for a code of an authenticator app, or for a backup code. */
export const Code = (): ComponentChild =>
  h(Field, {
    name: 'code',
    label: 'Code of your authenticator app, or a backup code',
    autocomplete: 'one-time-code',
    most: 40,
  })

/** The field for the first code of an authenticator app that has a new key. */
export const FirstCode = (): ComponentChild =>
  h(Field, { name: 'code', label: 'Code', autocomplete: 'one-time-code', most: 40 })
