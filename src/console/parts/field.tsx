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

export function Field({
  name,
  label,
  type = 'text',
  most,
  least,
  help,
  autocomplete,
  value = '',
}: FieldProps) {
  const helpId = `${name}-help`
  // A union of all types of inputs: the compiler cannot tell that each of these takes the other attributes too.
  const typed = { type } as { readonly type: 'text' }
  return (
    <div class="stack">
      <label for={name}>{label}</label>
      <input
        id={name}
        name={name}
        {...typed}
        required
        maxlength={most}
        autocomplete={autocomplete}
        spellcheck={false}
        value={value}
        minlength={least}
        aria-describedby={help && helpId}
      />
      {help === undefined ? null : (
        <p id={helpId} class="quiet small">
          {help}
        </p>
      )}
    </div>
  )
}

export const NewPassword = () => (
  <Field
    name="password"
    label="New password"
    type="password"
    autocomplete="new-password"
    least={8}
    most={128}
    help="At least 8 characters. A long one is better than a strange one."
  />
)

export const Email = ({ value }: { value: string }) => (
  <Field name="email" label="E-mail address" type="email" autocomplete="username" most={254} value={value} />
)

/** Or for a backup code. */
export const Code = () => (
  <Field
    name="code"
    label="Code of your authenticator app, or a backup code"
    autocomplete="one-time-code"
    most={40}
  />
)

/** The first code after the authenticator app got a new key. */
export const FirstCode = () => <Field name="code" label="Code" autocomplete="one-time-code" most={40} />

export const Password = () => (
  <Field name="password" label="Password" type="password" autocomplete="current-password" most={128} />
)
