import { h } from 'preact'

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

export function Field({ name, label, type = 'text', most, least, help, ...rest }: FieldProps) {
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

export const NewPassword = () =>
  h(Field, {
    name: 'password',
    label: 'New password',
    type: 'password',
    autocomplete: 'new-password',
    least: 8,
    most: 128,
    help: 'At least 8 characters. A long one is better than a strange one.',
  })

export const Email = ({ value }: { value: string }) =>
  h(Field, {
    name: 'email',
    label: 'E-mail address',
    type: 'email',
    autocomplete: 'username',
    most: 254,
    value,
  })

/** Or for a backup code. */
export const Code = () =>
  h(Field, {
    name: 'code',
    label: 'Code of your authenticator app, or a backup code',
    autocomplete: 'one-time-code',
    most: 40,
  })

/** The first code after the authenticator app got a new key. */
export const FirstCode = () =>
  h(Field, { name: 'code', label: 'Code', autocomplete: 'one-time-code', most: 40 })

export const Password = () =>
  h(Field, {
    name: 'password',
    label: 'Password',
    type: 'password',
    autocomplete: 'current-password',
    most: 128,
  })
