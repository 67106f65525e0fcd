import { parse, forEachChild, type SyntaxNode } from 'unbash'
import { deepestRuns, longest, longestScan, perCode, perCommand, readable } from './limits.ts'
import { asCode, isDynamic, unknown } from './marks.ts'
import { runProgram } from './programs/known-programs.ts'
import { collect, unread } from './read/collect.ts'
import { callFunction, evaluate, evaluateUncalled } from './read/evaluate.ts'
import { define, FunctionBody, State, spend, Tangled } from './read/state.ts'
import { readVariable } from './programs/environment.ts'
import { readPowerShell } from './powershell/classify.ts'
import { scanPowerShell } from './powershell/scan.ts'
import { scanForSenders } from './scan.ts'
import { mostNames, noInput, type Shell, type ShellKind, type ShellReading } from './types.ts'

const weight: Readonly<Record<ShellKind, number>> = { write: 0, script: 1, egress: 2 }
const nothingFound = 'nothing in it sends data out or runs a script'

interface Found {
  readonly kind: ShellKind
  readonly because: readonly string[]
}
const harmless: Found = { kind: 'write', because: [] }

/**
 * Returns the worst effect of a Bash command, read as bash does. A part that cannot be read counts as a script, or as
 * egress if it contains the name of a program that sends data out (a sender). Never throws, and takes less than 5 ms
 * for any text. docs/decisions/0029 explains the choices.
 */
export const classifyCommand = (command: string): ShellReading =>
  readAs(
    command,
    (text, state) => {
      readCode(text, state)
      evaluateUncalled(state)
    },
    unread,
  )

/** The same for a PowerShell command. */
export const classifyPowerShell = (command: string): ShellReading =>
  readAs(
    command,
    (text, { shell }) => readPowerShell(text, shell),
    (text, { shell }) => scanPowerShell(text, shell),
  )

/** `scan` searches a text that takes too long to read. */
function readAs(
  command: string,
  read: (text: string, state: State) => void,
  scan: (text: string, state: State) => void,
): ShellReading {
  let found = harmless
  const scripts = new Set<string>()
  const programs = new Set<string>()
  const writes = new Set<string>()
  const note: Shell['note'] = (kind, because) => {
    if (weight[kind] > weight[found.kind]) found = { kind, because: [because] }
    else if (kind === found.kind && found.because.length < 4 && !found.because.includes(because))
      found = { kind, because: [...found.because, because] }
  }
  const attempt: Shell['attempt'] = (act) => {
    const before = found
    found = harmless
    try {
      act()
      return found.kind
    } finally {
      found = before
    }
  }
  const shell: Shell = {
    note,
    attempt,
    runsText: (because, text) => {
      note('script', because)
      shell.code(text)
    },
    suspects: (because, act) => {
      if (attempt(act) === 'egress') note('egress', because)
    },
    script: (file) => {
      if (file === undefined || file === '' || file.length > 4_096) return
      // An open file of the shell itself, such as `/dev/stdin`, is no script on the disk.
      if (scripts.size < 16 && !/^-|^\/(dev|proc)\//.test(file)) scripts.add(asCode(file))
    },
    run: (words, call = noInput) => run(words, call, state),
    starts: (program) => void (programs.size < mostNames && programs.add(program)),
    writes: (path) => void (writes.size < mostNames && writes.add(path)),
    code: (text, words) => readWith(words, state, () => readCode(text, state)),
    environment: (name, value) => readVariable(name, value, shell),
    isFunction: (name) => state.functions.has(name),
    sets: (name, value = unknown) => setByBuiltin(name, value, state),
  }
  const state = new State(shell)
  // The cut is at the longest argument that Linux accepts. It also limits the time of the search.
  const start = command.slice(0, longestScan)
  const text = start.replaceAll('\0', '')
  if (text.length < start.length) note('script', 'the command has a character that shells drop')
  try {
    read(text, state)
  } catch {
    // The limit of steps or the call stack is used up.
    note('script', 'the command is too tangled to read')
    scan(text, state)
  }
  return {
    kind: found.kind,
    because: found.because.join(', and ') || nothingFound,
    scripts: [...scripts],
    programs: [...programs],
    writes: [...writes],
  }
}

/** Defines a variable that `collect` has not found: in `x=read; $x name`, no text shows that `read` sets `name`. */
function setByBuiltin(target: string, value: string, state: State): void {
  const [name = '', ...index] = target.split(/(?=\[|\uFFF3$)/)
  const known = state.definitions.get(name)
  if (value === unknown && known?.some(({ builtin }) => builtin === true) === true) return
  const indexed = index.length > 0
  define(state, new FunctionBody(), name, { append: false, values: () => [[value]], builtin: true, indexed })
}

/** `words` are `$0`, `$1` and so on for `act`: in `sh -c text name a b`, they are `name`, `a` and `b`. */
function readWith(words: readonly string[] | undefined, state: State, act: () => void): void {
  const { positional, zero } = state
  if (words !== undefined) {
    state.zero = words[0]
    state.positional = words.slice(1)
  }
  act()
  state.positional = positional
  state.zero = zero
}

function readCode(text: string, state: State): void {
  nested(state, () => {
    if (isDynamic(text)) state.shell.note('script', 'it runs a text that is only known when it runs')
    const code = asCode(text)
    const { length, because } = readable(code)
    const read = because === undefined || onlyTangledInHeredocs(code) ? code : code.slice(0, length)
    if (read.length < code.length && because !== undefined) {
      state.shell.note('script', because)
      searchRest(code, state)
    }
    if (state.depth > 1) spend(state, read.length + perCode)
    evaluate(collect(parse(read), read, state), state)
  })
}

/** Whether a text is too tangled only because of its quoted heredocs, which the shell does not run. */
function onlyTangledInHeredocs(code: string): boolean {
  if (code.length > longest) return false
  const shorter = withoutHeredocs(code)
  return shorter !== undefined && readable(shorter).because === undefined
}

/** Searches what was not read for senders. A command that only writes quoted heredocs to files is no sender. */
function searchRest(code: string, state: State): void {
  const shorter = code.length > longest && code.length <= longestScan ? withoutHeredocs(code) : undefined
  const writes =
    shorter !== undefined &&
    readable(shorter).because === undefined &&
    state.shell.attempt(() => readCode(shorter, state)) === 'write'
  const sender = scanForSenders(writes ? shorter : code)
  if (sender !== undefined) state.shell.note('egress', `\`${sender}\` sends data out`)
}

function run(words: readonly string[], call: typeof noInput, state: State): void {
  nested(state, () => {
    spend(state, words.length + perCommand)
    for (const body of [...(state.functions.get(words[0] ?? '') ?? [])])
      callFunction(body, words.slice(1), state)
    runProgram(words, state.shell, call)
  })
}

/** Limits the depth of commands that run commands, and of functions that call themselves. */
function nested(state: State, act: () => void): void {
  state.depth += 1
  if (state.depth > deepestRuns) throw new Tangled()
  act()
  state.depth -= 1
}

const opening = /<<(-?)[ \t]*(?:'([^'\n]+)'|"([^"\n$`\\]+)"|\\([\w.]+))([^\n]*)\n/g

/**
 * Without the bodies of quoted heredocs. Undefined without any, or if the parser then finds others (disguised code).
 */
export function withoutHeredocs(text: string): string | undefined {
  let shorter = ''
  let from = 0
  const delimiters: string[] = []
  opening.lastIndex = 0
  for (let match = opening.exec(text); match !== null; match = opening.exec(text)) {
    const [all, dash, single, double, escaped, rest = ''] = match
    const delimiter = single ?? double ?? escaped ?? ''
    const start = match.index + all.length
    const end = closing(text, start, delimiter, dash === '-')
    if (end === undefined || rest.includes('<<') || delimiters.length > 20) return undefined
    delimiters.push(delimiter)
    shorter += text.slice(from, start)
    from = end
    opening.lastIndex = end
  }
  shorter += text.slice(from)
  return delimiters.length > 0 && sees(shorter, delimiters) ? shorter : undefined
}

function closing(text: string, start: number, delimiter: string, tabs: boolean): number | undefined {
  for (let at = start; at <= text.length;) {
    const newline = text.indexOf('\n', at)
    const end = newline < 0 ? text.length : newline
    const line = text.slice(at, end)
    if ((tabs ? line.replace(/^\t+/, '') : line) === delimiter) return at
    at = end + 1
  }
  return undefined
}

function sees(text: string, delimiters: readonly string[]): boolean {
  if (text.length > 4000) return false
  const found: string[] = []
  let sound = true
  const visit = (node: SyntaxNode): void => {
    if (node.type === 'Script' && node.errors !== undefined && node.errors.length > 0) sound = false
    if (node.type === 'HereDoc' && node.delimiter?.quoted === true && node.body.text === '')
      found.push(node.delimiter.value)
    if (found.length <= delimiters.length) forEachChild(node, visit)
  }
  visit(parse(text))
  return sound && found.length === delimiters.length && found.every((each, at) => each === delimiters[at])
}
