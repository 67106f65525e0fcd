import type { ParamCondition, RuleOperator } from '../../policy/operators/index.ts'
import { listOf, type Scalar } from '../../policy/operators/operator.ts'
import type { Form, Problem } from '../visit.ts'
import { problemsAt, Wrong, type Filled } from './form.tsx'

/* Conditions on parameters in the form of a rule: a row for each, and spare ones. */

/** A rule with more keeps the others as they are. */
export const mostConditions = 20

/** The value of an option, and its words. `exists` asks for true or false, and needs no values. */
const operators = [
  ['equals', 'is'],
  ['in', 'is one of'],
  ['not_in', 'is none of'],
  ['contains', 'contains one of'],
  ['startswith', 'begins with'],
  ['domain_in', 'is inside the domains'],
  ['domain_not_in', 'is outside the domains'],
  ['from_label', 'has data with one of the labels'],
  ['exists true', 'has a value'],
  ['exists false', 'has no value'],
] as const satisfies readonly (readonly [RuleOperator | `exists ${boolean}`, string])[]

const ofOneValue: readonly string[] = ['equals', 'startswith'] satisfies RuleOperator[]

/** A text that reads like a number or like `true` stands in quotation marks. */
const lineOf = (value: Scalar): string =>
  typeof value === 'string' && isPlain(value) ? value : JSON.stringify(value)

const isPlain = (text: string): boolean =>
  text.trim() !== '' && !/[\r\n"]/.test(text) && typeof valueOf(text) === 'string'

function valueOf(line: string): Scalar {
  if (!/^(?:-?\d[\d.eE+-]*|true|false|".*")$/.test(line)) return line
  try {
    return JSON.parse(line) as Scalar
  } catch {
    return line
  }
}

/** What a row shows of a condition. */
export function rowOf({ param, operator, value }: ParamCondition) {
  return operator === 'exists'
    ? { param, operator: `exists ${value}`, values: '' }
    : { param, operator, values: listOf<Scalar>(value).map(lineOf).join('\n') }
}

type Row = ReturnType<typeof rowOf>

const rowIn = (form: Form, row: number): Row => ({
  param: (form.get(`param_${row}`) ?? '').trim(),
  operator: form.get(`operator_${row}`) ?? '',
  values: (form.get(`values_${row}`) ?? '').replaceAll('\r\n', '\n'),
})

const isFilled = ({ param, values }: Row): boolean => param !== '' || values.trim() !== ''

/** The conditions of the form, and those that it does not show. A row that nobody changed keeps its value's form. */
export function conditionsIn(
  form: Form,
  present: readonly ParamCondition[] = [],
): ParamCondition[] | undefined {
  if (!form.has('param_0')) return present.length === 0 ? undefined : [...present]
  const rows = Array.from({ length: mostConditions }, (_, row) => rowIn(form, row))
  const conditions = rows.filter(isFilled).map((row) => {
    const same = present.find((each) => JSON.stringify(rowOf(each)) === JSON.stringify(row))
    return same ?? conditionOf(row)
  })
  const all = [...conditions, ...present.slice(mostConditions)]
  return all.length === 0 ? undefined : all
}

const noValue = 'write a value, or choose “has no value”'

/** null if each condition has a value. The API takes an empty text to compare with, which nobody means here. */
export function withoutValue(form: Form): (Problem & { readonly ok: false }) | null {
  const rows = Array.from({ length: mostConditions }, (_, row) => rowIn(form, row)).filter(isFilled)
  const details = rows.flatMap(({ operator, values }, row) =>
    operator.startsWith('exists') || values.trim() !== ''
      ? []
      : [{ path: `params.${row}`, message: noValue }],
  )
  if (details.length === 0) return null
  return { ok: false, status: 422, code: 'validation_error', message: noValue, details }
}

/** The route refuses what does not fit, and names it. */
function conditionOf({ param, operator, values }: Row): ParamCondition {
  const [name, asked] = operator.split(' ')
  const lines = values.split('\n').filter((line) => line.trim() !== '')
  const value =
    name === 'exists'
      ? asked === 'true'
      : ofOneValue.includes(operator) && lines.length <= 1
        ? valueOf(lines[0] ?? '')
        : lines.map(valueOf)
  return { param, operator: name, value } as unknown as ParamCondition
}

export function Conditions({ params, filled }: { params: readonly ParamCondition[]; filled: Filled }) {
  const { form } = filled
  const rows: readonly Row[] =
    form === null
      ? params.slice(0, mostConditions).map(rowOf)
      : Array.from({ length: mostConditions }, (_, row) => rowIn(form, row)).filter(isFilled)
  const shown = Math.min(mostConditions, rows.length + 1)
  return (
    <fieldset id="params" class="checks stack" tabindex={-1} aria-describedby="params-help">
      <legend>Parameters</legend>
      {Array.from({ length: shown }, (_, row) => (
        <ConditionRow row={row} given={rows[row]} filled={filled} />
      ))}
      <p id="params-help" class="quiet small">
        All of them must hold. A parameter is a name such as to or message.body, or * for any. Write one value
        in each line. A number in quotation marks is a text. Save the rule to get another row.
      </p>
    </fieldset>
  )
}

function ConditionRow({ row, given, filled }: { row: number; given: Row | undefined; filled: Filled }) {
  const wrong = problemsAt(filled, `params.${row}`)
  const invalid = wrong.length === 0 ? {} : { 'aria-invalid': true as const }
  const line = `condition ${row + 1}`
  return (
    <div class="condition">
      <input
        name={`param_${row}`}
        aria-label={`Parameter, ${line}`}
        value={given?.param ?? ''}
        maxlength={200}
        placeholder="to"
        autocomplete="off"
        spellcheck={false}
        {...invalid}
      />
      <select name={`operator_${row}`} aria-label={`Comparison, ${line}`}>
        {operators.map(([value, words]) => (
          <option value={value} selected={value === given?.operator}>
            {words}
          </option>
        ))}
      </select>
      <textarea
        name={`values_${row}`}
        aria-label={`Values, ${line}`}
        rows={1}
        maxlength={100_000}
        autocomplete="off"
        spellcheck={false}
        {...invalid}
      >
        {given?.values ?? ''}
      </textarea>
      <Wrong name={`params.${row}`} wrong={wrong} />
    </div>
  )
}
