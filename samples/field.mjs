/*
 * Prints fields of a JSON answer, for the commands in docs/: `api $ADMIN GET /me | field user.email`.
 * A path is `a.b[0].c`; `[*]` means every element. Several paths give one line for each element, with a space between the
 * values. Without a path the whole answer is printed. An error answer goes to standard error, with exit code 1.
 */

import { readFileSync } from 'node:fs'

const fail = (why) => {
  console.error(why)
  process.exit(1)
}

/** The values at `path`: one, or one for each element where the path has `[*]`. Undefined values are missing ones. */
function valuesAt(answer, path) {
  const names = path.replaceAll(/\[(\d+|\*)\]/g, '.$1').split('.')
  let values = [answer]
  for (const name of names.filter((each) => each !== '')) {
    values = values.flatMap((value) =>
      name === '*' ? (Array.isArray(value) ? value : [undefined]) : [value?.[name]],
    )
  }
  return values
}

const text = readFileSync(0, 'utf8').trim()
if (text === '') fail('there is no answer')
let answer
try {
  answer = JSON.parse(text)
} catch {
  fail(`the answer is not JSON: ${text.slice(0, 200)}`)
}
const paths = process.argv.slice(2)
const { code, message } = answer?.error ?? {}
if (code !== undefined && !paths.some((path) => path.startsWith('error'))) fail(`${code}: ${message}`)

if (paths.length === 0) console.log(JSON.stringify(answer, null, 2))
const columns = paths.map((path) => {
  const values = valuesAt(answer, path)
  if (values.includes(undefined)) fail(answer?.message ?? `the answer has no \`${path}\``)
  return values.map((value) => (typeof value === 'string' ? value : JSON.stringify(value)))
})
const lines = Math.max(0, ...columns.map((column) => column.length))
for (let line = 0; line < lines; line++) {
  const values = columns.map((column) => column[line] ?? '')
  console.log(values.join(' ').trimEnd())
}
