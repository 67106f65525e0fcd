import type { Call, Program, Shell } from '../types.ts'

const runsInVim =
  /!|\b(system|systemlist|job_start|jobstart|term_start|termopen|libcall|writefile)\s*\(|^\s*:?\s*(te|term|terminal|py|py3|pyx|python3?|lua|luafile|perl|ruby|tcl|mz|so|source|ru|runtime|make|grep|exe|execute|call|norm|normal|mak|lmake|cexpr|cgetexpr)\b/

/** vi and its kin: what `-c` and `+` make them do; a file of commands nobody has read. */
export const vim: Program = (args, shell, call) => {
  for (const [at, arg] of args.entries()) {
    if (arg === '-S' || arg === '-l' || arg === '-s' || arg === '-u') {
      if (!/^(NONE|NORC|DEFAULTS)$/.test(args[at + 1] ?? '')) shell.note('script', 'an editor runs a file')
    }
    const command = arg === '-c' || arg === '--cmd' ? args[at + 1] : /^\+(\D.*)$/s.exec(arg)?.[1]
    if (command !== undefined) editorCommand(command, shell)
  }
  for (const line of (call.input ?? '').split('\n'))
    if (args.some((arg) => /^-[a-zA-Z]*[es]/.test(arg))) editorCommand(line, shell)
}

function editorCommand(command: string, shell: Shell): void {
  if (!runsInVim.test(command)) return
  if (/^:?(wq?|x|q|qa|wqa|e|edit|w)!$/.test(command.trim())) return
  shell.note('script', 'an editor runs a command')
  const code = /!(.*)$/s.exec(command)?.[1]
  if (code !== undefined) shell.code(code)
}

/** ed and ex read commands from their input; lines with `!` are run. */
export const ed: Program = (args, shell, call, name) => {
  if (name === 'ex') vim(args, shell, { ...call, input: undefined }, name)
  if (call.input === undefined) return
  for (const line of call.input.split('\n')) {
    const code = /^[\d,$.%]*\s*(?:[rwe]\s*)?!(.*)$/.exec(line)?.[1]
    if (code === undefined) continue
    shell.note('script', 'an editor runs a command')
    shell.code(code)
  }
}

export const emacs: Program = (args, shell, _, name) => {
  const client = name === 'emacsclient' && args.some((arg) => /^-[a-z]*e/.test(arg))
  if (client || args.some((arg) => /^--?(ba|scr|ev|exec|lo|fu|l\b|f\b|x\b)/.test(arg)))
    shell.note('script', '`emacs` runs code')
}

/** Pagers run what stands behind `+!`, or behind `-P` of man. */
export const pager: Program = (args, shell, _, name) => {
  for (const [at, arg] of args.entries()) {
    const typed = /^\+\+?.*?[!|](.*)$/s.exec(arg)?.[1]
    const program =
      name === 'man'
        ? (/^(?:-P|--pager=|-H|--html=)(.+)$/s.exec(arg)?.[1] ??
          (/^(-P|--pager)$/.test(arg) ? args[at + 1] : undefined))
        : undefined
    const code = typed ?? program
    if (code === undefined || /^(cat|less|more)$/.test(code)) continue
    shell.note('script', `\`${name}\` runs a command`)
    shell.code(code)
  }
}

/** Programs that are opened in a terminal of their own: with a command, or with a shell. */
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

/** util-linux' `script`: a shell, or the command of `-c` or behind the file. */
export const script: Program = (args, shell, call) => {
  const at = args.findIndex((arg) => /^-[a-zA-Z]*c$|^--command$/.test(arg))
  const attached = args.map((arg) => /^--command=(.*)$/s.exec(arg)?.[1]).find((code) => code !== undefined)
  const code = attached ?? (at < 0 ? undefined : args[at + 1])
  if (code !== undefined) return shell.code(code)
  if (args.length === 1 && /^--(help|version)$/.test(args[0] ?? '')) return
  const rest = args.filter((arg) => !/^-[a-zA-Z]+$/.test(arg))
  const command = rest[0] === '--' ? rest.slice(1) : rest.slice(1)
  if (command.length > 0) shell.run(command[0] === '--' ? command.slice(1) : command, call)
  else shell.note('script', '`script` starts a shell')
}
