import { z } from 'zod'
import type { ToolDeclaration } from '../tools/kit/tool.ts'
import { isTemplate, parseText, type Template } from '../policy/template-syntax.ts'
import { operatorHint, placeOfItem, type Roots, type Segment, type WithPath } from '../policy/reference.ts'
import type { Json, JsonObject } from '../policy/types.ts'

/** The possible values at one position, as a part of JSON Schema. `true` means any value. */
export type Form = true | FormObject
interface FormObject {
  readonly type?: string | readonly string[]
  readonly properties?: Readonly<Record<string, Form>>
  readonly additionalProperties?: Form | false
  readonly items?: Form
  readonly prefixItems?: readonly Form[]
  readonly anyOf?: readonly Form[]
  readonly oneOf?: readonly Form[]
}

type OneType = FormObject & { readonly type: string }

export const textForm: Form = { type: 'string' }
export const numberForm: Form = { type: 'number' }
export const listForm = (items: Form): Form => ({ type: 'array', items })
/** A workflow can declare these types for its inputs. */
export const inputTypes = ['string', 'number', 'boolean', 'array', 'object'] as const

export const inputForm = (type: JsonType): Form => ({ type })
export const outputForm = (tool: ToolDeclaration): Form =>
  z.toJSONSchema(tool.output, { unrepresentable: 'any' }) as Form

/** The form of an output whose fields depend on the parameters of the step. */
export function outputFormFor(tool: ToolDeclaration, params: JsonObject): Form {
  const form = outputForm(tool)
  if (form === true || tool.formOf === undefined) return form
  const properties = Object.entries({ ...form.properties, ...tool.formOf(params) })
  const known = properties.flatMap(([name, each]) => (each === null ? [] : [[name, each as Form] as const]))
  return { ...form, properties: Object.fromEntries(known) }
}

/** A value with more forms counts as any value, because each reference to it is looked up in all of them. */
const mostOptions = 100

/** The results of `options`, stored because many references can lead to one form. */
const known = new WeakMap<FormObject, readonly OneType[] | null>()

/**
 * Returns one form for each type, without null. Returns null if the form allows any value, has more than
 * `mostOptions` parts, or has no known type.
 */
function options(form: Form): readonly OneType[] | null {
  if (form === true) return null
  let found = known.get(form)
  if (found === undefined) known.set(form, (found = readOptions(form)))
  return found
}

function readOptions(form: FormObject): readonly OneType[] | null {
  const either = form.anyOf ?? form.oneOf
  if (either === undefined) {
    const types = [form.type ?? []].flat().filter((type) => type !== 'null')
    return types.length === 0 ? null : types.map((type) => ({ ...form, type }))
  }
  const all: OneType[] = []
  for (const each of either) {
    if (each !== true && each.type === 'null') continue
    const found = options(each)
    if (found === null || all.length + found.length > mostOptions) return null
    all.push(...found)
  }
  return all.length === 0 ? null : all
}

/** The results of `below` during one check, because many references follow the same path. */
export type Steps = WeakMap<FormObject, Map<Segment, Form | null>>

/** Returns null if no value of this form has the segment. */
function below(form: Form, segment: Segment, steps: Steps): Form | null {
  if (form === true) return true
  let taken = steps.get(form)
  if (taken === undefined) steps.set(form, (taken = new Map()))
  let found = taken.get(segment)
  if (found === undefined) taken.set(segment, (found = findBelow(form, segment)))
  return found
}

function findBelow(form: Form, segment: Segment): Form | null {
  const all = options(form)
  if (all === null) return true
  const found = all.flatMap((each) => belowOne(each, segment) ?? [])
  if (found.length === 0) return null
  return found.length === 1 && found[0] !== undefined ? found[0] : { anyOf: found }
}

function belowOne(form: OneType, segment: Segment): Form | null {
  if (segment === placeOfItem) return form.type === 'array' ? (form.items ?? true) : null
  if (form.type === 'array')
    return /^\d{1,9}$/.test(segment) ? (form.prefixItems?.[Number(segment)] ?? form.items ?? true) : null
  if (form.type !== 'object') return null
  const { properties = {}, additionalProperties = true } = form
  if (Object.hasOwn(properties, segment)) return properties[segment] ?? true
  return additionalProperties === false ? null : additionalProperties
}

/** Null if the value is no list. */
export const elementOf = (form: Form): Form | null => findBelow(form, '0')

export type JsonType = (typeof inputTypes)[number]

/** Null if the value can have several types. Whether it can also be null is left open. */
export function typeOf(form: Form): JsonType | null {
  const types = new Set(options(form)?.map(({ type }) => (type === 'integer' ? 'number' : type)))
  const [only] = types
  return types.size === 1 ? ((only ?? null) as JsonType | null) : null
}

/** Returns an error message if the path leads nowhere. `what` names the first value in it. */
export function follow(
  form: Form,
  { path, text }: Pick<WithPath, 'path' | 'text'>,
  { what, steps }: { readonly what: string; readonly steps: Steps },
): Form | string {
  let at = form
  for (const [index, segment] of path.entries()) {
    const next = below(at, segment, steps)
    if (next === null) {
      const where = index === 0 ? what : `\`${inWords(path[index - 1] ?? '')}\``
      return `\`${text}\`: ${where} ${lacks(at, inWords(segment))}${typeof segment === 'string' ? operatorHint(segment) : ''}`
    }
    at = next
  }
  return at
}

const inWords = (segment: Segment): string => (typeof segment === 'string' ? segment : '[index]')

function lacks(form: Form, segment: string): string {
  const all = options(form) ?? []
  const names = [...new Set(all.flatMap((each) => Object.keys(each.properties ?? {})))].slice(0, 30)
  if (names.length > 0)
    return `has no \`${segment}\` (it has ${names.map((each) => `\`${each}\``).join(', ')})`
  if (all.some(({ type }) => type === 'array'))
    return `is a list, which has no \`${segment}\`: ${segment === 'length' ? '`size(…)` counts its elements' : 'name a place in it, for example `[0]`'}`
  const type = typeOf(form)
  return type === null ? `has no \`${segment}\`` : `is ${words[type]}, which has no \`${segment}\``
}

export const words: Readonly<Record<JsonType, string>> = {
  string: 'text',
  number: 'a number',
  boolean: 'true or false',
  array: 'a list',
  object: 'an object',
}

/** Parts of the form of a computed value. */
const mostParts = 1_000

/** Values that are computed from each other could double their form with each step. The parts of a form that is too large count as any value. */
export function boundedForm(form: Form): Form {
  if (form === true || hasFewParts(form)) return form
  const names = Object.keys(form.properties ?? {})
  return { ...form, properties: Object.fromEntries(names.map((name) => [name, true as const])) }
}

function hasFewParts(form: Form): boolean {
  const waiting: Form[] = [form]
  for (let seen = 0; seen < mostParts; seen += 1) {
    const part = waiting.pop()
    if (part === undefined) return true
    if (part === true) continue
    const { items, prefixItems, anyOf, oneOf, additionalProperties } = part
    for (const each of [
      Object.values(part.properties ?? {}),
      prefixItems,
      anyOf,
      oneOf,
      items,
      additionalProperties,
    ])
      for (const one of [each].flat()) if (typeof one === 'object') waiting.push(one)
  }
  return false
}

/** If the elements of one list have more forms, each counts as a value of any form. */
const mostForms = 20

/** Deeper parts of a value count as values of any form, so the work stays linear. */
const mostLevels = 6

/** The value can contain templates. */
export function writtenForm(value: Json, formOf: (template: Template) => Form, levels = mostLevels): Form {
  if (typeof value === 'string') {
    const only = wholeTemplate(value)
    return only === null ? textForm : formOf(only)
  }
  if (value === null) return { type: 'null' }
  if (typeof value !== 'object') return { type: typeof value }
  const form = (each: Json): Form => (levels === 0 ? true : writtenForm(each, formOf, levels - 1))
  if (Array.isArray(value)) return listForm(formOfElements(value, form))
  const properties = Object.entries(value).map(([key, each]) => [key, form(each)] as const)
  return { type: 'object', properties: Object.fromEntries(properties), additionalProperties: false }
}

function formOfElements(list: readonly Json[], formOf: (element: Json) => Form): Form {
  const different = new Map<string, Form>()
  for (const each of list) {
    const form = formOf(each)
    different.set(JSON.stringify(form), form)
    if (different.size > mostForms) return true
  }
  return { anyOf: [...different.values()] }
}

/** The value of exactly one template keeps its type. Null for any other text. */
export function wholeTemplate(text: string, roots?: Roots): Template | null {
  const [only, ...others] = isTemplate(text) ? parseText(text, roots) : []
  return typeof only === 'object' && others.length === 0 ? only : null
}
