import { isUnknown } from '../marks.ts'
import type { Call, Program, Shell } from '../types.ts'
import { expressionEnd } from './expressions.ts'
import { has, readOptions, valueOf, valuesOf } from './options.ts'
import { suspectEverything } from './wrappers.ts'

/**
 * Reads the arguments of ed, and its commands from standard input. The argument `!command` makes ed edit the output of
 * a command.
 */
export const ed: Program = (args, shell, call) => {
  const read = readOptions(args, {
    anywhere: true,
    flags: 'EGlrsvVh',
    values: 'p',
    long: 'prompt',
    longFlags: 'extended-regexp traditional loose-exit-status restricted quiet silent verbose version help',
  })
  const input = (call.input ?? '').split('\n')
  const codes = [...read.rest.map((word) => /^!(.*)$/s.exec(word)?.[1]), ...input.map(runByEd)]
  for (const code of codes) {
    if (code === undefined) continue
    shell.note('script', 'an editor runs a command')
    shell.code(code)
  }
}

/**
 * Returns the shell command in a line of ed; undefined if there is none. Examples: `!date`, `w !sh`, `r !ls`. Line
 * numbers, marks, searches and `g/expression/` may come first, as in `1,$w !sh`.
 */
function runByEd(line: string): string | undefined {
  if (isUnknown(line)) return line
  for (let at = 0; at < line.length;) {
    const char = line[at] ?? ''
    if (char === '/' || char === '?') at = expressionEnd(line, at + 1, char) + 1
    else if (/[gGvV]/.test(char)) at = expressionEnd(line, at + 2, line[at + 1] ?? '') + 1
    else if (char === "'") at += 2
    else if (/[\s\d.,;$%+^\uFFF0\uFFF1-]/.test(char)) at += 1
    else return /^(?:[eEfrwW]q?\s*)?!(.*)$/.exec(line.slice(at))?.[1]
  }
  return undefined
}

export const emacs: Program = (args, shell, _, name) => {
  const client = name === 'emacsclient' && args.some((arg) => /^-[a-z]*e/.test(arg))
  if (client || args.some((arg) => /^--?(ba|scr|ev|exec|lo|fu|l\b|f\b|x\b)/.test(arg)))
    shell.note('script', '`emacs` runs code')
}

/**
 * Reads the arguments of a pager. A pager runs the text after `+!`. The program `man` also runs the pager that an
 * option or a settings file names.
 */
export const pager: Program = (args, shell, _, name) => {
  const typed = args.map((arg) => /^\+\+?.*?[!|](.*)$/s.exec(arg)?.[1])
  for (const code of name === 'man' ? [...typed, ...toldToMan(args, shell)] : typed) {
    if (code === undefined || /^(cat|less|more|)$/.test(code)) continue
    shell.note('script', `\`${name}\` runs a command`)
    shell.code(code)
  }
}

function toldToMan(args: readonly string[], shell: Shell): string[] {
  const read = readOptions(args, {
    anywhere: true,
    flags: 'fkaiIucdDlKtTXZW7hVwHo',
    values: 'CRLmMSsErpPeB',
    long: 'pager config-file recode locale systems manpath sections extension encoding preprocessor prompt',
    longFlags: 'html',
  })
  if (has(read, 'C', 'config-file')) shell.note('script', '`man` is given its settings')
  const browsers = args.map((arg) => /^-[a-zA-Z]*?H(.+)$/s.exec(arg)?.[1] ?? '')
  return [...browsers, ...valuesOf(read, 'P', 'B', 'pager', 'html')]
}

/** Reads the arguments of screen, tmux or byobu. These programs run a command, or start a shell. */
export const terminal: Program = (args, shell, call, name) =>
  name === 'screen' ? screen(args, shell, call) : tmux(args, shell)

function tmux(args: readonly string[], shell: Shell): void {
  const at = args.findIndex((arg, index) => !arg.startsWith('-') && !/^-[fLScT]$/.test(args[index - 1] ?? ''))
  const verb = args[at] ?? ''
  const rest = args.slice(at + 1)
  if (at < 0) return shell.note('script', '`tmux` starts a shell')
  if (
    /^(ls|list-.*|has|has-session|kill-.*|attach|attach-session|a|capture-pane|capturep|display|display-message|info|show.*|rename.*|select-.*|detach.*|switch.*|resize.*|wait-for|save-buffer|saveb)$/.test(
      verb,
    )
  )
    return
  shell.note('script', '`tmux` runs commands')
  for (const word of rest) if (!word.startsWith('-')) shell.code(word)
  shell.code(rest.filter((word) => !word.startsWith('-')).join(' '))
}

function screen(args: readonly string[], shell: Shell, call: Call): void {
  if (args.some((arg) => /^-(ls|list|r|x|wipe|v)$/.test(arg))) return
  shell.note('script', '`screen` starts a shell or a program')
  const stuff = args.indexOf('stuff')
  if (stuff >= 0) return shell.code(args.slice(stuff + 1).join(' '))
  const valued = /^-([cehpsStT]|\w*S)$/
  const at = args.findIndex((arg, index) => !arg.startsWith('-') && !valued.test(args[index - 1] ?? ''))
  if (at >= 0) shell.run(args.slice(at), call)
}

const scriptOptions = {
  // The options of Linux and BSD together. On BSD, `-t` takes a value. On Linux, `-t` can have a value only in the same
  // word.
  flags: 'aefFqdkprtVh',
  values: 'cEIBOTmo',
  long: 'command echo log-in log-io log-out log-timing logging-format output-limit',
  longFlags: 'append return flush force timing quiet version help',
}

/**
 * Reads the arguments of the program `script`. This program starts a shell or runs a command. The command is the value
 * of `-c`. On BSD, the words after the file can also be the command.
 */
export const script: Program = (args, shell, call) => {
  if (args.length === 1 && /^--(help|version)$/.test(args[0] ?? '')) return
  const read = readOptions(args, { ...scriptOptions, anywhere: true })
  if (read.unsure) suspectEverything(args, shell)
  const code = valueOf(read, 'c', 'command')
  if (code !== undefined) shell.code(code)
  const [, ...command] = readOptions(args, scriptOptions).rest
  if (command[0] === '--') command.shift()
  if (command.length > 0) shell.run(command, call)
  if (has(read, 't') || (code === undefined && command.length === 0))
    shell.note('script', '`script` starts a shell')
}
