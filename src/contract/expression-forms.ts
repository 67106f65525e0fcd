import { shapes } from '../policy/expressions/functions.ts'
import type { Expression, Node } from '../policy/expressions/syntax.ts'
import type { Reference } from '../policy/reference.ts'
import {
  elementOf,
  follow,
  listForm,
  numberForm,
  textForm,
  typeOf,
  words,
  writtenForm,
  type Form,
  type Steps,
} from './forms.ts'

/** What is known of an expression before any run. */
export interface Formed {
  readonly form: Form
  /** Sentences about errors that are certain. */
  readonly issues: readonly string[]
}

/** `formOf` gives `true` for a reference that has an error itself. */
export function expressionForm(
  { node, text }: Expression,
  formOf: (reference: Reference) => Form,
  steps: Steps,
): Formed {
  const reader = new Reader(text, formOf, steps)
  return { form: reader.form(node, new Map()), issues: reader.issues }
}

type Variables = ReadonlyMap<string, Form>
const truthForm: Form = { type: 'boolean' }

class Reader {
  readonly issues: string[] = []
  readonly #text: string
  readonly #formOf: (reference: Reference) => Form
  readonly #steps: Steps

  constructor(text: string, formOf: (reference: Reference) => Form, steps: Steps) {
    this.#text = text.length > 100 ? `${text.slice(0, 99)}…` : text
    this.#formOf = formOf
    this.#steps = steps
  }

  form(node: Node, variables: Variables): Form {
    switch (node.is) {
      case 'value':
        return writtenForm(node.value, () => true)
      case 'reference':
        return this.#formOf(node.reference)
      case 'variable':
        return variables.get(node.name) ?? true
      case 'part':
        return this.#part(node, variables)
      case 'list': {
        const items = node.items.map((each) => this.form(each, variables))
        return listForm(items.length === 0 ? true : { anyOf: items })
      }
      case 'object': {
        const fields = node.fields.map(([name, each]) => [name, this.form(each, variables)] as const)
        return { type: 'object', properties: Object.fromEntries(fields), additionalProperties: false }
      }
      case 'not':
        this.#needsTruth(this.form(node.of, variables))
        return truthForm
      case 'minus':
        this.#needsNumber('-', this.form(node.of, variables))
        return numberForm
      case 'binary':
        return this.#binary(node, variables)
      case 'choice':
        this.#needsTruth(this.form(node.test, variables))
        return { anyOf: [this.form(node.yes, variables), this.form(node.no, variables)] }
      default:
        return this.#call(node, variables)
    }
  }

  #add(message: string): void {
    if (this.issues.length < 10) this.issues.push(`\`${this.#text}\`: ${message}`)
  }

  #part({ of, key }: Extract<Node, { is: 'part' }>, variables: Variables): Form {
    const whole = this.form(of, variables)
    if (typeof key !== 'string') {
      this.form(key, variables)
      return elementOf(whole) ?? true
    }
    const found = follow(whole, { path: [key], text: this.#text }, { what: 'the value', steps: this.#steps })
    if (typeof found !== 'string') return found
    if (this.issues.length < 10) this.issues.push(found)
    return true
  }

  #binary({ operator, left, right }: Extract<Node, { is: 'binary' }>, variables: Variables): Form {
    const [a, b] = [this.form(left, variables), this.form(right, variables)]
    switch (operator) {
      case '??':
        return { anyOf: [a, b] }
      case '&&':
      case '||':
        this.#needsTruth(a)
        this.#needsTruth(b)
        return truthForm
      case '+':
        return this.#sum(typeOf(a), typeOf(b))
      case '-':
      case '*':
      case '/':
      case '%':
        this.#needsNumber(operator, a)
        this.#needsNumber(operator, b)
        return numberForm
      case '<':
      case '>':
      case '<=':
      case '>=': {
        const types = new Set([typeOf(a), typeOf(b)])
        if (types.has('string') && types.has('number'))
          this.#add(`\`${operator}\` compares a number with text: write \`number(…)\` around the text`)
        return truthForm
      }
      default:
        return truthForm
    }
  }

  #sum(a: ReturnType<typeof typeOf>, b: ReturnType<typeof typeOf>): Form {
    const types = new Set([a, b])
    if (types.has('string') && types.has('number'))
      this.#add(
        '`+` joins two texts or adds two numbers: write `number(…)` around the text, or `text(…)` around the number, and for a date `add(today, days(3))`',
      )
    if (types.has('string')) return textForm
    return types.has('number') ? numberForm : { anyOf: [textForm, numberForm] }
  }

  #needsNumber(operator: string, form: Form): void {
    const type = typeOf(form)
    if (type === null || type === 'number') return
    const hint = type === 'string' ? ': write `number(…)` around it' : ''
    this.#add(`\`${operator}\` needs numbers, and one side is ${words[type]}${hint}`)
  }

  #needsTruth(form: Form): void {
    const type = typeOf(form)
    if (type === null || type === 'boolean') return
    this.#add(
      `a condition must be true or false, and this is ${words[type]}: compare it, for example with \`!= null\``,
    )
  }

  #call({ name, args, each }: Extract<Node, { is: 'call' }>, variables: Variables): Form {
    const [first = true] = args.map((arg) => this.form(arg, variables))
    const element = elementOf(first) ?? true
    const body = each === null ? true : this.form(each.body, new Map(variables).set(each.variable, element))
    if (name === 'map') return listForm(body)
    if (name === 'filter' || name === 'sort' || name === 'unique') return listForm(element)
    if (name === 'first' || name === 'last') return element
    if (name === 'group')
      return listForm({
        type: 'object',
        properties: { key: body, items: listForm(element) },
        additionalProperties: false,
      })
    const gives = shapes[name]?.gives
    return gives === undefined ? true : { type: gives }
  }
}
