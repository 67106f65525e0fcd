import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import { catalog } from '../../src/tools/index.ts'
import { faultOf, faultyCodes } from '../../src/contract/tool-faults.ts'

const root = join(import.meta.dirname, '../..')
const read = (file: string): string => readFileSync(join(root, file), 'utf8')
const sourcesOf = (pattern: string): string[] => globSync(pattern, { cwd: root }).map(read)
const found = (text: string, pattern: RegExp): string[] =>
  [...text.matchAll(pattern)].map(([, code = '']) => code)

/** Services whose tools make their codes with `failuresOf` or `watch`. */
const services = ['github', 'google', 'jira', 'llm', 'search', 'slack', 'trello']
const ends = ['rate_limited', 'unavailable', 'unreachable', 'bad_answer', 'redirected', 'refused']
/** Resend makes these codes with `failuresOf` too. The others are unknown outcomes, because a mail must not be sent twice. */
const ofMail = ['rate_limited', 'redirected', 'unreachable'].map((end) => `mail_${end}`)
/** Errors of messages in chats, which are no errors of steps. */
const ofMessages = ['slack_unclear', 'slack_unknown']

/** The codes in the source of the tools and of what runs them. */
function codesInSource(): ReadonlySet<string> {
  const named = sourcesOf('src/activities/**/*.ts').flatMap((text) => [
    ...found(text, /new ToolError\(\s*'(\w+)'/g),
    ...found(text, /'((?:github|google|jira|llm|search|slack|trello|mail|file)_[a-z_]+)'/g),
  ])
  // The tables of REST services have the ends of codes.
  const ofRest = ['jira', 'trello'].flatMap((service) =>
    found(read(`src/tools/${service}/client.ts`), /\d{3}: \[\s*'(\w+)'/g).map((end) => `${service}_${end}`),
  )
  const made = services.flatMap((service) => ends.map((end) => `${service}_${end}`))
  const others = new Set<string>([...Object.keys(catalog), ...ofMessages])
  return new Set([...named, ...ofRest, ...made, ...ofMail].filter((code) => !others.has(code)))
}

test('each error code of a tool says whose fault it is', () => {
  const codes = [...codesInSource()]
  expect(codes.length).toBeGreaterThan(90)
  expect(codes.filter((code) => faultOf(code) === null)).toEqual([])
})

test('each code with a fault exists once', () => {
  const inSource = codesInSource()
  const files = globSync('src/**/*.ts', { cwd: root }).filter((file) => !file.endsWith('tool-faults.ts'))
  const text = files.map(read).join('\n')
  expect(faultyCodes.filter((code) => !inSource.has(code) && !text.includes(`'${code}'`))).toEqual([])
  expect(new Set(faultyCodes).size).toBe(faultyCodes.length)
})

describe('the tables of errors in the documents', () => {
  interface Row {
    readonly codes: readonly string[]
    readonly fault: string
  }
  /** Rows of tables with a column `Fault`. A code that begins with `_` is the end of codes of two services. */
  function rowsIn(file: string): readonly Row[] {
    const rows: Row[] = []
    let columns: readonly string[] = []
    for (const line of read(file).split('\n')) {
      const cells = line.startsWith('|') ? line.split('|').slice(1, -1) : []
      const trimmed = cells.map((cell) => cell.trim())
      if (trimmed.includes('Fault')) columns = trimmed
      else if (cells.length === 0) columns = []
      else if (columns.length > 0 && !line.startsWith('| --')) {
        const at = columns.findIndex((name) => /^(?:Code|Error|Error ends with)$/.test(name))
        const codes = found(trimmed[at] ?? '', /`(\w+)`/g).flatMap((code) =>
          code.startsWith('_')
            ? [`llm${code}`, `search${code}`].filter((each) => faultOf(each) !== null)
            : [code],
        )
        rows.push({ codes, fault: trimmed[columns.indexOf('Fault')]?.replaceAll('`', '') ?? '' })
      }
    }
    return rows
  }
  const rows = ['docs/connections.md', 'docs/google.md'].flatMap(rowsIn)

  test('say the same faults', () => {
    expect(rows.length).toBeGreaterThan(60)
    const said = rows.flatMap(({ codes, fault }) => codes.map((code) => [code, fault]))
    expect(said).toEqual(said.map(([code = '']) => [code, faultOf(code)]))
  })

  test('name every code of a service', () => {
    const said = new Set(rows.flatMap(({ codes }) => codes))
    const ofServices = faultyCodes.filter((code) => /^(?:mail|connection|access)_/.test(code))
    const wanted = [...codesInSource()].filter((code) => services.includes(code.split('_', 1)[0] ?? ''))
    expect([...ofServices, ...wanted].filter((code) => !said.has(code))).toEqual([])
  })
})
