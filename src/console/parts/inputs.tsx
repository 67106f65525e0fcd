import type { InputDeclaration } from '../../contract/inputs.ts'
import { list, quote } from '../../policy/text.ts'
import type { Json, JsonObject } from '../../policy/types.ts'
import type { Form, Problem } from '../visit.ts'
import { Field, Select, type Filled, type Labels } from './form.tsx'
import { capital } from './words.tsx'

/* The fields of a form that is made from declarations: the inputs of a workflow, or the answer to a question. */

export type Declared = Readonly<Record<string, InputDeclaration>>

/** `at`: the name of the object in the body of the route. */
export const labelsOf = (declared: Declared, at: string): Labels =>
  Object.fromEntries(Object.keys(declared).map((name) => [`${at}.${name}`, wordsOf(name)]))

const wordsOf = (name: string): string => capital(name.replaceAll(/[_-]+/g, ' ').trim())

/** `filled` has the labels. */
export const InputFields = (props: { declared: Declared; at: string; filled: Filled }) =>
  Object.entries(props.declared).map(([name, declaration]) => (
    <Input name={`${props.at}.${name}`} declaration={declaration} filled={props.filled} />
  ))

/** The same for values that may be expressions, such as `example`: each is a text. `values`: the present ones. */
export const ExpressionFields = (props: {
  declared: Declared
  at: string
  values: JsonObject
  example: string | null
  filled: Filled
}) =>
  Object.entries(props.declared).map(([name, declaration], place) => {
    const { description, options, type, required } = declaration
    const help = [
      description,
      options === undefined ? undefined : `One of ${list(options.map(quote), 'and')}.`,
      type === 'string' ? undefined : 'As JSON, if it is no expression.',
      place === 0 && props.example !== null
        ? `A value, or an expression such as ${props.example}.`
        : undefined,
    ]
    const path = `${props.at}.${name}`
    const value = asText(props.values[name])
    // A field of one line would lose the line breaks.
    const isLong =
      type === 'array' || type === 'object' || declaration.format === 'text' || value.includes('\n')
    return (
      <Field
        name={path}
        label={`${props.filled.labels?.[path] ?? name}${required === true ? '' : ' (optional)'}`}
        optional
        most={20_000}
        {...(isLong ? { rows: 3 } : {})}
        value={value}
        help={help.filter((each) => each !== undefined).join(' ')}
        filled={props.filled}
      />
    )
  })

/** A text that a field of this type has as its value. */
export const asText = (value: Json | undefined): string =>
  value === undefined || value === null ? '' : typeof value === 'string' ? value : JSON.stringify(value)

const examples = { array: '["a", "b"]', object: '{"name": "a"}' } as const

function Input(props: { name: string; declaration: InputDeclaration; filled: Filled }) {
  const { name, declaration, filled } = props
  const { type, description, format, options, required } = declaration
  const isOptional = required !== true || declaration.default !== undefined
  const label = filled.labels?.[name] ?? name
  const shared = {
    name,
    label: isOptional ? `${label} (optional)` : label,
    value: asText(declaration.default),
    filled,
    ...(description === undefined ? {} : { help: description }),
  }
  // Nothing is chosen until a person chooses it.
  const none = [['', isOptional ? 'No choice' : 'Choose'] as const]
  if (options !== undefined)
    return <Select {...shared} options={[...none, ...options.map((each) => [each, each] as const)]} />
  if (type === 'boolean') return <Select {...shared} options={[...none, ['true', 'Yes'], ['false', 'No']]} />
  const isLong = type === 'array' || type === 'object' || format === 'text'
  return (
    <Field
      {...shared}
      {...(isOptional ? { optional: true as const } : {})}
      {...(isLong ? { rows: 6 } : {})}
      {...(format === 'date' ? { type: 'date' as const } : {})}
      {...(type === 'array' || type === 'object'
        ? { help: `${description === undefined ? '' : `${description} `}As JSON, such as ${examples[type]}.` }
        : {})}
    />
  )
}

/**
 * An empty field is a value that was not given. `refused` is the head of the message. With `expressions`, a text with `{{`
 * is a value of each type.
 */
export function readFields(
  declared: Declared,
  form: Form,
  {
    at,
    refused,
    expressions = false,
  }: { readonly at: string; readonly refused: string; readonly expressions?: boolean },
): { readonly values: JsonObject } | { readonly problem: Problem } {
  const details: { path: string; message: string }[] = []
  const read = Object.entries(declared).flatMap(([name, declaration]): [string, Json][] => {
    const text = form.get(`${at}.${name}`) ?? ''
    if (text.trim() === '') return []
    if (declaration.type === 'string') return [[name, text.replaceAll('\r\n', '\n')]]
    try {
      return [[name, JSON.parse(text.trim()) as Json]]
    } catch {
      if (expressions && text.includes('{{')) return [[name, text.trim()]]
      const message = declaration.type === 'number' ? 'must be a number, such as 12.5' : 'must be JSON'
      details.push({ path: `${at}.${name}`, message })
      return []
    }
  })
  if (details.length === 0) return { values: Object.fromEntries(read) }
  return { problem: { status: 422, code: 'validation_error', message: refused, details } }
}
