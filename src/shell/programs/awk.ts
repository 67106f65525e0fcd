import { isUnknown, withoutUnknowns } from '../marks.ts'
import type { Program, Shell } from '../types.ts'
import { expressionEnd, textEnd } from './expressions.ts'
import { has, readOptions } from './options.ts'

const letters: Readonly<Record<string, string>> = {
  source: 'e',
  file: 'f',
  exec: 'E',
  include: 'i',
  load: 'l',
}

/** A program that runs commands or comes from a file is a script, one that connects to another machine egress. */
export const awk: Program = (args, shell, _, name) => {
  const read = readOptions(args, {
    options:
      '-bcCghIkMnNOPrsStVF:v:f:e:E:i:l:W: field-separator= assign= file= source= exec= include= load= version help posix traditional csv re-interval optimize no-optimize sandbox characters-as-bytes use-lc-numeric bignum gen-pot lint lint-old dump-variables debug profile pretty-print non-decimal-data trace',
  })
  const options = read.options.map(([option, value]) => [letters[option] ?? option, value] as const)
  // After an unknown option, any argument can be the awk program.
  const unsure = read.unsure || has(read, 'W')
  if (!unsure && has(read, 'S', 'sandbox')) return
  const sources = options.flatMap(([option, value]) => (option === 'e' ? [value ?? ''] : []))
  if (options.some(loadsFile)) shell.note('script', `\`${name}\` runs a program from a file`)
  if (unsure) sources.push(...args)
  else if (sources.length === 0 && !options.some(([option]) => /^[fE]$/.test(option)))
    sources.push(read.rest[0] ?? '')
  for (const source of sources) {
    if (isUnknown(source)) shell.note('script', `\`${name}\`'s program is only known when it runs`)
    readSource(withoutUnknowns(source), shell, name)
  }
}

/** The value of `-W` is a long option, and loads code unless it is known to load nothing. */
const loadsFile = ([name, value]: readonly [string, string | undefined]): boolean =>
  /^[fEl]$/.test(name) ||
  (name === 'i' && value !== 'inplace') ||
  (name === 'W' && !/^(version|help|usage|posix|interactive|v|p|i)$/.test(value ?? ''))

function readSource(source: string, shell: Shell, name: string): void {
  const { code, texts } = apart(source)
  if (texts.some((text) => /^\/inet[46]?\//.test(text)))
    shell.note('egress', `\`${name}\` connects to another machine`)
  // `@` loads or includes code, or calls the function that a variable names.
  if (!/\bsystem\b|system\s*\(|@(?! 0 )|(?<!\|)\|(?!\|)/.test(code)) return
  shell.note('script', `\`${name}\` runs commands`)
  for (const text of texts)
    shell.suspects(`\`${name}\` runs a command that sends data out`, () => shell.code(text))
}

/** Decide what a slash means: after a value division, else a regular expression, and so after a `noValue`. */
const value = /[\w)\].] ?$|\+\+ ?$|-- ?$/
const noValue = /(?<![A-Za-z_])(print|printf|return|else|do|in|case|exit|delete) ?$/
const beforeCondition = /(?<![A-Za-z_])(if|while|for) ?$/

/** `code` has no string literals, regular expressions or comments; `texts` are the literals. */
function apart(source: string): { code: string; texts: string[] } {
  const texts: string[] = []
  let code = ''
  /** The last 16 characters of `code`, each run of white space shortened to one space. */
  let tail = ''
  const add = (text: string): void => {
    code += text
    tail = (tail + text).replaceAll(/[ \t\r]+/g, ' ').slice(-16)
  }
  /** Whether each open parenthesis, and the one closed last, contains a condition. */
  const open: boolean[] = []
  let condition = false
  const beginsExpression = (): boolean => {
    if (/\) ?$/.test(tail)) return condition
    return !value.test(tail) || noValue.test(tail)
  }
  for (let at = 0; at < source.length; at += 1) {
    const char = source[at] ?? ''
    if (char === '"') {
      const end = textEnd(source, at + 1, char)
      texts.push(source.slice(at + 1, end).replaceAll('\\"', '"'))
      add(' 0 ')
      at = end
    } else if (char === '/' && beginsExpression()) {
      add(' 0 ')
      at = expressionEnd(source, at + 1, char, true)
    } else if (char === '#') {
      const end = source.indexOf('\n', at)
      if (end < 0) break
      at = end
      add('\n')
    } else if (char === '\\' && source[at + 1] === '\n') {
      add(' ')
      at += 1
    } else {
      if (char === '(') open.push(beforeCondition.test(tail))
      if (char === ')') condition = open.pop() ?? false
      add(char)
    }
  }
  return { code, texts }
}
