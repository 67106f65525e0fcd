import type { Command, ParsedScript, Word } from 'unbash'
import { longestWord } from '../limits.ts'
import { isPlain } from '../marks.ts'

/** If several results are possible, the first. */
type Expand = (words: readonly Word[]) => readonly string[]

/** The output, if the text shows it, as in `echo curl`. `input` is the standard input, which `cat` prints. */
export function outputOf(
  from: ParsedScript | Command,
  expand: Expand,
  input?: (command: Command) => string | undefined,
): string | undefined {
  const command = from.type === 'Command' ? from : onlyCommand(from)
  if (command?.name === undefined) return undefined
  const [name = '', ...args] = expand([command.name, ...command.args.filter((arg) => arg.type === 'Word')])
  if (!args.every(isPlain)) return undefined
  if (name === 'echo') return echoed(args)
  // Any other format can build any text from pieces.
  if (name === 'printf') return plainFormat.test(args[0] ?? '') ? printed(args) : undefined
  if (name === 'cat' || name === 'tee')
    return args.every((arg) => arg === '-') || name === 'tee' ? input?.(command) : undefined
  if (name === 'which' || name === 'whence') return args.findLast((arg) => !arg.startsWith('-'))
  if (name === 'type') return /^-[pP]$/.test(args[0] ?? '') ? args[1] : undefined
  return name === 'command' && args[0] === '-v' ? args[1] : undefined
}

function onlyCommand(script: ParsedScript): Command | undefined {
  const [first, second] = script.commands
  return second === undefined && first?.command.type === 'Command' ? first.command : undefined
}

function echoed(args: readonly string[]): string {
  const flags = args.findIndex((arg) => !/^-[neE]+$/.test(arg))
  const words = args.slice(flags < 0 ? args.length : flags)
  const text = words.join(' ')
  return args.slice(0, flags).some((flag) => flag.includes('e')) ? unescaped(text) : text
}

const plainFormat = /^(?:(?:%[sb](?:[ \n]|\\n)?)+|[^%]*)$/

/** The output of `printf`; undefined for a directive other than `%s`, `%b` and `%%`, or a word that is not known. */
export function printed([format = '', ...args]: readonly string[]): string | undefined {
  if (![format, ...args].every(isPlain)) return undefined
  const [start = '', ...directives] = format.replaceAll('%%', percent).split('%')
  if (!directives.every((directive) => /^[sb]/.test(directive))) return undefined
  if (directives.length === 0) return unescaped(start)
  let text = ''
  // The format repeats until all arguments are used, at least once.
  for (let at = 0; at === 0 || at < args.length; at += directives.length) {
    text += unescaped(start)
    for (const [index, directive] of directives.entries()) {
      const arg = args[at + index] ?? ''
      text += (directive.startsWith('b') ? unescaped(arg) : arg) + unescaped(directive.slice(1))
      if (text.length > longestWord) return undefined
    }
  }
  return text
}
/** Stands for `%%`. */
const percent = '\0'

function unescaped(text: string): string {
  const whole = text.replaceAll(percent, '%')
  return whole.replaceAll(/\\(?:x([0-9a-fA-F]{1,2})|0?([0-7]{1,3})|(.))/g, (_, hex, octal, char: string) => {
    if (hex !== undefined) return String.fromCharCode(parseInt(String(hex), 16))
    if (octal !== undefined) return String.fromCharCode(parseInt(String(octal), 8))
    return { n: '\n', t: '\t', '\\': '\\' }[char] ?? `\\${char}`
  })
}
