import { z } from 'zod'
import type { Form } from '../contract/forms.ts'
import { inputForm, textForm, typeOf, words, writtenForm } from '../contract/forms.ts'
import { checkInputDeclarations, checkInputs, formField } from '../contract/inputs.ts'
import { type Issue, jsonValue, typeOfJson } from '../contract/json.ts'
import { escalate, expires, lateIssues, waited } from '../policy/rule.ts'
import { templates } from '../policy/template-syntax.ts'
import { groupName, list, nameField, quote, textField } from '../policy/text.ts'
import type { Json, JsonObject } from '../policy/types.ts'
import { defineKind, noCall, pausing } from './kind.ts'

const mostShown = 50
const mostFields = 20
/** Characters of one text in an answer. */
const mostText = 10_000

const question = z.strictObject({
  to: z
    .union(
      [
        z.literal('requester'),
        z.strictObject({ group: groupName }),
        z.strictObject({ person: textField(10_000) }),
      ],
      {
        error:
          'must be `requester`, a group such as `{"group": "sales"}`, or a person such as `{"person": "tom@example.com"}`',
      },
    )
    .meta({
      description:
        '`requester` is the person who started the run. A person is a member’s mail address, or a template that gives one.',
    }),
  title: nameField(200).meta({
    description:
      'One line without templates, because it goes to mail and chat. Values that people need stand in `show`.',
  }),
  show: z
    .record(nameField(100), jsonValue)
    .refine((values) => Object.keys(values).length <= mostShown, `has at most ${mostShown} values`)
    .optional()
    .meta({
      description: `Values with templates, at most ${mostShown}. Only the page of the question shows them.`,
    }),
  choices: z
    .array(nameField(200))
    .min(2, 'give at least two choices')
    .max(20)
    .refine((choices) => new Set(choices).size === choices.length, 'names a choice twice')
    .optional()
    .meta({ description: 'The possible answers. Give `choices` or `form`.' }),
  form: z
    .record(textField(100), formField)
    .refine((fields) => Object.keys(fields).length > 0, 'needs at least one field')
    .refine((fields) => Object.keys(fields).length <= mostFields, `has at most ${mostFields} fields`)
    .optional()
    .meta({
      description: `Fields as in \`inputs\` of a definition, at most ${mostFields}. A text in the answer has at most ${mostText.toLocaleString('en-US')} characters.`,
    }),
  expires_after_seconds: expires.optional(),
  remind_after_seconds: waited.optional(),
  escalate: escalate.optional(),
  otherwise: jsonValue.optional().meta({
    description:
      'The answer if nobody answers in time. Without it, the step then ends as `expired`. A plain value, without templates.',
  }),
})
export type Question = z.infer<typeof question>

const fields = {
  ask: question.optional().meta({
    description:
      'Asks a person. The run waits at this step, and the answer is its output: `{{steps.ID.output.answer}}`, with who answered in `by`. It is no approval: rules decide what follows.',
  }),
}

const ofAnswer = { at: 'answer', word: 'field', of: 'form' } as const

/** The answer as it is stored, in which each field of the form has a value or null; or what is wrong with it. */
export function checkAnswer(
  { choices, form }: Question,
  answer: Json,
  at = 'answer',
): { readonly answer: Json } | Issue[] {
  if (choices !== undefined)
    return choices.some((each) => each === answer)
      ? { answer }
      : [{ path: at, message: `must be one of ${list(choices.map(quote), 'or', choices.length)}` }]
  if (typeOfJson(answer) !== 'object')
    return [{ path: at, message: `must be an object with the fields of the form, not ${typeOfJson(answer)}` }]
  const checked = checkInputs({ inputs: form }, answer as JsonObject, { words: { ...ofAnswer, at } })
  if (Array.isArray(checked)) return checked
  const values = Object.keys(form ?? {}).map((name) => [name, checked.inputs[name] ?? null] as const)
  const long = values.filter(([, value]) => hasLongText(value))
  if (long.length === 0) return { answer: Object.fromEntries(values) }
  const message = `has a text with more than ${mostText.toLocaleString('en-US')} characters: shorten it`
  return long.map(([name]) => ({ path: `${at}.${name}`, message: `field \`${name}\` ${message}` }))
}

const hasLongText = (value: Json): boolean =>
  typeof value === 'string'
    ? value.length > mostText
    : typeof value === 'object' && value !== null && Object.values(value).some(hasLongText)

/** What stands in for an answer. Null: nothing. */
export function standIn(asked: Question): Json | null {
  if (asked.otherwise === undefined) return null
  const checked = checkAnswer(asked, asked.otherwise)
  return Array.isArray(checked) ? null : checked.answer
}

/** A step that asks a person and waits for the answer. It makes no call, so no rule is about it. */
export const ask = defineKind({
  name: 'ask',
  fields,
  values: 'ask',
  check({ ask: given }, { formOf }): Issue[] {
    if (given === undefined) return []
    const { to, choices, form, otherwise, show: _, ...plain } = given
    const issues: Issue[] = []
    const add = (path: string, message: string): unknown => issues.push({ path: `ask${path}`, message })
    if ((choices === undefined) === (form === undefined)) add('', 'an `ask` has either `choices` or a `form`')
    const texts = { ...plain, choices: choices ?? [], form: form ?? {}, otherwise: otherwise ?? null }
    for (const [name, value] of Object.entries(texts))
      if (templates(value as Json).length > 0)
        add(`.${name}`, `\`${name}\` is plain text: put values into \`show\``)
    if (typeof to === 'object' && 'person' in to) {
      const type = typeOf(writtenForm(to.person, formOf))
      if (type !== null && type !== 'string')
        add('.to.person', `must be a mail address, and this is ${words[type]}`)
      else if (templates(to.person).length === 0 && !to.person.includes('@'))
        add('.to.person', 'must be the mail address of a member')
    }
    if (form !== undefined) issues.push(...checkInputDeclarations(form, { at: 'ask.form', word: 'field' }))
    if (otherwise !== undefined && (choices === undefined) !== (form === undefined)) {
      const checked = checkAnswer(given, otherwise, 'ask.otherwise')
      if (Array.isArray(checked)) issues.push(...checked)
    }
    const approver = typeof to === 'object' ? to : { person: to }
    for (const { path, message } of lateIssues({ ...given, approver })) add(`.${path.join('.')}`, message)
    return issues
  },
  output: ({ ask: given }): Form => ({
    type: 'object',
    properties: { answer: answerForm(given), by: textForm, at: textForm },
    additionalProperties: false,
  }),
  plan: ({ ask: given = {} }, { trustsAnswers }) => ({
    ...noCall(given),
    outputLabels: trustsAnswers ? [] : ['untrusted'],
  }),
  skeleton: ({ id }) => ({ ...pausing('ask', id), title: `the question of ${id}` }),
  waits: ({ ask: given }) => (given === undefined ? null : `an answer of ${askedWords(given)}`),
  run: { as: 'ask' },
})

const answerForm = (given: Question | undefined): Form =>
  given?.form === undefined
    ? textForm
    : {
        type: 'object',
        properties: Object.fromEntries(
          Object.entries(given.form).map(([name, { type }]) => [name, inputForm(type)]),
        ),
        additionalProperties: false,
      }

const askedWords = ({ to }: Question): string => {
  if (to === 'requester') return 'the person who started the run'
  return 'group' in to ? `a member of ${quote(to.group)}` : to.person
}
