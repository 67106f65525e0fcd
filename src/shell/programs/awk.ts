import { withoutUnknowns } from '../marks.ts'
import type { Program, Shell } from '../types.ts'
import { has, readOptions } from './options.ts'

/** awk: a script where its program runs commands (`system`, pipes), connects somewhere, or comes from a file. */
export const awk: Program = (args, shell, _, name) => {
  const read = readOptions(args, {
    flags: 'bcCghIkMnNOPrsStVp',
    values: 'FvfeEilLDWdo',
    long: 'field-separator assign file source exec include load lint dump-variables',
    longFlags:
      'version help posix traditional csv re-interval optimize sandbox characters-as-bytes use-lc-numeric bignum gen-pot',
  })
  if (has(read, 'S', 'sandbox')) return
  const sources = read.options.flatMap(([option, value]) =>
    option === 'e' || option === 'source' ? [value ?? ''] : [],
  )
  if (has(read, 'f', 'file', 'E', 'exec', 'l', 'load', 'i', 'include') && !onlyInPlace(read.options))
    shell.note('script', `\`${name}\` runs a program from a file`)
  if (sources.length === 0 && !has(read, 'f', 'file', 'E', 'exec')) sources.push(read.rest[0] ?? '')
  for (const source of sources) readSource(withoutUnknowns(source), shell, name)
}

const onlyInPlace = (options: readonly (readonly [string, string | undefined])[]): boolean =>
  options.every(
    ([name, value]) =>
      !/^(f|file|E|exec|l|load)$/.test(name) && (!/^(i|include)$/.test(name) || value === 'inplace'),
  )

function readSource(source: string, shell: Shell, name: string): void {
  const { code, texts } = apart(source)
  if (texts.some((text) => /^\/inet[46]?\//.test(text)))
    shell.note('egress', `\`${name}\` connects to another machine`)
  if (!/\bsystem\b|@load|@include|(?<!\|)\|(?!\|)/.test(code)) return
  shell.note('script', `\`${name}\` runs commands`)
  for (const text of texts) {
    if (shell.attempt(() => shell.code(text)) === 'egress')
      shell.note('egress', `\`${name}\` runs a command that sends data out`)
  }
}

/** The program without its texts, expressions and comments, and the texts. */
function apart(source: string): { code: string; texts: string[] } {
  const texts: string[] = []
  let code = ''
  for (let at = 0; at < source.length; at += 1) {
    const char = source[at] ?? ''
    if (char === '"' || (char === '/' && /(^|[(,{;!~&|?:=\n]|return|\bin)\s*$/.test(code.slice(-12)))) {
      const end = closing(source, at, char)
      if (char === '"') texts.push(source.slice(at + 1, end).replaceAll('\\"', '"'))
      code += '0'
      at = end
    } else if (char === '#') {
      const end = source.indexOf('\n', at)
      at = (end < 0 ? source.length : end) - 1
      if (end < 0) break
      at = end
      code += '\n'
    } else code += char
  }
  return { code, texts }
}

function closing(source: string, from: number, quote: string): number {
  let at = from + 1
  for (let bracket = false; at < source.length; at += 1) {
    if (source[at] === '\\') at += 1
    else if (quote === '/' && source[at] === '[') bracket = true
    else if (quote === '/' && source[at] === ']') bracket = false
    else if (source[at] === quote && !bracket) break
  }
  return at
}
