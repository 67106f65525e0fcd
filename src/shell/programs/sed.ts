import { isUnknown, withoutUnknowns } from '../marks.ts'
import type { Program, Shell } from '../types.ts'
import { expressionEnd, textEnd } from './expressions.ts'
import { has, readOptions } from './options.ts'

/** A script if the sed program has the command or flag `e`, comes from a file or cannot be read. */
export const sed: Program = (args, shell) => {
  const read = readOptions(args, {
    options:
      '-nrEsuze:f:l:I: expression= file= line-length= quiet silent debug posix regexp-extended separate sandbox unbuffered null-data zero-terminated follow-symlinks in-place help version',
    anywhere: true,
  })
  if (has(read, 'sandbox')) return
  const programs = read.options.flatMap(([name, value]) =>
    name === 'e' || name === 'expression' ? [value ?? ''] : [],
  )
  if (has(read, 'f', 'file')) shell.note('script', '`sed` runs a program from a file')
  else if (programs.length === 0 && read.rest[0] !== undefined) programs.push(read.rest[0])
  for (const program of programs) {
    if (isUnknown(program)) shell.note('script', "`sed`'s program is only known when it runs")
    readProgram(withoutUnknowns(program), shell)
  }
}

function readProgram(program: string, shell: Shell): void {
  let at = 0
  const char = (): string => program[at] ?? ''
  /** Moves past the next delimiter and returns the text before it. */
  const over = (delimiter: string, end = expressionEnd): string => {
    const from = at
    at = end(program, from, delimiter) + 1
    return program.slice(from, at - 1)
  }
  const line = (): string => {
    const end = program.indexOf('\n', at)
    const text = program.slice(at, end < 0 ? undefined : end)
    at = end < 0 ? program.length : end
    return text
  }
  while (at < program.length) {
    if (/[\s;{}!,~+\d$]/.test(char())) at += 1
    else if (char() === '/') {
      at += 1
      over('/')
      while (/[IM]/.test(char())) at += 1
    } else if (char() === '\\') {
      const delimiter = program[at + 1] ?? ''
      at += 2
      over(delimiter)
      while (/[IM]/.test(char())) at += 1
    } else if (char() === 's' || char() === 'y') {
      const command = char()
      const delimiter = program[at + 1] ?? ''
      at += 2
      over(delimiter, command === 'y' ? textEnd : expressionEnd)
      const replacement = over(delimiter, textEnd)
      if (command === 's') {
        const flags = /^[gpiImMe\d]*/.exec(program.slice(at))?.[0] ?? ''
        at += flags.length
        if (flags.includes('e')) shell.runsText('`sed` runs what it has put together', replacement)
        if (char() === 'w') line()
      }
    } else if (char() === 'e') {
      at += 1
      shell.runsText('`sed` runs a command', line())
    } else if (/[aicrRwW:btT#]/.test(char())) {
      // A label ends at a semicolon, a brace or the end of the line; a text or file name at a line without a backslash.
      if (/[:btT]/.test(char())) while (at < program.length && !/[;\n}]/.test(char())) at += 1
      else while (line().endsWith('\\') && at < program.length) at += 1
    } else if (/[dDgGhHlnNpPqQxzFv=]/.test(char())) at += 1
    else return shell.note('script', "`sed`'s program cannot be read")
  }
}
