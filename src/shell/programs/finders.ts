import { isDynamic, unknown } from '../marks.ts'
import type { Program, Shell } from '../types.ts'

const executes = /^-(exec|execdir|ok|okdir)$/

/** Reads the arguments of find, and every command that find runs for the found files. */
export const find: Program = (args, shell) => {
  for (let at = 0; at < args.length; at += 1) {
    if (!executes.test(args[at] ?? '')) continue
    let end = at + 1
    while (end < args.length && args[end] !== ';' && !(args[end] === '+' && args[end - 1] === '{}')) end += 1
    perFile(args.slice(at + 1, end), shell)
    at = end
  }
}

/** Reads the arguments of fd, which runs the words after `-x` or `-X` for the found files. */
export const fd: Program = (args, shell) => {
  const at = args.findIndex((arg) => /^(-[a-zA-Z]*[xX]|--exec(-batch)?)$/.test(arg))
  const attached = args.find((arg) => /^--exec(-batch)?=/.test(arg))
  if (attached !== undefined) perFile([attached.slice(attached.indexOf('=') + 1)], shell)
  if (at < 0) return
  const words = args.slice(at + 1)
  const end = words.indexOf(';')
  perFile(end < 0 ? words : words.slice(0, end), shell)
}

/**
 * Reads a command that runs for each found file. The file name replaces `{}`, and this name is unknown. So if the name
 * of the program contains `{}`, the program is unknown too.
 */
const perFile = (words: readonly string[], shell: Shell): void =>
  shell.run(words.map((word) => word.replaceAll(/\{[/.]{0,2}\}/g, unknown)))

/** Reads the arguments of ripgrep, which can run a program on each file before it searches the file. */
export const rg: Program = (args, shell) => {
  for (const [at, arg] of args.entries()) {
    const value =
      /^--(?:pre|hostname-bin)=(.*)$/s.exec(arg)?.[1] ??
      (/^--(pre|hostname-bin)$/.test(arg) ? args[at + 1] : undefined)
    if (value === undefined || value === '') continue
    shell.note('script', '`rg` runs a program for every file')
    shell.code(value)
  }
}

/**
 * Reads the arguments of a program that looks up names. A server sees these names. So a name counts as egress if it is
 * only known when the command runs, or comes from a file.
 */
export const lookup: Program = (args, shell, _, name) => {
  if (args.some(isDynamic))
    shell.note('egress', `\`${name}\` asks for a name that is only known when it runs`)
  else if ((name === 'dig' && args.includes('-f')) || (name === 'fping' && args.includes('-f')))
    shell.note('egress', `\`${name}\` asks for names from a file`)
}
