import { parse } from 'csv-parse/browser/esm/sync'
import type { Budget } from '../budget.ts'
import type { Json, JsonObject } from '../types.ts'
import { asText } from './as-text.ts'
import { finite, isObject, listOf, making, mostLevels, spendOn, textOf, type Shape } from './shape.ts'

/** Characters that `parse_json` and `parse_csv` read. */
const longestRead = 2 * 1024 * 1024

/* Between values and their texts: JSON, CSV and tables of Markdown. */

export const formats = {
  json: {
    written: 'json(value)',
    gives: 'string',
    args: [1, 1],
    run([value = null], { budget }) {
      spendOn(value, budget)
      return JSON.stringify(value)
    },
  },
  parse_json: {
    written: 'parse_json(text)',
    args: [1, 1],
    run([value], { budget }) {
      const text = reading(value, 'parse_json', budget)
      let read: Json
      try {
        read = JSON.parse(text) as Json
      } catch {
        throw new TypeError('`parse_json` needs text that is JSON')
      }
      return sound(read, 0)
    },
  },
  /** The first line names the fields. All values are text. */
  parse_csv: {
    written: "parse_csv(text, separator = ',')",
    gives: 'array',
    args: [1, 2],
    run([value, separator = ','], { budget }) {
      const text = reading(value, 'parse_csv', budget)
      budget.spend(2 * text.length)
      const delimiter = textOf(separator, 'parse_csv')
      if (delimiter.length !== 1) throw new TypeError('`parse_csv` takes one character as separator')
      return rowsOf(text, delimiter, budget)
    },
  },
  to_csv: {
    written: "to_csv(list of objects, separator = ',')",
    gives: 'string',
    args: [1, 2],
    run([value, separator = ','], { budget }) {
      const between = textOf(separator, 'to_csv')
      const quoted = (text: string): string =>
        /["\r\n]/.test(text) || text.includes(between) ? `"${text.replaceAll('"', '""')}"` : text
      const lines = tableOf(value, 'to_csv', budget).map((line) => line.map(quoted).join(between))
      return lines.map((line) => `${line}\r\n`).join('')
    },
  },
  markdown_table: {
    written: 'markdown_table(list of objects)',
    gives: 'string',
    args: [1, 1],
    run([value], { budget }) {
      const cell = (text: string): string => text.replaceAll(/[\\|]/g, '\\$&').replaceAll(/\r?\n|\r/g, '<br>')
      const [names = [], ...rows] = tableOf(value, 'markdown_table', budget).map((line) => line.map(cell))
      if (names.length === 0) return ''
      return [names, names.map(() => '---'), ...rows].map((line) => `| ${line.join(' | ')} |`).join('\n')
    },
  },
} as const satisfies Readonly<Record<string, Shape>>

function reading(value: Json | undefined, what: string, budget: Budget): string {
  const text = textOf(value, what)
  if (text.length > longestRead)
    throw new TypeError(`\`${what}\` reads at most ${longestRead / 1024 / 1024} MiB`)
  budget.spend(1 + (text.length >> 2))
  return text
}

/** Without what no store and no reader takes: NUL, half a surrogate pair, and more than 64 levels. */
function sound(value: Json, level: number): Json {
  if (level > mostLevels) throw new TypeError(`\`parse_json\` reads at most ${mostLevels} nested levels`)
  if (typeof value === 'string') return value.toWellFormed().replaceAll('\u0000', '\ufffd')
  if (typeof value === 'number') return finite(value, 'parse_json')
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return (value as readonly Json[]).map((each) => sound(each, level + 1))
  return Object.fromEntries(
    Object.entries(value).map(([key, each]) => [sound(key, level) as string, sound(each, level + 1)]),
  )
}

function rowsOf(text: string, delimiter: string, budget: Budget): Json {
  let lines: readonly (readonly string[])[]
  try {
    lines = parse(text, { bom: true, delimiter, skip_empty_lines: true, relax_column_count: true })
  } catch {
    throw new TypeError('`parse_csv` needs text that is CSV: a quote has no end, or stands inside of a value')
  }
  const [names = [], ...rows] = lines
  budget.spend(names.length * (1 + rows.length))
  return rows.map((row) => Object.fromEntries(names.map((name, at) => [name, row[at] ?? ''])))
}

/** A line of names, and one for each element. */
function tableOf(value: Json | undefined, what: string, budget: Budget): string[][] {
  const rows = listOf(value, what).map((each): JsonObject => {
    if (!isObject(each)) throw new TypeError(`\`${what}\` needs a list of objects`)
    return each
  })
  for (const row of rows) spendOn(row, budget)
  const names = [...new Set(rows.flatMap((row) => Object.keys(row)))]
  budget.spend(names.length * (1 + rows.length))
  const lines = rows.map((row) =>
    names.map((name) => asText(Object.hasOwn(row, name) ? (row[name] as Json) : null)),
  )
  making(
    lines.flat().reduce((sum, { length }) => sum + length + 2, 0),
    what,
    budget,
  )
  return [names, ...lines]
}
