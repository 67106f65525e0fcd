import { isUnknown, withoutUnknowns } from '../marks.ts'
import type { Program, Shell } from '../types.ts'
import { expressionEnd, textEnd } from './expressions.ts'
import { has, readOptions } from './options.ts'

/** The one-letter forms of the long options that matter here. */
const letters: Readonly<Record<string, string>> = {
  source: 'e',
  file: 'f',
  exec: 'E',
  include: 'i',
  load: 'l',
}

/**
 * Reads the arguments of awk. An awk program that runs commands (`system`, pipes) counts as a script, and so does an
 * awk program from a file. An awk program that connects to another machine counts as egress.
 */
export const awk: Program = (args, shell, _, name) => {
  const read = readOptions(args, {
    flags: 'bcCghIkMnNOPrsStV',
    values: 'FvfeEilW',
    long: 'field-separator assign file source exec include load',
    longFlags:
      'version help posix traditional csv re-interval optimize no-optimize sandbox characters-as-bytes use-lc-numeric bignum gen-pot lint lint-old dump-variables debug profile pretty-print non-decimal-data trace',
  })
  const options = read.options.map(([option, value]) => [letters[option] ?? option, value] as const)
  // After an unknown option, the next word can be the value of this option or the awk program. So any argument can be
  // the program.
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

/**
 * Whether an option loads code from a file. The value of `-W` is a long option. `-W` counts too, unless this long
 * option is known to load nothing.
 */
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
  for (const text of texts) {
    if (shell.attempt(() => shell.code(text)) === 'egress')
      shell.note('egress', `\`${name}\` runs a command that sends data out`)
  }
}

/**
 * These expressions decide what a slash means. After a value, a slash means division. Everywhere else, for example
 * after a newline, a slash starts a regular expression. The words in `noValue` look like values, but a slash after them
 * starts a regular expression too.
 */
const value = /[\w)\].] ?$|\+\+ ?$|-- ?$/
const noValue = /(?<![A-Za-z_])(print|printf|return|else|do|in|case|exit|delete) ?$/
const beforeCondition = /(?<![A-Za-z_])(if|while|for) ?$/

/**
 * Splits an awk program into its code and its string literals. `code` has no literals, regular expressions or comments.
 */
function apart(source: string): { code: string; texts: string[] } {
  const texts: string[] = []
  let code = ''
  /** The last 16 characters of `code`. Each run of white space in them is shortened to one space. */
  let tail = ''
  const add = (text: string): void => {
    code += text
    tail = (tail + text).replaceAll(/[ \t\r]+/g, ' ').slice(-16)
  }
  /**
   * `open` says for each open parenthesis whether it contains a condition. `condition` says the same of the parenthesis
   * that was closed last.
   */
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
