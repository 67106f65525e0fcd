import { z } from 'zod'
import { shownPath } from '../policy/issues.ts'
import { nameForm } from '../policy/reference.ts'
import { filesInput } from '../policy/templates.ts'
import { labelSlug, list, textField } from '../policy/text.ts'
import type { Json, JsonObject } from '../policy/types.ts'
import { readTime } from '../steps/wait.ts'
import { inputTypes } from './forms.ts'
import { type Issue, jsonIssues, jsonValue, typeOfJson } from './json.ts'

/* The inputs of a workflow, and the fields of a form in a step: what is declared, and the values that fit it. */

export const inputDeclaration = z.strictObject({
  type: z.enum(inputTypes),
  required: z.boolean().optional(),
  default: jsonValue.optional(),
  description: textField(2000, 0).optional(),
  format: z.enum(['date', 'text']).optional().meta({
    description:
      '`date`: a day such as `2026-12-24`. `text`: several lines. The form that starts a run shows it so.',
  }),
  options: z
    .array(textField(200))
    .min(1)
    .max(200)
    .optional()
    .meta({ description: 'The only texts that the input takes' }),
  /** Every run gets them for this input, beside those that its start names. */
  labels: z.array(labelSlug).max(20).optional(),
})

/** A field of the form of a question. */
export const formField = inputDeclaration.omit({ labels: true })

export type InputDeclaration = z.infer<typeof inputDeclaration>
export type InputType = InputDeclaration['type']
type Declared = Readonly<Record<string, InputDeclaration>>

/** How messages name a value, where it stands, and what declares it. */
export interface FieldWords {
  readonly at: string
  readonly word: string
  readonly of: string
}
const ofWorkflow: FieldWords = { at: 'inputs', word: 'input', of: 'workflow' }

export function checkInputDeclarations(
  inputs: Declared,
  { at, word }: Omit<FieldWords, 'of'> = ofWorkflow,
): Issue[] {
  const issues: Issue[] = []
  for (const [input, declaration] of Object.entries(inputs)) {
    const add = (message: string) =>
      issues.push({
        path: `${at}.${input}`,
        message: `${word} \`${input}\`: ${message}`,
      })
    if (!nameForm.test(input)) add('a name has letters, digits, `_` and `-`, and does not start with `-`')
    if (word === ofWorkflow.word && input === filesInput)
      add('`uploaded_files` always exists: choose another name')
    if (
      declaration.type !== 'string' &&
      (declaration.options !== undefined || declaration.format !== undefined)
    )
      add(`only ${word === 'input' ? 'an input' : `a ${word}`} of type string has \`options\` and \`format\``)
    const value = declaration.default
    if (value !== undefined && value !== null && !hasInputType(value, declaration.type)) {
      add(`the default must be of type ${declaration.type}, not ${typeOfJson(value)}`)
    } else if (value !== undefined && value !== null) {
      const problem = problemOf(value, declaration)
      if (problem !== null) add(`the default ${problem}`)
    }
  }
  return issues
}

/** An answer names at most this many fields that are not declared. */
const mostUnknown = 100

/** What is wrong with a value of the right type. Null: nothing. */
function problemOf(value: Json, { format, options }: InputDeclaration): string | null {
  if (options !== undefined && !options.some((each) => each === value))
    return `must be one of ${list(
      options.map((each) => `\`${each}\``),
      'or',
      20,
    )}`
  return format === 'date' && typeof value === 'string' && !isDay(value)
    ? 'must be a day such as `2026-12-24`'
    : null
}

const isDay = (text: string): boolean => /^\d{4}-\d\d-\d\d$/.test(text) && readTime(text, 'UTC') !== null

export function hasInputType(value: Json, type: InputType): boolean {
  return typeOfJson(value) === type
}

/**
 * Incomplete inputs are only for a preview. They get no defaults, because the later run may get other values.
 */
export interface CheckedInputs {
  readonly inputs: JsonObject
  readonly areComplete: boolean
}

/**
 * null counts as not given. An optional input without a value and a default is left out. Only with `mayLack`
 * may a required input be missing. Inputs that are unknown, of the wrong type or cannot be stored as JSON are
 * errors.
 */
export function checkInputs(
  definition: { readonly inputs?: Declared | undefined },
  inputs: JsonObject,
  {
    mayLack = false,
    words: { at, word, of } = ofWorkflow,
  }: { readonly mayLack?: boolean; readonly words?: FieldWords } = {},
): CheckedInputs | Issue[] {
  const declared = Object.entries(definition.inputs ?? {})
  const issues = jsonIssues(inputs, at)
  // A body can have many thousand long names that the workflow does not declare.
  const unknown = Object.keys(inputs).filter((name) => !Object.hasOwn(definition.inputs ?? {}, name))
  for (const name of unknown.slice(0, mostUnknown))
    issues.push({
      path: shownPath([at, name]),
      message: `the ${of} has no ${word} \`${shownPath([name])}\``,
    })
  const given = ([name]: (typeof declared)[number]): Json =>
    Object.hasOwn(inputs, name) ? (inputs[name] ?? null) : null
  const missing = declared.filter(
    (each) => each[1].required === true && (given(each) ?? each[1].default ?? null) === null,
  )
  const areComplete = missing.length === 0
  const known: [string, Json][] = []
  for (const each of declared) {
    const [name, declaration] = each
    const { type, default: fallback } = declaration
    const value = given(each) ?? (areComplete ? (fallback ?? null) : null)
    if (value === null) continue
    if (!hasInputType(value, type)) {
      const message = `${word} \`${name}\` must be of type ${type}, not ${typeOfJson(value)}`
      issues.push({ path: `${at}.${name}`, message })
    } else {
      const problem = problemOf(value, declaration)
      if (problem !== null) issues.push({ path: `${at}.${name}`, message: `${word} \`${name}\` ${problem}` })
      known.push([name, value])
    }
  }
  if (!mayLack)
    for (const [name] of missing)
      issues.push({ path: `${at}.${name}`, message: `${word} \`${name}\` is required` })
  return issues.length > 0 ? issues : { inputs: Object.fromEntries(known), areComplete }
}
