import type { ComponentChildren } from 'preact'
import type { FieldProblem, Form, PersonsVisit, Problem } from '../visit.ts'
import { OnceField, PostForm } from './layout.tsx'
import { capital, Message, Words } from './words.tsx'

/*
 * Forms. The API checks what they send: `Filled` brings its refusal back to the fields, with what was typed. A field
 * has the name that it has in the body of the route.
 */

export interface Filled {
  /** null before the first try. */
  readonly form: Form | null
  readonly problem: Problem | null
  readonly labels?: Labels
}
export const empty: Filled = { form: null, problem: null }

/** The details about a field: `scopes` also gets those about `scopes.0`. */
export const problemsAt = ({ problem }: Filled, name: string, more: readonly string[] = []) =>
  (problem?.details ?? []).filter(
    ({ path }) => path === name || path.startsWith(`${name}.`) || more.includes(path),
  )

/** The labels of a form's fields, by the names that they have in the body of the route. */
export type Labels = Readonly<Record<string, string>>

/**
 * A refusal in the words of the page: the API names fields as programs know them. Names below a field, as those of
 * inputs, are no fields of the form. `aliases`: fields of the body that stand in another field of the form. `refused` is
 * the head of the message.
 */
export function labelled(filled: Filled, labels: Labels, aliases: Labels = {}, refused?: string): Filled {
  const { problem } = filled
  if (problem?.code !== 'validation_error') return { ...filled, labels }
  const inWords = (text: string): string =>
    text.replace(' (null in a PATCH)', '').replaceAll(/`([a-z_]+)`/g, (found, name: string) => {
      const label = labels[aliases[name] ?? name]
      return label === undefined ? found : `“${label}”`
    })
  const details = (problem.details ?? []).map(({ path, message }) => {
    const [first = '', ...rest] = path.split('.')
    // The label stands before the message.
    const own = labels[path] === undefined ? message : message.replace(/^(input|field) `[^`]*` /, '')
    const isBelow = rest.length > 0 && labels[path] === undefined
    return { path: [aliases[first] ?? first, ...rest].join('.'), message: isBelow ? own : inWords(own) }
  })
  // The API repeats the first detail, and how the body names its field.
  const [first] = (problem.details ?? []).filter(({ message }) => problem.message.includes(message))
  const isOfField =
    first === undefined ? refused !== undefined && details.some(({ path }) => path !== '') : first.path !== ''
  const message = isOfField
    ? (refused ?? 'Nothing was saved. Change this:')
    : (first?.message ?? problem.message)
  return { ...filled, labels, problem: { ...problem, details, message: inWords(message) } }
}

/** Stands above the form: why it was refused, and what to change, with a link to each field that is wrong. */
export function Refused({ filled: { problem, labels = {} } }: { filled: Filled }) {
  if (problem === null) return null
  const about = (problem.details ?? []).filter(({ path }) => path !== '')
  const wrong = Object.groupBy(about, ({ path }) => fieldOf(path, labels))
  return (
    <div class="alert stack" role="alert">
      <p>{problem.message.endsWith(':') ? problem.message : <Message text={problem.message} />}</p>
      {about.length === 0 ? null : (
        <ul class="bullets">
          {Object.entries(wrong)
            .slice(0, mostWrong)
            .map(([name, found]) => (
              <li>
                {labels[name] === undefined ? (
                  <Words text={capital(name.replaceAll('_', ' '))} />
                ) : (
                  <a href={`#${name}`}>{labels[name]}</a>
                )}
                :{' '}
                {found?.slice(0, mostWrong).map(({ message }) => (
                  <>
                    <Message text={message} />{' '}
                  </>
                ))}
              </li>
            ))}
        </ul>
      )}
    </div>
  )
}

/** The field of the form that a path of the body is in; else the path's first part. */
const fieldOf = (path: string, labels: Labels): string =>
  labels[path] === undefined ? (path.split('.')[0] ?? '') : path

/** What is wrong with a field. `marksOf` gives the field the attributes that lead here. */
export function Wrong({ name, wrong }: { name: string; wrong: readonly FieldProblem[] }) {
  return wrong.length === 0 ? null : (
    <p id={`${name}-wrong`} class="wrong small">
      {wrong.slice(0, mostWrong).map(({ path, message }) => (
        <>
          {path === name || path.startsWith(`${name}.`) ? null : <Words text={`${path}: `} />}
          <Message text={message} />{' '}
        </>
      ))}
    </p>
  )
}

const mostWrong = 10

function marksOf(name: string, wrong: readonly FieldProblem[], help: string | undefined) {
  const isWrong = wrong.length > 0
  const ids = [isWrong ? `${name}-wrong` : '', help === undefined ? '' : `${name}-help`].filter(Boolean)
  return {
    ...(isWrong ? { 'aria-invalid': true as const } : {}),
    ...(ids.length === 0 ? {} : { 'aria-describedby': ids.join(' ') }),
  }
}

const Help = ({ name, help }: { name: string; help: string | undefined }) =>
  help === undefined ? null : (
    <p id={`${name}-help`} class="quiet small">
      {help}
    </p>
  )

interface FieldProps {
  readonly name: string
  /** Default: that of the form. */
  readonly label?: string
  readonly type?: 'text' | 'email' | 'password' | 'date' | 'time' | 'datetime-local'
  /** Default: `off`. */
  readonly autocomplete?: string
  readonly most?: number
  readonly least?: number
  readonly value?: string
  readonly help?: string
  readonly filled?: Filled
  /** Several lines. */
  readonly rows?: number
  readonly optional?: true
  /** If the page has several fields with this name. */
  readonly id?: string
  /** Values that the browser offers as somebody types. */
  readonly suggested?: readonly string[]
}

export function Field(props: FieldProps) {
  const { name, type = 'text', most, least, help, autocomplete = 'off', filled = empty, rows } = props
  const { id = name, suggested = [] } = props
  const value = filled.form?.get(name) ?? props.value ?? ''
  const wrong = problemsAt(filled, name)
  const given = {
    id,
    name,
    required: props.optional !== true,
    maxlength: most,
    autocomplete,
    spellcheck: false,
    minlength: least,
    ...(suggested.length === 0 ? {} : { list: `${id}-list` }),
    ...marksOf(name, wrong, help),
  }
  // A union of all types of inputs: the compiler cannot tell that each of these takes the other attributes too.
  const typed = { type } as { readonly type: 'text' }
  return (
    <div class="stack">
      <label for={id}>{props.label ?? filled.labels?.[name]}</label>
      {rows === undefined ? (
        <>
          <input {...typed} value={value} {...given} />
          {suggested.length === 0 ? null : (
            <datalist id={`${id}-list`}>
              {suggested.map((each) => (
                <option value={each} />
              ))}
            </datalist>
          )}
        </>
      ) : (
        <textarea rows={rows} {...given}>
          {/* A browser leaves out the first line break. */}
          {value.startsWith('\n') ? `\n${value}` : value}
        </textarea>
      )}
      <Wrong name={name} wrong={wrong} />
      <Help name={name} help={help} />
    </div>
  )
}

/** What was chosen is not shown again: browsers do not take a file from a page. */
export function FileField({ name, help, filled = empty }: Pick<FieldProps, 'name' | 'help' | 'filled'>) {
  const wrong = problemsAt(filled, name)
  return (
    <div class="stack">
      <label for={name}>{filled.labels?.[name]}</label>
      <input type="file" id={name} name={name} {...marksOf(name, wrong, help)} />
      <Wrong name={name} wrong={wrong} />
      <Help name={name} help={help} />
    </div>
  )
}

interface SelectProps {
  readonly name: string
  readonly label?: string
  /** Value and text. */
  readonly options: readonly (readonly [string, string])[]
  readonly value?: string
  readonly help?: string
  readonly filled?: Filled
  /** If the page has several fields with this name. */
  readonly id?: string
}

export function Select(props: SelectProps) {
  const { name, options, help, filled = empty, id = name } = props
  const value = filled.form?.get(name) ?? props.value
  const wrong = problemsAt(filled, name)
  return (
    <div class="stack">
      <label for={id}>{props.label ?? filled.labels?.[name]}</label>
      <select id={id} name={name} {...marksOf(name, wrong, help)}>
        {options.map(([each, words]) => (
          <option value={each} selected={each === value}>
            {words}
          </option>
        ))}
      </select>
      <Wrong name={name} wrong={wrong} />
      <Help name={name} help={help} />
    </div>
  )
}

export type FieldOrSelect = FieldProps | SelectProps

/** Fields of one form, one below the other. One with `options` is a list to choose from. */
export const Fields = (props: { filled: Filled; fields: readonly FieldOrSelect[] }) => (
  <>
    {props.fields.map((each) =>
      'options' in each ? (
        <Select {...each} filled={props.filled} />
      ) : (
        <Field {...each} filled={props.filled} />
      ),
    )}
  </>
)

/** Check boxes with one name. */
export function Checks(props: {
  readonly name: string
  /** Value and text. */
  readonly options: readonly (readonly [string, string])[]
  readonly checked: readonly string[]
  readonly help?: string
  readonly filled?: Filled
  readonly children?: ComponentChildren
}) {
  const { name, options, help, filled = empty, children } = props
  const wrong = problemsAt(filled, name)
  const checked = filled.form?.getAll(name) ?? props.checked
  return (
    <fieldset id={name} class="checks stack" tabindex={-1} {...marksOf(name, wrong, help)}>
      <legend>{filled.labels?.[name]}</legend>
      <Wrong name={name} wrong={wrong} />
      <div class="check-group">
        {options.map(([value, words]) => (
          <label class="check">
            <input type="checkbox" name={name} value={value} checked={checked.includes(value)} />
            {words}
          </label>
        ))}
      </div>
      {children}
      <Help name={name} help={help} />
    </fieldset>
  )
}

/** A button for an action that ends something. It unfolds the question, so it needs no script. */
export function Confirm(props: {
  readonly action: string
  readonly token: string
  /** The value of the field `action`. */
  readonly value: string
  readonly open: string
  readonly explanation: string
  /** The text of the button that sends the form. */
  readonly sure: string
  readonly children?: ComponentChildren
}) {
  const { action, token, value, open, explanation, sure, children } = props
  return (
    <PostForm action={action} token={token}>
      <OnceField />
      <details class="ask">
        <summary class="button danger">{open}</summary>
        <div class="note stack">
          <p>{explanation}</p>
          {children}
          <button name="action" value={value} class="danger">
            {sure}
          </button>
        </div>
      </details>
    </PostForm>
  )
}

/** What a form was made from, so that nobody undoes unseen what somebody else has changed meanwhile. */
export const Seen = ({ value, filled }: { value: unknown; filled: Filled }) => (
  <input type="hidden" name="seen" value={filled.form?.get('seen') ?? JSON.stringify(value ?? null)} />
)

/** null if the form was made from this. */
export const changedSince = (form: Form, now: unknown): (Problem & { readonly ok: false }) | null =>
  form.get('seen') === JSON.stringify(now ?? null) ? null : changedMeanwhile

const changedMeanwhile: Problem & { readonly ok: false } = {
  ok: false,
  status: 409,
  code: 'conflict',
  message:
    'somebody else changed it meanwhile, and nothing was saved: load the page again, and repeat your change',
}

/** What a form has done. Its answer leads to the page with `done` in the address, which names one of the results. */
export function Told({ visit: { query }, results }: { visit: PersonsVisit; results: Labels }) {
  const done = query.get('done') ?? ''
  return Object.hasOwn(results, done) ? (
    <p class="note" role="status">
      {results[done]}
    </p>
  ) : null
}

/** With this key, a form takes effect only once, even if a second tap sends it again. */
export const onceOf = (form: Form): { readonly idempotencyKey?: string } => {
  const once = form.get('once') ?? ''
  return /^[\w-]{8,80}$/.test(once) ? { idempotencyKey: once } : {}
}

export const NewPassword = () => (
  <Field
    name="password"
    label="New password"
    type="password"
    autocomplete="new-password"
    least={8}
    most={128}
    help="At least 8 characters, and not one of the usual ones. A long one is better than a strange one."
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
