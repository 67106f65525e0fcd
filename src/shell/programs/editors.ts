import { isUnknown } from '../marks.ts'
import type { Call, Program, Shell } from '../types.ts'
import { has, readOptions, valueOf, valuesOf } from './options.ts'
import { suspectEverything } from './wrappers.ts'

/** Whatever follows `!` may be a command: `!date`, `w !sh`, and the argument `!command`. */
export const ed: Program = (args, shell, { input, fed }) => {
  if (fed && input === undefined) shell.note('script', 'an editor is given commands that are not known')
  for (const line of [...args, ...(input ?? '').split('\n')]) {
    const code = isUnknown(line) ? line : /!(.*)$/s.exec(line)?.[1]
    if (code !== undefined) shell.runsText('an editor runs a command', code)
  }
}

export const emacs: Program = (args, shell, _, name) => {
  const client = name === 'emacsclient' && args.some((arg) => /^-[a-z]*e/.test(arg))
  if (client || args.some((arg) => /^--?(ba|scr|ev|exec|lo|fu|l\b|f\b|x\b)/.test(arg)))
    shell.note('script', '`emacs` runs code')
}

/** A pager runs the text after `+!`. `man` also runs the pager that an option or a settings file names. */
export const pager: Program = (args, shell, _, name) => {
  const typed = args.map((arg) => /^\+\+?.*?[!|](.*)$/s.exec(arg)?.[1])
  for (const code of name === 'man' ? [...typed, ...toldToMan(args, shell)] : typed) {
    if (code === undefined || /^(cat|less|more|)$/.test(code)) continue
    shell.runsText(`\`${name}\` runs a command`, code)
  }
}

function toldToMan(args: readonly string[], shell: Shell): string[] {
  const read = readOptions(args, { anywhere: true, options: '-C:P:B:H:: config-file= pager= html=' })
  if (has(read, 'C', 'config-file')) shell.note('script', '`man` is given its settings')
  return valuesOf(read, 'P', 'B', 'H', 'pager', 'html')
}

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
  // The options of Linux and BSD: on BSD `-t` takes a value, on Linux only one in the same word.
  options:
    '-aefFqdkprtVhc:E:I:B:O:T:m:o: command= echo= log-in= log-io= log-out= log-timing= logging-format= output-limit= append return flush force timing quiet version help',
}

/** Starts a shell or runs the value of `-c`. On BSD, the words after the file can also be the command. */
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
