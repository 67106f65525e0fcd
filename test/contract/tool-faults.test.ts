import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import { catalog, integrationNames } from '../../src/tools/index.ts'
import { faultOf, faultyCodes } from '../../src/contract/tool-faults.ts'

const root = join(import.meta.dirname, '../..')
const read = (file: string): string => readFileSync(join(root, file), 'utf8')
const sourcesOf = (pattern: string): string[] => globSync(pattern, { cwd: root }).map(read)
const found = (text: string, pattern: RegExp): string[] =>
  [...text.matchAll(pattern)].map(([, code = '']) => code)

/** Services whose tools make all codes of `Failures`. A call through Resend has an unknown outcome instead of some. */
const services = integrationNames.filter((name) => name !== 'mail')
const ends = ['rate_limited', 'unavailable', 'unreachable', 'bad_answer', 'redirected', 'refused']
const ofMail = ['rate_limited', 'redirected', 'unreachable'].map((end) => `mail_${end}`)
/** Errors of messages in chats, which are no errors of steps. */
const ofMessages = ['slack_unclear', 'slack_unknown']

/** The codes in the source of the tools and of what runs them. */
function codesInSource(): ReadonlySet<string> {
  // What is declared has other words with these beginnings.
  const acting = 'src/{activities,tools}/**/!(tools|connect).ts'
  const ofService = new RegExp(`'((?:${integrationNames.join('|')}|file)_[a-z_]+)'`, 'g')
  const named = sourcesOf(acting).flatMap((text) => [
    ...found(text, /new ToolError\(\s*'(\w+)'/g),
    ...found(text, ofService),
  ])
  const made = services.flatMap((service) => ends.map((end) => `${service}_${end}`))
  const others = new Set<string>([...Object.keys(catalog), ...ofMessages])
  return new Set([...named, ...made, ...ofMail].filter((code) => !others.has(code)))
}

test('each error code of a tool says whose fault it is', () => {
  const codes = [...codesInSource()]
  expect(codes.length).toBeGreaterThan(90)
  expect(codes.filter((code) => faultOf(code) === null)).toEqual([])
})

test('each code with a fault exists once', () => {
  const inSource = codesInSource()
  const files = globSync('src/**/!(tool-faults|connect).ts', { cwd: root })
  const text = files.map(read).join('\n')
  expect(faultyCodes.filter((code) => !inSource.has(code) && !text.includes(`'${code}'`))).toEqual([])
  expect(new Set(faultyCodes).size).toBe(faultyCodes.length)
})

test('docs/connections.md and docs/services.md say the same faults', () => {
  const rows = `${read('docs/connections.md')}\n${read('docs/services.md')}`
    .split('\n')
    .filter((line) => line.startsWith('| `'))
  const said = rows.flatMap((line) => {
    const [codes = '', ...cells] = line.split('|').slice(1)
    return found(codes, /`(\w+)`/g).map((code) => [code, cells.map((cell) => cell.trim())] as const)
  })
  const known = said.filter(([code]) => faultOf(code) !== null)
  expect(known.length).toBeGreaterThan(20)
  for (const [code, cells] of known)
    expect([code, cells]).toEqual([code, expect.arrayContaining([`\`${faultOf(code)}\``])])
})
